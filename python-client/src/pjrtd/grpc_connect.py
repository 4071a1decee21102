"""Targets grpc://HOST:PORT and grpcs://HOST:PORT, and a TCP connection to one."""

from __future__ import annotations

from time import monotonic

try:  # as in local_transport.py
    import _socket as socket
except ImportError:
    import socket

from .errors import DeadlineExceeded, InvalidArgument, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

DEFAULT_PORT = 7578

#: After so long without traffic the kernel asks whether the peer is there, so that nothing on the way forgets the
#: connection, in seconds; and it asks this often before it gives up.
_KEEPALIVE_IDLE_S = 60
_KEEPALIVE_PROBES = 4


def parse_target(target: str) -> tuple[str, int, str]:
    """(host, port, authority as HTTP names it) of a gRPC target. Raises InvalidArgument."""
    scheme, _, rest = target.partition("://")
    hint = f"write {scheme}://HOST:PORT, such as {scheme}://127.0.0.1:{DEFAULT_PORT} or {scheme}://[::1]:{DEFAULT_PORT}"
    host, colon, port = rest.rpartition(":")
    if rest.startswith("["):
        if rest.endswith("]"):
            host, colon, port = rest, "", ""
        if not host.endswith("]"):
            raise InvalidArgument(f"{target!r} is not a target: the bracket of its address is not closed", hint=hint)
        bare = host[1:-1]
    else:
        if not colon:
            host, port = rest, ""
        bare = host
        if ":" in bare:
            raise InvalidArgument(f"{target!r} is not a target: an IPv6 address stands in brackets", hint=hint)
    if not bare or not bare.isprintable() or any(sign in bare for sign in "/?#@[] \\"):
        raise InvalidArgument(f"{target!r} is not a target: {bare!r} is no host", hint=hint)
    if not colon:
        return bare, DEFAULT_PORT, f"{host}:{DEFAULT_PORT}"
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise InvalidArgument(f"{target!r} is not a target: {port!r} is no port", hint=hint)
    return bare, int(port), f"{host}:{int(port)}"


def connect(target: str, host: str, port: int, until: float | None) -> socket.socket:
    """A connection to the first address of the host that accepts one by `until` (time.monotonic seconds); each gets its
    part of the time."""
    failures: list[str] = []
    addresses = _resolve(target, host, port)
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        left_s = None if until is None else (until - monotonic()) / (len(addresses) - number)
        if left_s is not None and left_s <= 0:
            break
        link = socket.socket(family, kind, protocol)
        try:
            link.settimeout(left_s)
            link.connect(address)
            _prepare(link)
            return link
        except OSError as error:
            link.close()
            why = "it did not accept in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
            failures.append(f"{address[0]} port {port}: {why}")
        except BaseException:
            link.close()
            raise
    _refuse(target, failures)


def _prepare(link: socket.socket) -> None:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", _KEEPALIVE_PROBES)):
        option = getattr(socket, name, None)  # not every system has them
        if option is not None:
            link.setsockopt(socket.IPPROTO_TCP, option, value)


def _resolve(target: str, host: str, port: int) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    try:
        # As bytes, a name needs no codec.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Unavailable(
            f"cannot connect to {target}: the name {host!r} cannot be resolved: {why}",
            hint="check the name, or give an address",
        ) from error
    return found  # pyright: ignore[reportReturnType]


def _refuse(target: str, failures: list[str]) -> NoReturn:
    listen = f"start the daemon with `pjrtd --plugin FILE --listen {target}`, or name a running one in PJRTD_TARGET"
    if not failures:
        raise DeadlineExceeded(f"cannot connect to {target}: the time for it was over before it began")
    raise Unavailable(f"cannot connect to {target}: {'; '.join(failures)}", hint=listen)
