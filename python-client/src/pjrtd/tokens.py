"""The tokens of remote sessions, in a file of the user's own: whoever knows a token may use the session.

`$XDG_STATE_HOME/pjrtd/tokens` (`~/.local/state` without that): JSON, {target: {name: token}}, in a folder that only its
owner may enter. It is replaced as a whole, by renaming, so another process reads the old one or the new one.
"""

from __future__ import annotations

import json
import os
import stat

from .errors import FailedPrecondition, PermissionDenied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def folder() -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.expanduser("~/.local/state")
    return os.path.join(state, "pjrtd")


def path() -> str:
    return os.path.join(folder(), "tokens")


def find(target: str, name: str) -> str | None:
    """The token of the session of that name at that target, or None."""
    return _read().get(target, {}).get(name)


def put(target: str, name: str, token: str) -> None:
    """Notes a token."""
    _change(target, name, token)


def forget(target: str, name: str, token: str) -> None:
    """Drops a token that is of no session any more, unless another one has taken its place."""
    _change(target, name, None, token)


def _check(information: os.stat_result, what: str, mode: str) -> None:
    """Raises PermissionDenied for what others could have written or can read."""
    if information.st_uid != os.geteuid():
        raise PermissionDenied(f"{what} belongs to user {information.st_uid}, and holds secrets of yours")
    if information.st_mode & 0o077:
        raise PermissionDenied(
            f"{what} holds secrets, and others may use it: its mode is {stat.S_IMODE(information.st_mode):04o}",
            hint=f"`chmod {mode} {what}`, if nobody else has read it; else delete it, and close the sessions",
        )


def _read() -> dict[str, dict[str, str]]:
    where = path()
    try:
        with open(where, encoding="utf-8") as file:
            _check(os.fstat(file.fileno()), where, "600")
            _check(os.stat(folder()), folder(), "700")
            read: Any = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FailedPrecondition(f"{where} is not JSON: {error}", hint="delete it; sessions need to be opened anew") from error
    return {target: dict(names) for target, names in _entries(read, where)}


def _entries(read: Any, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    if not isinstance(read, dict):
        raise FailedPrecondition(f"{where} is not a table of tokens", hint="delete it; sessions need to be opened anew")
    for target, names in read.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(names, dict):
            yield str(target), {str(name): str(token) for name, token in names.items()}  # pyright: ignore


def _change(target: str, name: str, token: str | None, only: str | None = None) -> None:
    """Puts a token, or None, in the place of what is there (if that is `only`, where that is given)."""
    import fcntl

    made = folder()
    os.makedirs(os.path.dirname(made), exist_ok=True)
    try:
        os.mkdir(made, 0o700)
    except FileExistsError:
        _check(os.stat(made), made, "700")
    lock = os.open(os.path.join(made, "tokens.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = _read()
        names = table.setdefault(target, {})
        if only is not None and names.get(name) != only:
            return
        if token is not None:
            names[name] = token
        else:
            names.pop(name, None)
            if not names:
                del table[target]
        fresh = f"{path()}.{os.getpid()}"
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(file, "w", encoding="utf-8") as writer:
                json.dump(table, writer, indent=1)
                writer.flush()
                os.fsync(writer.fileno())
            os.replace(fresh, path())
        except BaseException:
            os.unlink(fresh)
            raise
    finally:
        os.close(lock)
