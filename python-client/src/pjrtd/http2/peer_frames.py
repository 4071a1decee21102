"""What a connection does about the frames other than DATA that it receives.

See client_connection.py for the rules about threads and signals. Each `_take_...` method deals with one frame, which ends
at `end` in the receive buffer, and moves `_start` there in the same step in which it changes anything else.
"""

from __future__ import annotations

from . import frames
from .flood_guard import FloodGuard
from .hpack import DEFAULT_TABLE_BYTES, Decoder, limited
from .http2_errors import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    Http2ConnectionError,
    Http2StreamError,
    code_name,
)
from .send_side import SendSide
from .stream import MAX_INFORMATIONAL, check_answer, check_length, content_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .stream import Stream

#: A header block as it travels, with all CONTINUATIONs, and how many of these.
MAX_BLOCK_BYTES = 64 << 10
MAX_CONTINUATIONS = 128
#: RST_STREAM frames for streams that are over, beyond one for each stream.
MAX_STRAY_RESETS = 1000


class PeerFrames(SendSide):
    """The part of ClientConnection for frames that are read whole."""

    __slots__ = (
        *("_start", "_greeted", "_decoder", "_table_bytes", "_block", "_block_stream", "_block_ends", "_block_parts"),
        *("_strays", "_pings", "_settings", "_empty_data", "_unknown"),
    )

    def __init__(self, stream_window_bytes: int, max_list_bytes: int, table_bytes: int, clock: Callable[[], float]) -> None:
        super().__init__(stream_window_bytes)
        self._start = 0  # of what was received and not dealt with
        self._greeted = False  # the peer's SETTINGS have come
        self._decoder = Decoder(max(table_bytes, DEFAULT_TABLE_BYTES), max_list_bytes)
        self._table_bytes = table_bytes
        self._block = b""  # of a header block whose CONTINUATIONs are missing
        self._block_stream = 0
        self._block_ends = False
        self._block_parts = 0
        self._strays = 0  # RST_STREAM frames for streams that are over
        self._pings = FloodGuard("PING frames", clock)
        self._settings = FloodGuard("SETTINGS frames", clock)
        self._empty_data = FloodGuard("empty DATA frames", clock)
        self._unknown = FloodGuard("frames of types that mean nothing here", clock)

    # ---- streams ----

    def _check_closed(self, stream_id: int, what: str) -> None:
        """For a frame on a stream that is not open: raises unless it was sent before the peer heard of a reset."""
        if not stream_id & 1 or stream_id >= self._next_id:
            raise Http2ConnectionError(PROTOCOL_ERROR, f"the peer sent {what} on stream {stream_id}, which was never opened")
        if stream_id not in self._resets and stream_id > self._forgotten:
            raise Http2ConnectionError(STREAM_CLOSED, f"the peer sent {what} on stream {stream_id}, which is over")

    def _fail_stream(self, stream: Stream, error: Http2StreamError) -> None:
        """Ends a stream on account of what came."""
        number = stream.id
        frame = frames.rst_stream(number, error.code)
        if not stream.remote_closed:
            stream.sink.on_end(error)
        self._remember_reset(number)
        # No call from here on.
        if stream.error is None:
            stream.error = error
        stream.local_closed = stream.remote_closed = True
        stream.pending = []
        if number in self._streams:
            del self._streams[number]
            self._replies += (frame,)

    def _take_headers(self, flags: int, stream_id: int, payload: bytes, end: int) -> None:
        if stream_id not in self._streams:
            self._check_closed(stream_id, "HEADERS")
        block = frames.parse_headers(flags, stream_id, payload)
        ends = flags & frames.END_STREAM != 0
        if flags & frames.END_HEADERS:
            self._take_block(stream_id, block, ends, end)
            return
        # No call from here on.
        self._block = block
        self._block_stream = stream_id
        self._block_ends = ends
        self._block_parts = 0
        self._start = end

    def _take_continuation(self, flags: int, payload: bytes, end: int) -> None:
        stream_id = self._block_stream
        if not stream_id:
            raise Http2ConnectionError(PROTOCOL_ERROR, "a CONTINUATION frame follows no HEADERS")
        block = self._block + payload
        parts = self._block_parts + 1
        if len(block) > MAX_BLOCK_BYTES or parts > MAX_CONTINUATIONS:
            raise Http2ConnectionError(
                ENHANCE_YOUR_CALM,
                f"a header block has over {MAX_BLOCK_BYTES} bytes or {MAX_CONTINUATIONS} CONTINUATION frames",
            )
        if flags & frames.END_HEADERS:
            self._take_block(stream_id, block, self._block_ends, end)
            return
        # No call from here on.
        self._block = block
        self._block_parts = parts
        self._start = end

    def _take_block(self, stream_id: int, block: bytes, ends: bool, end: int) -> None:
        """A header block is there whole: of a head of 1xx, a head, or trailers."""
        decoder = self._decoder
        headers, table = decoder.prepare(block)
        stream = self._streams.get(stream_id)
        status = 0
        length = -1
        failed = False
        if stream is not None:
            try:
                if stream.remote_closed:
                    raise Http2StreamError(stream_id, STREAM_CLOSED, f"there are HEADERS after the end of stream {stream_id}")
                if headers is None:
                    raise Http2StreamError(
                        stream_id,
                        CANCEL,
                        f"the peer sent more than {decoder.max_list_bytes} bytes of headers on stream {stream_id}",
                    )
                status = check_answer(stream, headers, ends)
                if stream.answered:
                    check_length(stream, ends)
                    stream.sink.on_trailers(headers)
                elif status >= 200:
                    length = content_length(stream, headers)
                    if ends and length > 0:
                        raise Http2StreamError(
                            stream_id, PROTOCOL_ERROR, f"stream {stream_id} announces {length} bytes and has none"
                        )
                    stream.sink.on_headers(headers)
                elif stream.informational >= MAX_INFORMATIONAL:
                    raise Http2StreamError(
                        stream_id, ENHANCE_YOUR_CALM, f"stream {stream_id} has over {MAX_INFORMATIONAL} answers of 1xx"
                    )
                if ends:
                    stream.sink.on_end(None)
            except Http2StreamError as error:
                failed = True
                self._fail_stream(stream, error)
        # No call from here on.
        decoder.table = table
        self._block = b""
        self._block_stream = 0
        self._start = end
        if stream is not None and not failed:
            if status >= 200:
                stream.answered = True
                stream.content_length = length
            elif status:
                stream.informational += 1
            if ends:
                stream.remote_closed = True
                if stream.local_closed and stream_id in self._streams:
                    del self._streams[stream_id]

    def _take_rst_stream(self, stream_id: int, payload: bytes, end: int) -> None:
        code = frames.parse_rst_stream(payload)
        stream = self._streams.get(stream_id)
        if stream is None:
            if not stream_id & 1 or stream_id >= self._next_id:
                self._check_closed(stream_id, "RST_STREAM")
            # Each stream may be reset after its end, by a peer that does not know of it.
            if self._strays > MAX_STRAY_RESETS + self._next_id:
                raise Http2ConnectionError(ENHANCE_YOUR_CALM, f"the peer reset streams that were over {self._strays} times")
            # No call from here on.
            self._strays += 1
            self._start = end
            return
        error = Http2StreamError(
            stream_id, code, f"the peer reset stream {stream_id} with {code_name(code)}", code == REFUSED_STREAM
        )
        if not stream.remote_closed:
            stream.sink.on_end(error)
        # No call from here on.
        if stream.error is None:
            stream.error = error
        stream.local_closed = stream.remote_closed = True
        stream.pending = []
        if stream_id in self._streams:
            del self._streams[stream_id]
        self._start = end

    def _take_window_update(self, stream_id: int, payload: bytes, end: int) -> None:
        stream = self._streams.get(stream_id) if stream_id else None
        if stream_id and stream is None:
            if not stream_id & 1 or stream_id >= self._next_id:
                self._check_closed(stream_id, "WINDOW_UPDATE")
            self._start = end
            return
        if stream is None:
            increment = frames.parse_window_update(0, payload)
            if self._granted - self._sent + increment > frames.MAX_WINDOW_BYTES:
                raise Http2ConnectionError(FLOW_CONTROL_ERROR, "the connection's window grows over 2**31 - 1")
            # No call from here on.
            self._granted += increment
            self._start = end
            return
        try:
            increment = frames.parse_window_update(stream_id, payload)
            if self._peer_window + stream.granted - stream.sent + increment > frames.MAX_WINDOW_BYTES:
                raise Http2StreamError(
                    stream_id, FLOW_CONTROL_ERROR, f"the window of stream {stream_id} grows over 2**31 - 1"
                )
        except Http2StreamError as error:
            self._fail_stream(stream, error)
            self._start = end
            return
        # No call from here on.
        stream.granted += increment
        self._start = end

    # ---- the connection ----

    def _take_settings(self, flags: int, payload: bytes, end: int) -> None:
        self._settings.count()
        if flags & frames.ACK:
            # No call from here on.
            self._decoder.max_table_bytes = self._table_bytes
            self._start = end
            return
        window = self._peer_window
        frame_bytes = self._peer_frame_bytes
        streams = self._peer_streams if self._greeted else 1 << 32
        list_bytes = self._peer_list_bytes
        encoder = self._encoder
        limits = before = encoder.limits
        for name, value in frames.parse_settings(payload):
            if name == frames.SETTINGS_INITIAL_WINDOW_SIZE:
                window = value
            elif name == frames.SETTINGS_MAX_FRAME_SIZE:
                frame_bytes = value
            elif name == frames.SETTINGS_MAX_CONCURRENT_STREAMS:
                streams = value
            elif name == frames.SETTINGS_MAX_HEADER_LIST_SIZE:
                list_bytes = value
            elif name == frames.SETTINGS_HEADER_TABLE_SIZE:
                limits = limited(limits, value)
        for stream in list(self._streams.values()):
            if window + stream.granted - stream.sent > frames.MAX_WINDOW_BYTES:
                raise Http2ConnectionError(FLOW_CONTROL_ERROR, f"the window of stream {stream.id} grows over 2**31 - 1")
        # No call from here on.
        if limits is not before:
            encoder.limits = limits
        self._greeted = True
        self._peer_window = window
        self._peer_frame_bytes = frame_bytes
        self._peer_streams = streams
        self._peer_list_bytes = list_bytes
        self._replies += (frames.SETTINGS_ACK,)
        self._start = end

    def _take_ping(self, flags: int, payload: bytes, end: int) -> None:
        if flags & frames.ACK:
            number = int.from_bytes(payload, "big")
            if self.pings_acked < number <= self.pings_sent:
                self.pings_acked = number
            else:
                self._pings.count()
            self._start = end
            return
        self._pings.count()
        reply = frames.ping(payload, ack=True)
        # No call from here on.
        self._replies += (reply,)
        self._start = end

    def _take_goaway(self, payload: bytes, end: int) -> None:
        last, code, debug = frames.parse_goaway(payload)
        if self.goaway is not None and last > self.goaway[0]:
            raise Http2ConnectionError(
                PROTOCOL_ERROR, f"the peer's GOAWAY names stream {last} after it named {self.goaway[0]}"
            )
        # From here on no stream is opened that these would miss.
        self.goaway = (last, code, debug[:1024])
        for stream in list(self._streams.values()):
            number = stream.id
            if number <= last:
                continue
            error = Http2StreamError(
                number, REFUSED_STREAM, f"the peer did not begin stream {number}: {self.describe_goaway()}", unprocessed=True
            )
            if not stream.remote_closed:
                stream.sink.on_end(error)
            self._remember_reset(number)
            # No call from here on.
            if stream.error is None:
                stream.error = error
            stream.local_closed = stream.remote_closed = True
            stream.pending = []
            if number in self._streams:
                del self._streams[number]
        self._start = end
