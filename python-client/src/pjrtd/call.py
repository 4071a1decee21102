"""Calls on a connection, from their requests to their answers."""

from __future__ import annotations

from ._proto.wire import DecodeError, decode
from .errors import Internal
from .transport import BulkTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import TypeVar

    from ._proto.wire import Message
    from .errors import PjrtError
    from .transport import Transport

    M = TypeVar("M", bound=Message)

NEVER = 1 << 63


class Call(BulkTarget):
    """One call. Its fields are written by whoever reads the connection, and read by who waits for it.

    id: 0 until it is sent.
    made: the id of the buffer or program that it makes, as a varint; b"" where it makes none.
    expected: bytes of a download; -1 where the answer has no bulk beyond its frame.
    done: it has ended: `error` is set, or `payload` and `bulk` are.
    credit: bytes of an upload that may have been sent so far.
    granted: bytes of a download that the daemon may have sent so far.
    gate: a lock that the waiting thread sleeps on, while another thread reads; else None.
    abandoned: nobody waits any more; what comes is dropped.
    """

    # Defaults are the class's, so that making one costs little.
    id = 0
    made = b""
    done = False
    error: PjrtError | None = None
    payload = b""
    bulk: bytes | bytearray = b""
    credit = 0
    granted = 0
    gate: LockType | None = None
    abandoned = False

    def __init__(self, method: int, expected: int = -1) -> None:
        self.method = method
        self.expected = expected

    def notify(self) -> None:
        """Wakes the thread that sleeps on the gate, if one does."""
        gate = self.gate
        if gate is not None:
            try:
                gate.release()
            except RuntimeError:
                pass  # it was woken already


def read_answer(kind: type[M], payload: bytes) -> M:
    """The message of that kind that an answer's payload is. Raises Internal where it is none."""
    try:
        return decode(kind, payload)
    except DecodeError as error:
        raise Internal(
            f"the daemon sent a broken message, which should be {kind.__name__}: {error}", hint="is it another version?"
        ) from error


class CallTable:
    """The calls of a connection that an answer is expected for, by id, and how the connection itself fares.

    failure: why the connection cannot be used any more, or None.
    quiet_failure: the first failure of a quiet call that nobody was told of: its id and the error.
    """

    __slots__ = ("calls", "failure", "quiet_failure", "_transport")

    def __init__(self, transport: Transport) -> None:
        self.calls: dict[int, Call] = {}
        self.failure: PjrtError | None = None
        self.quiet_failure: tuple[int, PjrtError] | None = None
        self._transport = transport

    def fail(self, error: PjrtError) -> None:
        """Ends every call and the connection, for the reason that came first."""
        if self.failure is None:
            self.failure = error
        for call in tuple(self.calls.values()):
            if not call.done:
                call.error = self.failure.again()
                call.done = True
                call.notify()
        self._transport.shut_down()

    def forget_before(self, sync: Call) -> None:
        """Drops calls that were abandoned before `sync`, which was answered: quiet ones ended without an answer."""
        for number, call in tuple(self.calls.items()):
            if call.abandoned and call.expected < 0 and number < sync.id:
                self.calls.pop(number, None)
