"""Deadlines: how long a call may take.

    with pjrtd.deadline(1.0):
        (out,) = exe(x)
        out.to_host()

Every call inside the block carries what is left of the second to the daemon, which answers DEADLINE_EXCEEDED when it
has passed; a `timeout=` argument does the same for one call. Nested deadlines: the nearest one counts. They follow
contextvars, so threads and asyncio tasks have their own.
"""

from __future__ import annotations

from contextvars import ContextVar
from time import monotonic

from .errors import DeadlineExceeded, InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

# When the current block must be over, on time.monotonic's clock, in seconds; None: never.
current: ContextVar[float | None] = ContextVar("pjrtd_deadline", default=None)

# How long beyond a deadline the client waits for the daemon's own answer, in seconds.
GRACE_S = 0.5


def _check(seconds: float) -> float:
    if not isinstance(seconds, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a timeout is a number of seconds, not {type(seconds).__name__}")
    if not seconds >= 0:
        raise InvalidArgument(f"a timeout of {seconds} seconds is negative or NaN")
    return seconds


class deadline:
    """A context manager: calls inside fail with DeadlineExceeded once `seconds` have passed."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = _check(seconds)
        self._token: Token[float | None] | None = None

    def __enter__(self) -> deadline:
        until = monotonic() + self._seconds
        outer = current.get()
        self._token = current.set(until if outer is None else min(until, outer))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._token is not None:
            current.reset(self._token)
            self._token = None


def resolve(timeout: float | None) -> float | None:
    """When a call that begins now must be over (time.monotonic seconds), by `timeout` and the blocks around it."""
    until = current.get()
    if timeout is None:
        return until
    own = monotonic() + _check(timeout)
    return own if until is None else min(own, until)


def remaining_ns(until: float | None) -> int:
    """What a request carries; 0 for no deadline. Raises DeadlineExceeded where it has passed."""
    if until is None:
        return 0
    left = int((until - monotonic()) * 1e9)
    if left <= 0:
        raise DeadlineExceeded("the deadline had passed before the call was made")
    return min(left, (1 << 63) - 1)
