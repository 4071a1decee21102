"""One request on a connection and its answer: who is told what comes, and what is known of it."""

from __future__ import annotations

from .hpack import is_field_name, is_field_value
from .http2_errors import PROTOCOL_ERROR, Http2StreamError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hpack import Header
    from .http2_errors import Http2Error

MAX_INFORMATIONAL = 16  # answers of 1xx on one stream

_OF_ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"),
)


class StreamSink:
    """Whom a connection tells of a stream. Each call may come twice, where a signal's exception came in between: the
    position in the stream tells for data, and the other calls have nothing to add up.

    An Http2StreamError that is raised in a call ends the stream: the peer gets RST_STREAM and `on_end` the error.

    stream: set when the stream is opened.
    """

    __slots__ = ("stream",)

    stream: Stream | None

    def __init__(self) -> None:
        self.stream = None

    def on_headers(self, headers: list[Header]) -> None:
        """The answer begins. ":status" is there, and not of 1xx."""

    def on_data(self, position: int, data: memoryview) -> int:
        """DATA that begins `position` bytes into the answer; it is valid during the call only. How much of it was
        taken: all of it, unless `stream.receive_into` has said where the rest goes."""
        return len(data)

    def on_filled(self, position: int) -> None:
        """The destination is full; the answer goes on at `position`. A new one may be set here, from there on."""

    def on_trailers(self, headers: list[Header]) -> None:
        """The answer is over; `on_end` follows."""

    def on_end(self, error: Http2Error | None) -> None:
        """Nothing more comes: the answer is complete, or why it never will be. Not told where the caller itself reset
        the stream."""


class Stream:
    """Made by ClientConnection.open.

    id: its number on the connection.
    destination, destination_at: where DATA goes from which position on, see `receive_into`.
    position: bytes of DATA that have come, without padding.
    queued_bytes: bytes that `send_data` and its kin took; it tells after an exception whether they did.
    held, held_bytes: what `hold` took and no message was made of yet.
    local_closed, remote_closed: nothing more is sent, nothing more comes.
    error: why the stream broke.
    """

    __slots__ = (
        *("id", "sink", "destination", "destination_at", "position", "queued_bytes", "local_closed"),
        *("remote_closed", "error"),
        *("paused", "answered", "informational", "content_length", "receive_left"),
        *("granted", "sent", "pending", "ends", "held", "held_bytes"),
    )

    def __init__(self, number: int, sink: StreamSink, window_bytes: int) -> None:
        self.id = number
        self.sink = sink
        self.destination: memoryview | None = None
        self.destination_at = 0
        self.position = 0
        self.queued_bytes = 0
        self.local_closed = False
        self.remote_closed = False
        self.error: Http2Error | None = None
        self.paused = False
        self.answered = False  # the answer's headers have come
        self.informational = 0
        self.content_length = -1  # as the answer announces it
        self.receive_left = window_bytes  # what the peer may still send
        # The peer's window is INITIAL_WINDOW_SIZE + granted - sent. Each has one writer: who receives, who sends.
        self.granted = 0
        self.sent = 0
        self.pending: list[bytes | memoryview] = []  # what no frame was made of yet
        self.held: tuple[bytes, ...] = ()
        self.held_bytes = 0
        self.ends = False  # END_STREAM comes after it

    def receive_into(self, destination: memoryview | None, position: int) -> None:
        """DATA from `position` on goes there, straight from the socket where it can, and then `sink.on_filled` is told.
        None: it goes to `sink.on_data`. For calls of the sink, or before anything is received.

        The memory is a writable memoryview of bytes; it may be written until it is full or the stream ends."""
        self.destination = destination
        self.destination_at = position


def check_answer(stream: Stream, headers: list[Header], end: bool) -> int:
    """Holds a response's head, or its trailers, against the standard; the status, or 0 for trailers. Raises
    Http2StreamError for what is malformed (RFC 9113, section 8)."""
    status = 0
    regular = False
    for name, value in headers:
        if not is_field_name(name) or not is_field_value(value):
            raise _malformed(stream, f"{name[:80]!r} with the value {value[:80]!r} cannot be a header")
        if name[:1] == b":":
            if name != b":status" or regular or status or stream.answered:
                raise _malformed(stream, f"{name[:80]!r} cannot stand where it does")
            if len(value) != 3 or not value.isdigit() or value < b"100":
                raise _malformed(stream, f"the status is {value[:80]!r}")
            status = int(value)
        else:
            regular = True
            if name in _OF_ONE_HOP:
                raise _malformed(stream, f"{name!r} is not for HTTP/2")
    if stream.answered:
        if not end:
            raise _malformed(stream, "there is more after its trailers")
        return 0
    if not status:
        raise _malformed(stream, "it has no status")
    if status < 200 and (end or status == 101):
        raise _malformed(stream, f"the status {status} cannot end it" if end else "HTTP/2 has no status 101")
    return status


def content_length(stream: Stream, headers: list[Header]) -> int:
    """What a response's head announces; -1 where it does not."""
    found = -1
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18 or found >= 0:
                raise _malformed(stream, f"its content-length is {value[:80]!r}")
            found = int(value)
    return found


def check_length(stream: Stream, end: bool) -> None:
    """Holds the DATA that came against what was announced."""
    announced = stream.content_length
    if announced >= 0 and (stream.position > announced or end and stream.position < announced):
        raise _malformed(stream, f"it announces {announced} bytes and has {'' if end else 'at least '}{stream.position}")


def _malformed(stream: Stream, why: str) -> Http2StreamError:
    return Http2StreamError(stream.id, PROTOCOL_ERROR, f"the answer on stream {stream.id} is malformed: {why}")
