"""What a connection that can be resumed remembers: requests that the daemon may not have got.

The daemon gets the requests of a connection in order, so its answer to one says that it has all before it: these are
forgotten. When the link breaks, those after the last that it has are sent again, under new call ids, in the same order.
"""

from __future__ import annotations

from collections import deque

from ._proto import methods
from .frame import DOWNLOAD_CREDIT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .call import Call

    # call id, method, payload, bulk, flags, when it must be over (time.monotonic seconds), the call where it is answered
    Entry = tuple[int, int, bytes, bytes, int, float | None, Call | None]

_ENOUGH = 64  # entries that are worth a look whether they can be forgotten

#: What may be asked any number of times.
_READS = frozenset(
    (
        *(methods.INFO, methods.DEVICES, methods.MEMORIES, methods.DEFAULT_ASSIGNMENT, methods.SESSION_SYNC),
        *(methods.SESSION_LIST, methods.SESSION_SLOTS, methods.SESSION_PUBLISHED, methods.BUFFER_DOWNLOAD, methods.BUFFER_STAT),
        *(methods.PROGRAM_DESCRIBE, methods.ADMIN_STATS),
    )
)


def ask_again(call: Call) -> list[Entry]:
    """For a call that the daemon has dealt with, and whose answer was lost: the request that tells what it said. Where
    there is none the call is done, and the daemon did as it was told: what went wrong shows where it is used."""
    payload, until = call.request
    if call.abandoned:
        call.done = True
    elif call.method in _READS:
        call.filled = call.granted = 0  # of a download, from the beginning
        call.payload = b""
        if call.expected >= 0:
            call.granted = DOWNLOAD_CREDIT_BYTES
        return [(call.id, call.method, payload, b"", 0, until, call)]
    elif call.method == methods.PROGRAM_COMPILE:
        call.method = methods.PROGRAM_DESCRIBE
        call.streams = False
        call.request = (b"\x08" + call.made, until)
        return [(call.id, call.method, b"\x08" + call.made, b"", 0, until, call)]
    else:
        call.answer_lost = True
        call.done = True
    return []


class Journal:
    """With the outbox's lock held."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque()

    def add(
        self, call: int, method: int, payload: bytes, bulk: bytes, flags: int, until: float | None, waiting: Call | None, acked: int
    ) -> None:
        """A request that is about to be sent; `acked` is the highest call that the daemon surely has."""
        entries = self.entries
        if len(entries) >= _ENOUGH and entries[0][0] <= acked:
            self.forget(acked)
        entries.append((call, method, payload, bulk, flags, until, waiting))

    def forget(self, acked: int) -> None:
        """Drops what the daemon has."""
        entries = self.entries
        while entries and entries[0][0] <= acked:
            entries.popleft()
