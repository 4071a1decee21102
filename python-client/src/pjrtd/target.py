"""Targets: where a daemon is. `unix:PATH`, `grpc://HOST:PORT`, `grpcs://HOST:PORT`."""

from __future__ import annotations

import os

from .errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .transport import Transport

_HINT = (
    "a target is unix:PATH, such as unix:/run/pjrtd/pjrtd.sock, grpc://HOST:PORT or grpcs://HOST:PORT; without one "
    "PJRTD_TARGET is used, then $XDG_RUNTIME_DIR/pjrtd.sock, then /run/pjrtd/pjrtd.sock"
)


def default_target() -> str:
    """PJRTD_TARGET; without it the user's own socket if there is one, else the system's."""
    target = os.environ.get("PJRTD_TARGET")
    if target:
        return target
    folder = os.environ.get("XDG_RUNTIME_DIR")
    if folder:
        path = f"{folder}/pjrtd.sock"
        if os.path.exists(path):
            return f"unix:{path}"
    return "unix:/run/pjrtd/pjrtd.sock"


def resolve(target: str | os.PathLike[str] | None) -> str:
    """The target to use, as text. Raises InvalidArgument, explaining targets, for what is none."""
    text = default_target() if target is None else os.fspath(target)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a target is a str, not {type(text).__name__}")
    scheme = text.partition(":")[0]
    if scheme == "unix" and len(text) > 5:
        return text
    if text.startswith(("grpc://", "grpcs://")):
        return text
    name = os.path.basename(text)
    if ".so" in name or ".dylib" in name or name.endswith(".dll"):
        raise InvalidArgument(
            f"{text!r} is a plugin, and pjrtd's clients do not load plugins: the daemon does",
            hint=f"start it with `pjrtd --plugin {text}` and connect to it; {_HINT}",
        )
    if os.path.exists(text):
        raise InvalidArgument(f"{text!r} is a path and not a target", hint=f"for a socket write unix:{text}; {_HINT}")
    raise InvalidArgument(f"{text!r} is not a target", hint=_HINT)


#: Whether some target of this process was grpcs://, so that `ssl` is, or is just being, imported.
tls_is_used = False


def open_transport(target: str, timeout_s: float | None, ca_file: str | os.PathLike[str] | None = None) -> Transport:
    """A connected transport to a resolved target. Raises Unavailable where nobody listens."""
    if target.startswith("grpcs://"):
        global tls_is_used
        tls_is_used = True
        from .grpcs_transport import GrpcsTransport

        return GrpcsTransport.connect(target, timeout_s, os.fspath(ca_file) if ca_file else os.environ.get("PJRTD_CA_FILE"))
    if ca_file is not None:
        raise InvalidArgument(f"ca_file is for grpcs:// targets, and the target is {target}")
    if target.startswith("unix:"):
        from .local_transport import LocalTransport

        return LocalTransport.connect(target[5:], timeout_s)
    from .grpc_transport import GrpcTransport

    return GrpcTransport.connect(target, timeout_s)
