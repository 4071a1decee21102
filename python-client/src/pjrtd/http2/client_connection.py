"""An HTTP/2 connection's client end (RFC 9113), without I/O: bytes in, bytes out, and calls of each stream's sink.

The caller moves the bytes:

    connection = ClientConnection()
    queue = []
    total = 0
    while True:
        connection.pump()
        connection.drain(queue)                  # then socket.sendmsg(queue), and drop what is out
        buffers = connection.receive_buffers()
        total += socket.recvmsg_into(buffers)[0]
        connection.received(total)

Nothing blocks, and nothing asks the time but the guards against floods. `receive_buffers` gives the memory of the caller
itself where the bytes of a stream's DATA belong there (Stream.receive_into).

Threads. `receive_buffers`, `received`, `feed`, `set_paused`, `lost` and `fail` are for one thread at a time, all other
calls likewise; these two may be different ones. What one changes for the other is a sequence of assignments without a
call, in which the interpreter does not change threads.

Signals. An exception from a signal handler may leave any call, at any moment. CPython runs handlers when a function is
entered, after a call and when a loop goes round. So each step first works out what is to change, and then changes it in a
sequence without calls: it is done or not. `received` is told a total, so that calling it once more with the same total
goes on where it was; other calls say how to find out whether they had their effect.
"""

from __future__ import annotations

from time import monotonic

from . import frames
from .hpack import DEFAULT_TABLE_BYTES, MAX_LIST_BYTES
from .http2_errors import (
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    STREAM_CLOSED,
    Http2ConnectionError,
    Http2StreamError,
)
from .peer_frames import PeerFrames
from .stream import check_length

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .stream import Stream

#: What the peer may send ahead, on one stream and on all together.
STREAM_WINDOW_BYTES = 16 << 20
CONNECTION_WINDOW_BYTES = 32 << 20
#: The largest frame that the peer may send.
MAX_FRAME_BYTES = 1 << 20
#: Of the frames that are read whole: all but DATA and what is skipped.
MAX_CONTROL_FRAME_BYTES = 64 << 10
#: Replies (SETTINGS and PING acknowledgements, WINDOW_UPDATE, RST_STREAM) that are made and not drained.
MAX_REPLIES = 4096
#: The rest of a destination under which a system call of its own is not worth it.
MIN_DIRECT_BYTES = 4096

_RECEIVE_BYTES = 128 << 10
_HEADER = frames.HEADER_BYTES
_unpack_header = frames._header.unpack_from  # pyright: ignore[reportPrivateUsage]  # a call less for each frame
_MAX_ID = frames.MAX_STREAM_ID


class ClientConnection(PeerFrames):
    """See the module. What is first drained is the preface with our settings."""

    __slots__ = (
        *("_data", "_view", "_stop", "_total", "_direct", "_direct_stream"),
        *("_in_data", "_current", "_left", "_pad", "_frame_bytes", "_frame_ends"),
        *("_window", "_receive_left", "_max_frame_bytes"),
    )

    def __init__(
        self,
        stream_window_bytes: int = STREAM_WINDOW_BYTES,
        connection_window_bytes: int = CONNECTION_WINDOW_BYTES,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        max_list_bytes: int = MAX_LIST_BYTES,
        table_bytes: int = DEFAULT_TABLE_BYTES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`max_list_bytes` and `table_bytes` are limits of received header lists and of the table behind them."""
        for window in (stream_window_bytes, connection_window_bytes):
            # Less would have to wait for the peer to hear of it.
            if not frames.DEFAULT_WINDOW_BYTES <= window <= frames.MAX_WINDOW_BYTES:
                raise ValueError(f"a window of {window} bytes is not in the range from 65535 to 2**31 - 1")
        if not frames.MIN_MAX_FRAME_BYTES <= max_frame_bytes <= frames.MAX_MAX_FRAME_BYTES:
            raise ValueError(f"a maximum frame size of {max_frame_bytes} is not in the range from 2**14 to 2**24 - 1")
        super().__init__(stream_window_bytes, max_list_bytes, table_bytes, clock)
        self._data = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._data)
        self._stop = 0  # unread bytes are data[start:stop]
        self._total = 0
        self._direct = 0  # bytes of the destination that receive_buffers gave out
        self._direct_stream: Stream | None = None
        # The DATA frame that is being read, or another that is skipped: its stream (None: nobody's), bytes of data and of
        # padding that are still to come, bytes that count for flow control, whether the answer ends with it.
        self._in_data = False
        self._current: Stream | None = None
        self._left = 0
        self._pad = 0
        self._frame_bytes = 0
        self._frame_ends = False
        self._window = connection_window_bytes
        self._receive_left = connection_window_bytes
        self._max_frame_bytes = max_frame_bytes
        settings = [
            (frames.SETTINGS_ENABLE_PUSH, 0),
            (frames.SETTINGS_INITIAL_WINDOW_SIZE, stream_window_bytes),
            (frames.SETTINGS_MAX_FRAME_SIZE, max_frame_bytes),
            (frames.SETTINGS_MAX_HEADER_LIST_SIZE, max_list_bytes),
        ]
        if table_bytes != DEFAULT_TABLE_BYTES:
            settings.append((frames.SETTINGS_HEADER_TABLE_SIZE, table_bytes))
        hello = frames.PREFACE + frames.settings(settings)
        if connection_window_bytes > frames.DEFAULT_WINDOW_BYTES:
            hello += frames.window_update(0, connection_window_bytes - frames.DEFAULT_WINDOW_BYTES)
        self._outgoing.append(hello)

    # ---- bytes in ----

    def receive_buffers(self) -> tuple[memoryview, ...]:
        """Where the next bytes belong, for one recvmsg_into, or the first of them for one recv_into. Never empty. They
        are lent until `received` accounts for what came."""
        start, stop = self._start, self._stop
        if start == stop:
            stream = self._current
            direct = self._view[:0]
            if self._in_data and stream is not None and not stream.remote_closed and stream.destination is not None:
                filled = stream.position - stream.destination_at
                if filled >= 0:
                    direct = stream.destination[filled : filled + self._left]
            self._direct = size = len(direct) if len(direct) >= MIN_DIRECT_BYTES else 0
            self._start = self._stop = 0
            if size and stream is not None:
                self._direct_stream = stream
                return (direct, self._view)
            return (self._view,)
        self._direct = 0
        if start and len(self._data) - stop < MAX_CONTROL_FRAME_BYTES + _HEADER:
            size = stop - start
            self._data[:size] = self._data[start:stop]
            self._start = 0
            self._stop = stop = size
        return (self._view[stop:],)

    def received(self, total: int) -> None:
        """Takes what came: `total` bytes since the connection began. Calls sinks.

        Raises Http2ConnectionError where the peer broke the rules; all streams have then been told, and what is to be
        drained ends with a GOAWAY. An exception of a sink leaves it as it is; the same call goes on there."""
        if self.error is None:
            count = total - self._total
            if count:
                direct = min(count, self._direct)
                stream = self._direct_stream
                # No call from here on.
                self._total = total
                self._direct = 0
                self._direct_stream = None
                if direct and stream is not None:
                    stream.position += direct
                    self._left -= direct
                self._stop += count - direct
            try:
                self._process()
            except Http2ConnectionError as error:
                self.fail(error)
        if self.error is not None:
            self.fail(self.error)
            raise self.error

    def feed(self, data: bytes) -> None:
        """`received` for bytes that are somewhere else: they are copied."""
        view = memoryview(data)
        while view:
            into = self.receive_buffers()[0]
            size = min(len(into), len(view))
            into[:size] = view[:size]
            self.received(self._total + size)
            view = view[size:]

    def early_bytes(self) -> bytes | None:
        """The first bytes that came from a peer that has not begun as HTTP/2 does; None where it has."""
        return None if self._greeted else bytes(self._view[self._start : min(self._stop, self._start + 80)])

    def lost(self, why: str) -> Http2ConnectionError:
        """Breaks the connection because its link ended, and tells all streams; the error."""
        if self.error is None:
            if self.goaway is not None:
                why = f"{why} after {self.describe_goaway()}"
            self.fail(Http2ConnectionError(NO_ERROR if self.goaway is None else self.goaway[1], why))
        assert self.error is not None
        return self.error

    def fail(self, error: Http2ConnectionError) -> None:
        """Breaks the connection, by GOAWAY where the peer can still be told, and tells all streams."""
        if self.error is None:
            frame = frames.goaway(0, error.code, error.message.encode()[:200])
            # No call from here on.
            self.error = error
            if error.code != NO_ERROR:
                self._replies += (frame,)
        for stream in list(self._streams.values()):
            number = stream.id
            if not stream.remote_closed:
                stream.sink.on_end(self.error)
            # No call from here on.
            stream.error = self.error
            stream.local_closed = stream.remote_closed = True
            stream.pending = []
            if number in self._streams:
                del self._streams[number]
        self._blocked.clear()

    def set_paused(self, stream: Stream, paused: bool) -> None:
        """A paused stream's window is not opened again: what the peer may still send is at most a window. For who
        receives."""
        stream.paused = paused
        if not paused and not stream.remote_closed:
            increment = self._stream_window - stream.receive_left
            if increment > 0:
                frame = frames.window_update(stream.id, increment)
                # No call from here on.
                stream.receive_left += increment
                self._replies += (frame,)

    # ---- frames ----

    def _process(self) -> None:
        """Deals with all that is there."""
        data = self._data
        while True:
            if self._in_data:
                try:
                    if not self._read_data():
                        return
                except Http2StreamError as error:
                    stream = self._current
                    if stream is None or error.stream_id != stream.id:
                        raise
                    self._fail_stream(stream, error)
                continue
            start = self._start
            if self._stop - start < _HEADER:
                return
            high, low, kind, flags, stream_id = _unpack_header(data, start)
            size = high << 16 | low
            stream_id &= _MAX_ID
            if not kind and self._greeted and not self._block_stream and stream_id and size <= self._max_frame_bytes:
                body = start + _HEADER
                if not flags and size and body + size <= self._stop and self._read_plain_data(body, size, stream_id):
                    continue
                if not self._begin_data(body, size, flags, stream_id):
                    return
                continue
            if not self._greeted:
                self._check_greeting(start, kind, flags)
            if self._block_stream and (kind != frames.CONTINUATION or stream_id != self._block_stream):
                raise Http2ConnectionError(
                    PROTOCOL_ERROR,
                    f"a {frames.kind_name(kind)} frame on stream {stream_id} is inside the headers of {self._block_stream}",
                )
            try:
                frames.check_header(size, kind, flags, stream_id, self._max_frame_bytes)
            except Http2StreamError:
                pass  # of a PRIORITY, which is ignored anyway
            if kind > frames.CONTINUATION or kind == frames.PRIORITY:
                self._unknown.count()
                # No call from here on.
                self._current = None
                self._left = size
                self._pad = self._frame_bytes = 0
                self._frame_ends = False
                self._in_data = True
                self._start = start + _HEADER
                continue
            if kind == frames.PUSH_PROMISE:
                raise Http2ConnectionError(PROTOCOL_ERROR, "the peer pushes, which was turned off")
            if size > MAX_CONTROL_FRAME_BYTES:
                raise Http2ConnectionError(
                    ENHANCE_YOUR_CALM,
                    f"a {frames.kind_name(kind)} frame has {size} bytes where {MAX_CONTROL_FRAME_BYTES} are read",
                )
            end = start + _HEADER + size
            if end > self._stop:
                return
            if len(self._replies) >= MAX_REPLIES:
                raise Http2ConnectionError(ENHANCE_YOUR_CALM, f"the peer does not read, and wants over {MAX_REPLIES} replies")
            payload = bytes(self._view[start + _HEADER : end])
            if kind == frames.WINDOW_UPDATE:
                self._take_window_update(stream_id, payload, end)
            elif kind == frames.HEADERS:
                self._take_headers(flags, stream_id, payload, end)
            elif kind == frames.CONTINUATION:
                self._take_continuation(flags, payload, end)
            elif kind == frames.RST_STREAM:
                self._take_rst_stream(stream_id, payload, end)
            elif kind == frames.SETTINGS:
                self._take_settings(flags, payload, end)
            elif kind == frames.PING:
                self._take_ping(flags, payload, end)
            else:
                self._take_goaway(payload, end)

    def _check_greeting(self, start: int, kind: int, flags: int) -> None:
        if kind == frames.SETTINGS and not flags & frames.ACK:
            return
        begin = bytes(self._view[start : min(self._stop, start + 40)])
        if begin.startswith(b"HTTP/"):
            raise Http2ConnectionError(PROTOCOL_ERROR, f"the peer speaks HTTP/1, not HTTP/2: {begin!r}")
        raise Http2ConnectionError(PROTOCOL_ERROR, f"the peer does not begin with SETTINGS, but with {begin!r}")

    # ---- DATA ----

    def _read_plain_data(self, body: int, size: int, stream_id: int) -> bool:
        """The fast path: a DATA frame that is there whole, whose data goes to its sink, and after which no window has to be
        opened. False where it is something else."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.destination is not None or not stream.answered or stream.remote_closed:
            return False
        left = self._receive_left - size
        of_stream = stream.receive_left - size
        if left << 1 <= self._window or of_stream << 1 <= self._stream_window or stream.content_length >= 0:
            return False
        position = stream.position
        try:
            taken = stream.sink.on_data(position, self._view[body : body + size])
        except Http2StreamError as error:
            if error.stream_id != stream_id:
                raise
            self._fail_stream(stream, error)
            return False
        # No call from here on.
        if taken != size:
            fits = 0 <= taken < size and stream.destination is not None and stream.destination_at == position + taken
            if not fits and not stream.remote_closed:
                raise ValueError(f"the sink took {taken} of {size} bytes and gave no place for the rest")
            self._current = stream
            self._left = size - taken
            self._pad = 0
            self._frame_bytes = size
            self._frame_ends = False
            self._in_data = True
        stream.position = position + taken
        stream.receive_left = of_stream
        self._receive_left = left
        self._start = body + taken
        return True

    def _begin_data(self, body: int, size: int, flags: int, stream_id: int) -> bool:
        """Reads a DATA frame's head; False where it is not there whole."""
        left, pad = size, 0
        if flags & frames.PADDED:
            if not size:
                raise Http2ConnectionError(FRAME_SIZE_ERROR, "a padded DATA frame is empty")
            if body == self._stop:
                return False
            left = frames.parse_padding(size, self._data[body], frames.DATA)
            pad = size - 1 - left
            body += 1
        ends = flags & frames.END_STREAM != 0
        if not left and not ends:
            self._empty_data.count()
        if size > self._receive_left:
            raise Http2ConnectionError(
                FLOW_CONTROL_ERROR, f"the peer sends {size} bytes where the connection's window is {self._receive_left}"
            )
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_closed(stream_id, "DATA")
        elif not stream.answered or stream.remote_closed or size > stream.receive_left:
            if stream.remote_closed:
                error = Http2StreamError(stream_id, STREAM_CLOSED, f"there is DATA after the end of stream {stream_id}")
            elif not stream.answered:
                error = Http2StreamError(stream_id, PROTOCOL_ERROR, f"there is DATA before the headers of stream {stream_id}")
            else:
                error = Http2StreamError(
                    stream_id,
                    FLOW_CONTROL_ERROR,
                    f"the peer sends {size} bytes where the window of stream {stream_id} is {stream.receive_left}",
                )
            self._fail_stream(stream, error)
            return True  # and comes here again, with nobody's frame
        # No call from here on.
        self._current = stream
        self._left = left
        self._pad = pad
        self._frame_bytes = size
        self._frame_ends = ends
        self._in_data = True
        self._start = body
        self._receive_left -= size
        if stream is not None:
            stream.receive_left -= size
        return True

    def _read_data(self) -> bool:
        """Goes on with the frame; whether it is over."""
        stream = self._current
        while True:
            start = self._start
            left = self._left
            if stream is not None and not stream.remote_closed:
                destination = stream.destination
                at = stream.destination_at
                position = stream.position
                if destination is not None and position >= at:
                    filled = position - at
                    room = len(destination) - filled
                    if room <= 0:
                        stream.sink.on_filled(position)
                        if stream.destination is destination and stream.destination_at == at:
                            stream.destination = None
                        continue
                    size = min(left, room, self._stop - start)
                    if not size:
                        break
                    destination[filled : filled + size] = self._view[start : start + size]
                else:
                    size = min(left, self._stop - start)
                    if not size:
                        break
                    given = size
                    size = stream.sink.on_data(position, self._view[start : start + size])
                    if size != given and not stream.remote_closed:
                        if not 0 <= size < given or stream.destination is None or stream.destination_at != position + size:
                            raise ValueError(f"the sink took {size} of {given} bytes and gave no place for the rest")
                # No call from here on.
                stream.position += size
            else:
                size = min(left, self._stop - start)
                if not size:
                    break
            self._left = left - size
            self._start = start + size
        if left:
            return False
        if self._pad:
            size = min(self._pad, self._stop - start)
            # No call from here on.
            self._pad -= size
            self._start = start + size
            if self._pad:
                return False
        self._end_data(stream)
        return True

    def _end_data(self, stream: Stream | None) -> None:
        """The frame is over."""
        window = self._window
        increment = window - self._receive_left
        reply = b""
        if not self._frame_bytes or increment << 1 < window:
            increment = 0
        else:
            reply = frames.window_update(0, increment)
        of_stream = 0
        ends = self._frame_ends
        if stream is not None and not stream.remote_closed:
            number = stream.id
            if stream.content_length >= 0:
                check_length(stream, ends)
            if ends:
                stream.sink.on_end(None)
            elif not stream.paused:
                of_stream = self._stream_window - stream.receive_left
                if of_stream << 1 < self._stream_window:
                    of_stream = 0
                else:
                    reply += frames.window_update(number, of_stream)
            # No call from here on.
            stream.receive_left += of_stream
            if ends:
                stream.remote_closed = True
                if stream.local_closed and number in self._streams:
                    del self._streams[number]
        # Nor here.
        self._in_data = False
        self._current = None
        self._receive_left += increment
        if reply:
            self._replies += (reply,)
