"""The answer of the stream `Channel`, read: gRPC's messages, the frames in them, and where their bulk goes. No I/O.

Bytes are handed over as they come, in whatever pieces. A frame that is there whole goes to the sink from a copy of its
own; what is missing of a larger one is received straight into its place. The rules about signals are those of
local_transport.py: the state is one tuple, replaced after the work that it stands for.
"""

from __future__ import annotations

from struct import Struct

from . import frame
from .errors import Internal
from .grpc_frame import MAX_ENTRY_BYTES, entry_bytes, parse
from .http2 import grpc_status
from .http2.stream import StreamSink
from .transport import BulkTarget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from .http2.hpack import Header
    from .http2.http2_errors import Http2Error
    from .transport import FrameSink

    # position in the stream up to which it was dealt with; bytes before it that were too few to tell anything; bytes
    # of the message that come after those dealt with; frames handed over; what is being filled, where in it the next
    # byte goes and where its last byte ends
    ReadState = tuple[int, bytes, int, int, Optional[BulkTarget], int, int]

PREFIX_BYTES = 5
#: The daemon's messages have about 1 MiB; gRPC's own limit is this.
MAX_MESSAGE_BYTES = 4 << 20

# What is looked at to find out about a frame. A reply with a small value is not longer.
_HEAD_BYTES = 256
_unpack_prefix = Struct(">BI").unpack_from
_ITEM = frame.ITEM
_REPLY = frame.REPLY


class _Entry(BulkTarget):
    """A frame that is not there whole, and no ITEM without a payload."""

    def __init__(self, size: int) -> None:
        self.memory = bytearray(size)
        self.destination = memoryview(self.memory)


class FrameReader(StreamSink):
    """See the module.

    sink: whom frames go to.
    status: (gRPC's code, text) that the peer ended the stream with, or that its answer amounts to; None until then.
    details: the trailers, where there are any.
    ended: nothing more comes.
    error: why, where it was not the peer's will.
    """

    __slots__ = ("sink", "status", "details", "ended", "error", "_target", "_state")

    sink: FrameSink

    def __init__(self, target: str) -> None:
        """`target` is what errors name."""
        super().__init__()
        self._target = target
        self.status: tuple[int, str] | None = None
        self.details: list[Header] = []
        self.ended = False
        self.error: Http2Error | None = None
        self._state: ReadState = (0, b"", 0, 0, None, 0, 0)

    # ---- the answer's beginning and end ----

    def on_headers(self, headers: list[Header]) -> None:
        # An answer that is over with its head has its status there.
        self.status = grpc_status.check_answer(headers) or grpc_status.read_status(headers)
        self.details = headers

    def on_trailers(self, headers: list[Header]) -> None:
        if self.status is None:
            self.status = grpc_status.read_status(headers)
            self.details = headers

    def on_end(self, error: Http2Error | None) -> None:
        self.error = error
        self.ended = True

    # ---- what is in it ----

    def on_data(self, position: int, data: memoryview) -> int:
        if self.status is not None:  # the page of a proxy, perhaps
            return len(data)
        done, carry, left, serial, item, place, end = self._state
        pos = done - position
        origin = position
        if carry:  # with what came before it, it may make sense
            position = done - len(carry)
            data = memoryview(carry + bytes(data[pos:]))
            pos = 0
        size = len(data)
        while True:
            if item is not None:
                count = min(size - pos, end - place)
                if count:
                    destination = item.destination
                    if destination is not None:
                        destination[place : place + count] = data[pos : pos + count]
                    pos += count
                    place += count
                    left -= count
                    self._state = (position + pos, b"", left, serial, item, place, end)
                if place < end:
                    self._receive_rest(item, position + pos, place, end)
                    return position + pos - origin
                self._complete(item, serial, end)
                item = None
                serial += 1
                self._state = (position + pos, b"", left, serial, None, 0, 0)
            begin = pos
            if not left:
                if size - pos < PREFIX_BYTES:
                    break
                compressed, left = _unpack_prefix(data, pos)
                if compressed:
                    raise self._refused(f"a message has the compression flag {compressed}, and none was agreed on")
                if left > MAX_MESSAGE_BYTES:
                    raise self._refused(f"a message has {left} bytes where {MAX_MESSAGE_BYTES} are allowed")
                pos += PREFIX_BYTES
                if not left:
                    self._state = (position + pos, b"", 0, serial, None, 0, 0)
                    continue
            raw = bytearray(data[pos : pos + _HEAD_BYTES])
            try:
                length, kind, call, flags, deadline_ns, body, after, bulk, bulk_bytes = parse(raw)
            except IndexError:
                if size - pos < _HEAD_BYTES:
                    break
                length = entry_bytes(raw)
                kind = call = flags = deadline_ns = body = after = bulk = bulk_bytes = 0
            except frame.FrameError as error:
                raise self._refused(error) from error
            if length > left or length > MAX_ENTRY_BYTES:
                raise self._refused("a frame is longer than its message, or than any can be")
            if kind == _ITEM and after == body:
                self._check(kind, call, flags, deadline_ns, after - body, bulk_bytes)
                if bulk + bulk_bytes != length:
                    raise self._refused("an item has something after its bulk")
                item = self.sink.find_bulk_target(call)
                place = item.filled
                end = place + bulk_bytes
                if item.destination is not None and end > len(item.destination):
                    raise Internal(f"the daemon at {self._target} sent more data for call {call} than it had announced")
                pos += bulk
                left -= bulk
            elif pos + length > size:
                item = _Entry(length)
                place = 0
                end = length
            elif length > _HEAD_BYTES:
                self._deliver(bytearray(data[pos : pos + length]), serial)
                serial += 1
                pos += length
                left -= length
            else:
                if kind != _REPLY or flags or deadline_ns or not call:
                    self._check(kind, call, flags, deadline_ns, after - body, bulk_bytes)
                self.sink.on_frame(kind, serial, call, raw, body, after, bulk, bulk + bulk_bytes)
                serial += 1
                pos += length
                left -= length
            self._state = (position + pos, b"", left, serial, item, place, end)
            if pos == size and item is None:
                return position + pos - origin
        # Too little to tell. It begins with a message's prefix where one is to come.
        if begin != pos:
            left = 0
        self._state = (position + size, bytes(data[begin:]), left, serial, None, 0, 0)
        return position + size - origin

    def on_filled(self, position: int) -> None:
        _, _, left, serial, item, place, end = self._state
        if item is None or place >= end:
            return
        self._complete(item, serial, end)
        self._state = (position, b"", left - (end - place), serial + 1, None, 0, 0)

    def _receive_rest(self, item: BulkTarget, position: int, place: int, end: int) -> None:
        stream = self.stream
        assert stream is not None
        destination = item.destination
        rest = memoryview(bytearray(end - place)) if destination is None else destination[place:end]
        stream.receive_into(rest, position)

    def _complete(self, item: BulkTarget, serial: int, end: int) -> None:
        """`item` is full."""
        if isinstance(item, _Entry):
            self._deliver(item.memory, serial)
        else:
            self.sink.on_item(item, end)

    def _deliver(self, raw: bytearray, serial: int) -> None:
        """A frame that is there whole, and nothing else with it; no ITEM without a payload."""
        try:
            _, kind, call, flags, deadline_ns, body, after, bulk, bulk_bytes = parse(raw)
        except IndexError:
            raise self._refused("it is cut short") from None
        except frame.FrameError as error:
            raise self._refused(error) from error
        self._check(kind, call, flags, deadline_ns, after - body, bulk_bytes)
        if kind == _ITEM and after == body:
            raise self._refused("an item has something before its bulk")
        self.sink.on_frame(kind, serial, call, raw, body, after, bulk, bulk + bulk_bytes)

    def _check(self, kind: int, call: int, flags: int, deadline_ns: int, payload_bytes: int, bulk_bytes: int) -> None:
        try:
            frame.check(payload_bytes, bulk_bytes, kind, flags, call, deadline_ns)
        except frame.FrameError as error:
            raise self._refused(error) from error

    def _refused(self, why: object) -> Internal:
        return Internal(
            f"the daemon at {self._target} sent what is no frame: {why}", hint="is it another server, or another version?"
        )
