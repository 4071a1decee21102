"""Calls on a connection, from their requests to their answers."""

from __future__ import annotations

from collections import deque

from ._proto.methods import EXECUTE_RUN
from ._proto.wire import DecodeError, decode
from .errors import Internal, Unavailable
from .transport import BulkTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
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
    request: its payload and when it must be over (time.monotonic seconds), on a connection that can be resumed.
    on_done: called by whoever reads, or ends the connection, when the call is done; it does not wait for anything.
    patient: who waits for it does not poll first.
    streams: its request's bulk goes in ITEM frames.
    restart: such a call's connection was lost: how many bytes of its bulk the daemon has, from where to send on; else None.
    answer_lost: the daemon has dealt with it, and the answer went to a connection that was lost.
    """

    # Defaults are the class's, so that making one costs little.
    id = 0
    made = b""
    done = False
    error: PjrtError | None = None
    payload = b""
    bulk: bytes | bytearray = b""
    credit: int = 0
    granted = 0
    gate: LockType | None = None
    abandoned = False
    request: tuple[bytes, float | None] = (b"", None)
    on_done: Callable[[Call], None] | None = None
    patient = False
    streams = False
    restart: int | None = None
    answer_lost = False

    def __init__(self, method: int, expected: int = -1) -> None:
        self.method = method
        self.expected = expected

    def end(self) -> None:
        """It is done."""
        self.done = True
        self.notify()
        if self.on_done is not None:
            self.on_done(self)

    def notify(self) -> None:
        """Wakes the thread that sleeps on the gate, if one does."""
        gate = self.gate
        if gate is not None:
            try:
                gate.release()
            except RuntimeError:
                pass  # it was woken already


class RunCall(Call):
    """A call whose answer comes in parts. credit: how many have come. items: payload and bulk of those not taken yet."""

    def __init__(self) -> None:
        super().__init__(EXECUTE_RUN)
        self.items: deque[tuple[bytes, bytes]] = deque()

    def add(self, payload: bytes, bulk: bytes) -> None:
        """A part has come. It may be told twice."""
        if not self.abandoned:
            self.items.append((payload, bulk))
            self.credit += 1
            self.notify()


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

    failure: why the connection cannot be used, or None.
    suspended: there is a failure, and the link may come back: calls wait for that.
    resumes: a link that breaks is such a failure, and not the end.
    quiet_failure: the first failure of a quiet call that nobody was told of: its id and the error.
    heard: on a connection that resumes, the quiet calls whose failure was heard of since the last Sync.
    acked: the highest call that the daemon has surely got: it answered it.
    recover: returns when the connection can be used again. Raises the failure where it never will, and DeadlineExceeded
        where it cannot by then (time.monotonic seconds). For who holds no lock.
    notice: what the daemon said unasked, last and not told yet; or None.
    """

    __slots__ = ("calls", "failure", "suspended", "resumes", "quiet_failure", "notice", "heard", "acked", "recover", "transport")

    def __init__(self, transport: Transport) -> None:
        self.calls: dict[int, Call] = {}
        self.failure: PjrtError | None = None
        self.suspended = False
        self.resumes = False
        self.quiet_failure: tuple[int, PjrtError] | None = None
        self.notice: str | None = None
        self.heard: set[int] = set()
        self.acked = 0
        self.recover: Callable[[float | None], None] = self._raise
        self.transport = transport

    def _raise(self, until: float | None) -> None:
        if self.failure is not None:
            raise self.failure.again()

    @property
    def end(self) -> PjrtError | None:
        """Why the connection cannot be used any more, or None."""
        return None if self.suspended else self.failure

    def fail(self, error: PjrtError) -> None:
        """Ends every call and the connection, for the reason that came first. Where the link broke and can be made anew,
        only wakes whoever waits."""
        if self.failure is None and self.resumes and type(error) is Unavailable:
            self.suspended = True  # first: a failure without it is the end
            self.failure = error
        elif self.failure is None or self.suspended and type(error) is not Unavailable:
            self.failure = error
            self.suspended = False
        if self.suspended:
            for call in tuple(self.calls.values()):
                call.notify()
            self.transport.shut_down()
            return
        self.end_calls()
        self.transport.shut_down()

    def give_up(self, error: PjrtError) -> None:
        """A link that was to come back does not."""
        if self.suspended:
            self.failure = error
            self.suspended = False
            self.end_calls()

    def end_calls(self) -> None:
        """Ends every call with the failure."""
        assert self.failure is not None
        for call in tuple(self.calls.values()):
            if not call.done:
                call.error = self.failure.again()
                call.end()

    def forget_before(self, sync: Call) -> None:
        """Drops calls that were abandoned before `sync`, which was answered: quiet ones ended without an answer."""
        for number, call in tuple(self.calls.items()):
            if call.abandoned and call.expected < 0 and number < sync.id:
                self.calls.pop(number, None)
