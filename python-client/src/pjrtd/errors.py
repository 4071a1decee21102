"""Exceptions: one class for each of PJRT's status codes.

    try:
        exe = client.compile(text)
    except pjrtd.errors.InvalidArgument as error:
        print(error.message)  # what the compiler said, whole
        print(error.hint)     # what to do about it; may be ""

Every error of the daemon, of the plugin behind it and of this package's own checks is a PjrtError. Mistakes that no
daemon could judge, such as an object that is no array, are TypeError and ValueError as everywhere in Python.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ._proto.common import Error as WireError


class ArgumentDetail:
    """Which argument was wrong, and how.

    index: position among the program's arguments (of one device), or in the request's own list.
    expected, actual: in words or as a type, such as "f32[4]", "device 0" or "2 arguments".
    """

    __slots__ = ("index", "expected", "actual")

    def __init__(self, index: int, expected: str, actual: str) -> None:
        self.index = index
        self.expected = expected
        self.actual = actual

    def __repr__(self) -> str:
        return f"ArgumentDetail(index={self.index}, expected={self.expected!r}, actual={self.actual!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArgumentDetail):
            return NotImplemented
        return (self.index, self.expected, self.actual) == (other.index, other.expected, other.actual)

    def __hash__(self) -> int:
        return hash((self.index, self.expected, self.actual))


class BufferDetail:
    """A buffer that takes much room, in an error for want of it.

    session: the session that knows the id. buffer: its id; 0 where it is only held by `slot`. type: "f32[1024,1024]".
    device: the device's id.
    """

    __slots__ = ("session", "buffer", "slot", "bytes", "type", "device")

    def __init__(self, session: int, buffer: int, slot: str, bytes: int, type: str, device: int) -> None:
        self.session = session
        self.buffer = buffer
        self.slot = slot
        self.bytes = bytes
        self.type = type
        self.device = device

    def __repr__(self) -> str:
        return (
            f"BufferDetail(session={self.session}, buffer={self.buffer}, slot={self.slot!r}, bytes={self.bytes}, "
            f"type={self.type!r}, device={self.device})"
        )


class QuotaDetail:
    """The quota that was reached.

    setting: the daemon's, such as "max_session_device_bytes". used, allowed: of it. needed: by the call.
    """

    __slots__ = ("setting", "used", "allowed", "needed")

    def __init__(self, setting: str, used: int, allowed: int, needed: int) -> None:
        self.setting = setting
        self.used = used
        self.allowed = allowed
        self.needed = needed

    def __repr__(self) -> str:
        return (
            f"QuotaDetail(setting={self.setting!r}, used={self.used}, allowed={self.allowed}, needed={self.needed})"
        )


class PjrtError(RuntimeError):
    """Base of every error of pjrtd.

    code: PJRT's status code, 1 to 16 (they are gRPC's); the subclass says the same.
    message: whole; what a plugin said is not shortened.
    hint: what to do about it, or "".
    argument: which argument was wrong, where one was; else None.
    origin_call: the call that failed first, where this one failed because of it; else 0.
    retry_after_s: when another try may succeed, in seconds; 0 where waiting does not help.
    allocator: the device's allocator statistics, where the device ran out of memory.
    biggest: your buffers that take most, where there was no room; the message tells of them, too.
    quota: which quota was reached, where one was; else None.
    """

    code: int = 2

    def __init__(
        self,
        message: str,
        code: int | None = None,
        *,
        hint: str = "",
        argument: ArgumentDetail | None = None,
        origin_call: int = 0,
        retry_after_s: float = 0.0,
        allocator: Mapping[str, Any] | None = None,
        biggest: Sequence[BufferDetail] = (),
        quota: QuotaDetail | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.hint = hint
        self.argument = argument
        self.origin_call = origin_call
        self.retry_after_s = retry_after_s
        self.allocator: dict[str, Any] = dict(allocator or {})
        self.biggest: list[BufferDetail] = list(biggest)
        self.quota = quota

    def __str__(self) -> str:
        parts = [self.message]
        if self.allocator:
            parts.append("device memory: " + ", ".join(f"{name}={value}" for name, value in self.allocator.items()))
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n  ".join(parts)

    def again(self) -> PjrtError:
        """The same error as a fresh exception: one instance raised twice would collect both tracebacks."""
        return type(self)(
            self.message,
            self.code,
            hint=self.hint,
            argument=self.argument,
            origin_call=self.origin_call,
            retry_after_s=self.retry_after_s,
            allocator=self.allocator,
            biggest=self.biggest,
            quota=self.quota,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.code), self.__dict__


class Cancelled(PjrtError):
    """The call was cancelled."""

    code = 1


class Unknown(PjrtError):
    """The plugin did not say what kind of error it is."""

    code = 2


class InvalidArgument(PjrtError):
    """The request is wrong: the message names what, `argument` what was expected."""

    code = 3


class DeadlineExceeded(PjrtError, TimeoutError):
    """The call's time ran out. What runs on the device cannot be stopped; its outputs are poisoned."""

    code = 4


class NotFound(PjrtError):
    """No such thing in this session."""

    code = 5


class AlreadyExists(PjrtError):
    """It is there already."""

    code = 6


class PermissionDenied(PjrtError):
    """This user lacks the right."""

    code = 7


class ResourceExhausted(PjrtError):
    """A bound was reached: device memory, calls in flight. See `allocator` and `retry_after_s`."""

    code = 8


class FailedPrecondition(PjrtError):
    """Not in this state."""

    code = 9


class Aborted(PjrtError):
    """Given up because of a conflict."""

    code = 10


class OutOfRange(PjrtError):
    """Beyond the valid range."""

    code = 11


class Unimplemented(PjrtError):
    """This plugin, daemon or client does not have it."""

    code = 12


class Internal(PjrtError):
    """Something that must not happen happened."""

    code = 13


class Unavailable(PjrtError):
    """No daemon answers, or it is going down; another try may succeed."""

    code = 14


class DataLoss(PjrtError):
    """Data is damaged or lost."""

    code = 15


class Unauthenticated(PjrtError):
    """The daemon does not know who is calling."""

    code = 16


class HandleClosed(InvalidArgument):
    """A buffer, program or client was used after close(), or a buffer after a program consumed it (donation)."""


class SessionLost(Aborted, UserWarning):
    """The session is gone, with all that it held, and began anew: the daemon was restarted, or the lease ended.

    Calls that were under way fail with it, and so do later uses of what was made before. It is also the category of the
    warning that is given once each time.
    """


class UnsupportedByPlugin(Unimplemented):
    """A capability that the plugin does not advertise."""


class SessionIdleWarning(UserWarning):
    """The session was about to end, because no call was made for long (the daemon's session_idle_seconds)."""


BY_CODE: dict[int, type[PjrtError]] = {
    kind.code: kind
    for kind in (
        Cancelled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    )
}


def session_lost() -> SessionLost:
    """For a call that was made for a session that is gone."""
    return SessionLost(
        "the session was lost while the call was made, and began anew", hint="what it held is gone: make it again"
    )


def make(code: int, message: str) -> PjrtError:
    """The exception for a status code; Unknown, with that code, for one that PJRT does not have."""
    return BY_CODE.get(code, Unknown)(message, code)


def from_wire(error: WireError) -> PjrtError:
    """The exception for the payload of an ERROR frame."""
    from .attribute import attribute_values

    argument = error.argument
    quota = error.quota
    return BY_CODE.get(error.code, Unknown)(
        error.message,
        error.code,
        hint=error.hint,
        argument=None if argument is None else ArgumentDetail(argument.index, argument.expected, argument.actual),
        origin_call=error.origin_call,
        retry_after_s=error.retry_after_ns / 1e9,
        allocator=attribute_values(error.allocator),
        biggest=[BufferDetail(of.session, of.buffer, of.slot, of.bytes, of.type, of.device) for of in error.biggest],
        quota=None if quota is None else QuotaDetail(quota.setting, quota.used, quota.allowed, error.needed),
    )
