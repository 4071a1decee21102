"""The seam between the connection and what carries its frames.

A transport moves frames and never blocks; the connection decides who waits, on what, and for how long. It may be used
by several threads under two locks that the connection holds for it: `write`, `flush`, `settle` and `keep_alive` under
one, `receive` under the other.

Any of these calls may be left by an exception that a signal handler raises (KeyboardInterrupt), at any moment. The
transport must then carry on where it was: what was sent has been sent, what was received is not lost, and a frame
that is half out is completed by the next `flush`. See local_transport.py for how.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import PjrtError


class BulkTarget:
    """Where an ITEM's bulk goes.

    destination: the memory for all of a call's bulk, or None to drop it.
    filled: bytes of it that have come.
    """

    destination: memoryview | None = None
    filled = 0


class FrameSink:
    """Whom a transport hands frames to. It may be told of the same frame twice, when a signal came in between: the
    serial number tells."""

    __slots__ = ()

    def on_frame(
        self, kind: int, serial: int, call: int, data: bytearray, body: int, after: int, bulk: int, end: int
    ) -> None:
        """A frame other than an ITEM without a payload: data[body:after] is its payload, data[bulk:end] its bulk, during the call only. Of two
        different frames, the later one has the higher serial number."""
        raise NotImplementedError

    def find_bulk_target(self, call: int) -> BulkTarget:
        """Where the bulk of an ITEM without a payload goes, which is of that call."""
        raise NotImplementedError

    def on_item(self, target: BulkTarget, filled: int) -> None:
        """An ITEM has come whole; `filled` is what target.filled becomes by it, however often it is told."""
        raise NotImplementedError


class Transport:
    """See the module."""

    __slots__ = ()

    #: What kind of link it is, for repr and errors: "unix:/run/pjrtd/pjrtd.sock".
    target: str
    #: Whether a `receive` was left early: the next one has something to do though nothing may be there to poll for.
    unfinished: bool
    #: The pieces in which bulk is best sent, at most.
    item_bytes: int
    #: How often `keep_alive` wants to be called while somebody waits and nothing comes, in seconds; 0: never.
    keepalive_s: float

    @property
    def backlog(self) -> object:
        """True where something is not out yet, so that `flush` has something to do: what `write` took, or what the
        transport itself wants to say."""
        raise NotImplementedError

    @property
    def blocked(self) -> object:
        """True where what is not out waits for the descriptor to be writable. Else a backlog waits for the peer to say
        that it takes more."""
        raise NotImplementedError

    @property
    def writes(self) -> int:
        """A number that grows with each `write` that took what it was given: it tells after an exception whether one
        did."""
        raise NotImplementedError

    def fileno(self) -> int:
        """The descriptor to poll: for reading always, for writing while it is `blocked`."""
        raise NotImplementedError

    def pack(
        self,
        kind: int,
        method: int,
        call: int,
        payload: bytes = b"",
        bulk_bytes: int = 0,
        flags: int = 0,
        deadline_ns: int = 0,
    ) -> bytes:
        """A frame as it travels, up to its bulk."""
        raise NotImplementedError

    def write(self, first: bytes | memoryview, *more: bytes | memoryview) -> bool:
        """Queues whole frames and sends what can be sent now; whether that was everything. Raises PjrtError once the
        link is broken.

        A memoryview is not copied: its memory must not change until there is no backlog or `settle` was called."""
        raise NotImplementedError

    def write_later(self, first: bytes) -> bool:
        """Like `write`, for frames that nobody waits for: they may be kept until the next `write` or `flush`, so that
        several go out as one. Whoever calls this sees to it that such a call follows soon while anything is `held`."""
        raise NotImplementedError

    @property
    def held(self) -> object:
        """True where `write_later` has kept something. It may be looked at without a lock."""
        raise NotImplementedError

    def flush(self) -> bool:
        """Sends what can be sent now; whether everything is out."""
        raise NotImplementedError

    def keep_alive(self) -> None:
        """Sees to it that the peer is still there. Raises PjrtError where it seems not to be. For who may write."""
        raise NotImplementedError

    def settle(self) -> None:
        """Copies what is queued and was not copied, so that its memory may change."""
        raise NotImplementedError

    def receive(self, sink: FrameSink) -> bool:
        """Reads once what is there and hands over whole frames; whether anything was there. Raises PjrtError once the
        link is broken, and for bytes that are no frames."""
        raise NotImplementedError

    def shut_down(self) -> None:
        """Ends the link for both sides and wakes whoever polls it."""
        raise NotImplementedError

    def close(self) -> None:
        """Frees the descriptor. In a forked child that is all that may be done: the parent goes on using the link."""
        raise NotImplementedError


def broken(target: str, why: object) -> PjrtError:
    """The error for a link that is gone."""
    from .errors import Unavailable

    return Unavailable(
        f"the connection to the daemon at {target} is lost: {why}",
        hint="what the session held is gone with it; connect again with Client.create()",
    )
