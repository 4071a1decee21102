"""What a connection sends: requests, their bodies within the peer's windows, resets, PINGs, GOAWAY.

See client_connection.py for the rules about threads and signals.
"""

from __future__ import annotations

from struct import Struct

from . import frames
from .hpack import ENTRY_OVERHEAD_BYTES, Encoder
from .http2_errors import CANCEL, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, Http2ConnectionError, Http2Error, Http2StreamError
from .stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .hpack import Header
    from .stream import StreamSink

    Buffer = bytes | memoryview

#: What is copied to make one buffer of a frame's header and its data.
MAX_JOINED_BYTES = 8 << 10
#: gRPC's, before each message.
MESSAGE_PREFIX_BYTES = 5
#: Streams that may be open before the peer's SETTINGS have come.
EARLY_STREAMS = 100
#: Streams that were reset, whose late frames are told from those that cannot be.
MAX_REMEMBERED_RESETS = 1024

_MAX_PING = (1 << 64) - 1
_prefix = Struct(">BI")
# The header of a DATA frame, and the message's prefix after it.
_pack_message = Struct(">BHBBIBI").pack
_pack_header = frames._header.pack  # pyright: ignore[reportPrivateUsage]  # a call less for each frame


class SendSide:
    """The half of ClientConnection that sends.

    error: why the connection broke.
    goaway: the peer's GOAWAY: (last stream that it deals with, error code, its debug text).
    pings_sent, pings_acked: numbers of the last PING that was sent and of the last one that was answered.
    """

    __slots__ = (
        *("error", "goaway", "pings_sent", "pings_acked", "_streams", "_next_id", "_resets", "_forgotten"),
        *("_outgoing", "_replies", "_blocked", "_encoder", "_closing"),
        *("_granted", "_sent", "_peer_window", "_peer_frame_bytes", "_peer_streams", "_peer_list_bytes"),
        *("_stream_window",),
    )

    def __init__(self, stream_window_bytes: int) -> None:
        self.error: Http2ConnectionError | None = None
        self.goaway: tuple[int, int, bytes] | None = None
        self.pings_sent = 0
        self.pings_acked = 0
        self._streams: dict[int, Stream] = {}
        self._next_id = 1
        self._resets: dict[int, None] = {}
        self._forgotten = 0  # up to that number, resets are not remembered
        self._outgoing: list[Buffer] = []
        # What receiving makes. A SETTINGS acknowledgement gets in together with what the settings change. Who sends looks
        # at both at one moment, and sends these replies before the frames that it makes by these settings.
        self._replies: tuple[bytes, ...] = ()
        self._blocked: dict[int, Stream] = {}  # with something pending, in the order of their turns
        self._encoder = Encoder()
        self._closing = False
        # The peer's window for the connection is DEFAULT_WINDOW_BYTES + granted - sent.
        self._granted = frames.DEFAULT_WINDOW_BYTES
        self._sent = 0
        self._peer_window = frames.DEFAULT_WINDOW_BYTES  # of a new stream
        self._peer_frame_bytes = frames.MIN_MAX_FRAME_BYTES
        self._peer_streams = EARLY_STREAMS
        self._peer_list_bytes = 1 << 32
        self._stream_window = stream_window_bytes

    # ---- requests ----

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    @property
    def can_open(self) -> bool:
        """Whether the peer allows one more stream now."""
        if self.error is not None or self.goaway is not None or self._closing:
            return False
        return len(self._streams) < self._peer_streams

    def open(self, sink: StreamSink, headers: Sequence[Header], end: bool = False) -> Stream:
        """Begins a request, whose body is empty if it ends here. `sink` is told of the answer.

        Raises Http2StreamError, with `unprocessed` set, where the peer allows no more streams now or at all, ValueError
        for what cannot be a header, and what broke the connection."""
        number = self._next_id
        if not self.can_open or number > frames.MAX_STREAM_ID:
            raise self._why_not()
        size = 0
        for name, value in headers:
            size += len(name) + len(value) + ENTRY_OVERHEAD_BYTES
        if size > self._peer_list_bytes:
            raise Http2StreamError(
                0, INTERNAL_ERROR, f"the request has {size} bytes of headers, and the peer takes {self._peer_list_bytes}"
            )
        encoder = self._encoder
        replies = self._replies
        limits = encoder.limits
        max_frame_bytes = self._peer_frame_bytes
        # Calls are allowed again; see _replies.
        count = len(replies)
        block, table = encoder.prepare(headers, limits)
        frame = frames.headers(number, block, end, max_frame_bytes)
        stream = Stream(number, sink, self._stream_window)
        # No call from here on: all of it is done, or nothing.
        stream.local_closed = end
        sink.stream = stream
        encoder.table = table
        if encoder.limits is limits:
            encoder.limits = None
        self._next_id = number + 2
        self._streams[number] = stream
        self._outgoing += replies
        self._replies = self._replies[count:]
        self._outgoing += (frame,)
        return stream

    def _why_not(self) -> Http2Error:
        if self.error is not None:
            return self.error
        if self.goaway is not None:
            why = f"the peer takes no more streams: {self.describe_goaway()}"
        elif self._closing:
            why = "the connection is being closed"
        elif self._next_id > frames.MAX_STREAM_ID:
            why = "the connection has used up its stream numbers; a new one is needed"
        else:
            why = f"the peer allows {self._peer_streams} streams at a time, and as many are open"
        return Http2StreamError(0, REFUSED_STREAM, why, unprocessed=True)

    def describe_goaway(self) -> str:
        from .http2_errors import code_name

        if self.goaway is None:
            return "it has not said why"
        _, code, debug = self.goaway
        text = debug[:200].decode("utf-8", "replace")
        return f"GOAWAY with {code_name(code)}" + (f" and {text!r}" if text else "")

    def send_data(self, stream: Stream, first: Buffer, *more: Buffer, end: bool = False) -> bool:
        """Takes a piece of a request's body; whether all of it is in frames. The rest follows by `pump`, as the windows
        allow. A memoryview is of bytes and is not copied: its memory must not change until it is sent, or `settle` was
        called.

        Raises what broke the stream or the connection, and ValueError where the body has ended."""
        if stream.local_closed or stream.ends or self.error is not None:
            raise self.error or stream.error or ValueError(f"the body of stream {stream.id} has ended")
        size = len(first)
        if type(first) is bytes and not more and 0 < size <= MAX_JOINED_BYTES and not stream.pending:
            replies = self._replies
            of_stream = self._peer_window + stream.granted - stream.sent
            # Every peer takes frames of MAX_JOINED_BYTES.
            if size <= self._granted - self._sent and size <= of_stream:
                count = len(replies)
                frame = _pack_header(0, size, 0, 1 if end else 0, stream.id) + first
                number = stream.id
                # No call from here on.
                stream.queued_bytes += size
                stream.sent += size
                self._sent += size
                if count:
                    self._outgoing += replies
                    self._replies = self._replies[count:]
                self._outgoing += (frame,)
                if end:
                    stream.local_closed = True
                    if stream.remote_closed and number in self._streams:
                        del self._streams[number]
                return True
        return self._take(stream, (first, *more), end)

    def _take(self, stream: Stream, buffers: Sequence[Buffer], end: bool) -> bool:
        """Makes buffers pending, and frames of them as far as the windows allow; whether of all."""
        if stream.local_closed or stream.ends or self.error is not None:
            raise self.error or stream.error or ValueError(f"the body of stream {stream.id} has ended")
        buffers = [buffer for buffer in buffers if len(buffer)]
        for buffer in buffers:
            if type(buffer) is memoryview and (buffer.ndim != 1 or buffer.itemsize != 1 or not buffer.contiguous):
                raise ValueError("a memoryview to send is of bytes, of one dimension and contiguous")
        size = sum(map(len, buffers)) - stream.held_bytes
        number = stream.id
        # No call from here on.
        stream.queued_bytes += size
        stream.held = ()
        stream.held_bytes = 0
        stream.pending += buffers
        stream.ends = end
        self._blocked[number] = stream
        return self._pump_one(stream)

    def hold(self, stream: Stream, part: bytes) -> None:
        """Takes the beginning of a message, or more of it, which goes out with the next `send_message`."""
        size = len(part)
        # No call from here on.
        stream.queued_bytes += size
        stream.held_bytes += size
        stream.held += (part,)

    def send_message(self, stream: Stream, first: Buffer, *more: Buffer) -> bool:
        """`send_data` for a whole gRPC message: five bytes (not compressed, its size), what was held, then these."""
        held = stream.held
        if type(first) is bytes and not more and not stream.pending and not stream.local_closed and self.error is None:
            if held:
                first = b"".join(held) + first
            length = len(first)
            size = length + MESSAGE_PREFIX_BYTES
            replies = self._replies
            if size <= MAX_JOINED_BYTES and size <= self._granted - self._sent:
                if size <= self._peer_window + stream.granted - stream.sent:
                    count = len(replies)
                    frame = _pack_message(0, size, 0, 0, stream.id, 0, length) + first
                    # No call from here on.
                    stream.queued_bytes += size - stream.held_bytes
                    stream.sent += size
                    self._sent += size
                    if held:
                        stream.held = ()
                        stream.held_bytes = 0
                    if count:
                        self._outgoing += replies
                        self._replies = self._replies[count:]
                    self._outgoing += (frame,)
                    return True
            parts: tuple[Buffer, ...] = (first,)
        else:
            parts = (*held, first, *more)
        size = 0
        for buffer in parts:
            size += len(buffer)
        return self._take(stream, (_prefix.pack(0, size), *parts), False)

    def pump(self) -> bool:
        """Makes frames of what is pending, as far as the windows allow, one of each stream in turn; whether nothing is
        pending. To be called after something was received."""
        blocked = self._blocked
        while blocked:
            made = False
            for stream in list(blocked.values()):
                before = stream.sent
                if self._pump_one(stream, 1) or stream.sent != before:
                    made = True
            if not made:
                return False
        return True

    def _pump_one(self, stream: Stream, max_frames: int = 1 << 30) -> bool:
        """Frames of one stream; whether nothing of it is pending."""
        number = stream.id
        for _ in range(max_frames):
            pending = stream.pending
            ends = stream.ends
            if not pending and not ends:
                break
            replies = self._replies
            of_stream = self._peer_window + stream.granted - stream.sent
            max_frame_bytes = self._peer_frame_bytes
            # Calls are allowed again; see _replies.
            count = len(replies)
            room = min(self._granted - self._sent, of_stream, max_frame_bytes)
            parts: list[Buffer] = [b""]
            rest: memoryview | None = None
            size = whole = 0
            for buffer in pending:
                length = len(buffer)
                if size + length > room:
                    if room > size:
                        view = memoryview(buffer)
                        parts.append(view[: room - size])
                        rest = view[room - size :]
                        size = room
                    break
                parts.append(buffer)
                size += length
                whole += 1
            last = ends and whole == len(pending)
            if not size and not last:
                return False
            parts[0] = frames.pack_header(size, frames.DATA, frames.END_STREAM if last else 0, number)
            if size <= MAX_JOINED_BYTES:
                parts = [b"".join(parts)]
            # No call from here on. A stream that the peer reset meanwhile takes no more.
            if stream.local_closed:
                break
            del pending[:whole]
            if rest is not None:
                pending[0] = rest
            stream.sent += size
            self._sent += size
            self._outgoing += replies
            self._replies = self._replies[count:]
            self._outgoing += parts
            if last:
                stream.ends = False
                stream.local_closed = True
                if stream.remote_closed and number in self._streams:
                    del self._streams[number]
        if (stream.pending or stream.ends) and not stream.local_closed:
            return False
        if number in self._blocked:
            del self._blocked[number]
        return True

    def reset(self, stream: Stream, code: int = CANCEL) -> None:
        """Ends a stream both ways, whatever is still to come. Its sink is not told anything more, except by a `received`
        that runs meanwhile. Does nothing to a stream that is over."""
        if stream.local_closed and stream.remote_closed:
            return
        number = stream.id
        error = Http2StreamError(number, code, f"the request on stream {number} was given up")
        frame = frames.rst_stream(number, code)
        self._remember_reset(number)
        # No call from here on.
        if stream.error is None:
            stream.error = error
        stream.local_closed = stream.remote_closed = True
        stream.pending = []
        if number in self._blocked:
            del self._blocked[number]
        if number in self._streams:
            del self._streams[number]
            self._outgoing += (frame,)

    def _remember_reset(self, number: int) -> None:
        """Frames that the peer sent before it heard of a reset are no errors of its."""
        resets = self._resets
        resets[number] = None
        while len(resets) > MAX_REMEMBERED_RESETS:
            oldest = min(resets)
            self._forgotten = max(self._forgotten, oldest)
            resets.pop(oldest, None)

    # ---- the connection ----

    def ping(self) -> int:
        """Sends a PING; its number, which `pings_acked` reaches once the peer has answered it."""
        number = self.pings_sent + 1
        frame = frames.ping(number.to_bytes(8, "big"))
        # No call from here on.
        self.pings_sent = number
        self._outgoing += (frame,)
        return number

    def close(self, code: int = NO_ERROR, debug: bytes = b"") -> None:
        """Says GOAWAY. Open streams may go on; no new ones."""
        frame = frames.goaway(0, code, debug)
        if not self._closing and self.error is None:
            self._closing = True
            self._outgoing += (frame,)

    @property
    def backlog(self) -> bool:
        """Whether `drain` would give something now."""
        return bool(self._outgoing or self._replies)

    @property
    def unsent(self) -> bool:
        """Whether there is more to send, now or when the peer has opened its windows."""
        return bool(self._outgoing or self._replies or self._blocked)

    def drain(self, queue: list[Buffer]) -> None:
        """Moves what is to be sent to the end of `queue`, all of it or, if it raises, nothing."""
        queue += self._outgoing
        queue += self._replies
        self._outgoing = []
        self._replies = ()

    def settle(self) -> None:
        """Copies every memoryview that was not drained yet, so that its memory may change."""
        for stream in list(self._blocked.values()):
            copied: list[Buffer] = [bytes(buffer) for buffer in stream.pending]
            stream.pending = copied
        outgoing: list[Buffer] = [bytes(buffer) for buffer in self._outgoing]
        self._outgoing = outgoing
