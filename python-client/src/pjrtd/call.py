"""One call on a connection, from its request to its answer."""

from __future__ import annotations

from .transport import BulkTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

    from .errors import PjrtError

NEVER = 1 << 63


class Call(BulkTarget):
    """Fields are written by whoever reads the connection, and read by who waits.

    id: 0 until it is sent.
    made: the id of the buffer or program that it makes, as a varint; b"" where it makes none.
    expected: bytes of a download; -1 where the answer has no bulk beyond its frame.
    done: it has ended: `error` is set, or `payload` and `bulk` are.
    credit: bytes of an upload that may have been sent so far.
    granted: bytes of a download that the daemon may have sent so far.
    gate: a lock that the waiting thread sleeps on, while another thread reads; else None.
    abandoned: nobody waits any more; what comes is dropped.
    """

    __slots__ = (
        *("id", "made", "method", "expected", "done", "error", "payload", "bulk"),
        *("credit", "granted", "gate", "abandoned"),
    )

    def __init__(self, method: int, expected: int = -1, destination: memoryview | None = None) -> None:
        self.destination = destination
        self.filled = 0
        self.id = 0
        self.made = b""
        self.method = method
        self.expected = expected
        self.done = False
        self.error: PjrtError | None = None
        self.payload = b""
        self.bulk: bytes | bytearray = b""
        self.credit = 0
        self.granted = 0
        self.gate: LockType | None = None
        self.abandoned = False

    def notify(self) -> None:
        """Wakes the thread that sleeps on the gate, if one does."""
        gate = self.gate
        if gate is not None:
            try:
                gate.release()
            except RuntimeError:
                pass  # it was woken already
