"""The frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6). No I/O and no state.

What a client never sends (PUSH_PROMISE, PRIORITY) is not written here, and what it refuses (PUSH_PROMISE) not read.
"""

from __future__ import annotations

from struct import Struct

from .http2_errors import FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, PROTOCOL_ERROR, Http2ConnectionError, Http2StreamError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Readable = bytes | bytearray | memoryview

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9

DATA = 0
HEADERS = 1
PRIORITY = 2
RST_STREAM = 3
SETTINGS = 4
PUSH_PROMISE = 5
PING = 6
GOAWAY = 7
WINDOW_UPDATE = 8
CONTINUATION = 9

# Flags; each belongs to some types only, and the others are ignored.
ACK = 0x1
END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FIELDS = 0x20

SETTINGS_HEADER_TABLE_SIZE = 1
SETTINGS_ENABLE_PUSH = 2
SETTINGS_MAX_CONCURRENT_STREAMS = 3
SETTINGS_INITIAL_WINDOW_SIZE = 4
SETTINGS_MAX_FRAME_SIZE = 5
SETTINGS_MAX_HEADER_LIST_SIZE = 6

DEFAULT_WINDOW_BYTES = 65535
MAX_WINDOW_BYTES = (1 << 31) - 1
MIN_MAX_FRAME_BYTES = 1 << 14
MAX_MAX_FRAME_BYTES = (1 << 24) - 1
MAX_STREAM_ID = (1 << 31) - 1
MAX_SETTINGS_ENTRIES = 64  # in one frame; the standard has six

_NAMES = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY", "WINDOW_UPDATE"),
    "CONTINUATION",
)

_header = Struct(">BHBBI")  # length (high byte, low bytes), type, flags, stream
_two_words = Struct(">II")
_setting = Struct(">HI")
_control = Struct(">BHBBII")  # a frame of four bytes
_pack_header = _header.pack


def unpack_header(data: Readable, pos: int) -> tuple[int, int, int, int]:
    """(payload bytes, type, flags, stream) of the nine bytes at `pos`, which must be there."""
    high, low, kind, flags, stream_id = _header.unpack_from(data, pos)
    return high << 16 | low, kind, flags, stream_id & MAX_STREAM_ID


def kind_name(kind: int) -> str:
    return _NAMES[kind] if kind < len(_NAMES) else f"type {kind}"


# ---- writing ----


def pack_header(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    return _pack_header(size >> 16, size & 0xFFFF, kind, flags, stream_id)


def headers(stream_id: int, block: bytes, end_stream: bool, max_frame_bytes: int) -> bytes:
    """A header block as HEADERS and as many CONTINUATIONs as it needs."""
    flags = END_STREAM if end_stream else 0
    if len(block) <= max_frame_bytes:
        return pack_header(len(block), HEADERS, flags | END_HEADERS, stream_id) + block
    out = bytearray(pack_header(max_frame_bytes, HEADERS, flags, stream_id))
    out += block[:max_frame_bytes]
    for pos in range(max_frame_bytes, len(block), max_frame_bytes):
        part = block[pos : pos + max_frame_bytes]
        last = pos + max_frame_bytes >= len(block)
        out += pack_header(len(part), CONTINUATION, END_HEADERS if last else 0, stream_id)
        out += part
    return bytes(out)


def rst_stream(stream_id: int, code: int) -> bytes:
    return _control.pack(0, 4, RST_STREAM, 0, stream_id, code)


def settings(values: Iterable[tuple[int, int]]) -> bytes:
    payload = b"".join([_setting.pack(name, value) for name, value in values])
    return pack_header(len(payload), SETTINGS, 0, 0) + payload


SETTINGS_ACK = pack_header(0, SETTINGS, ACK, 0)


def ping(data: bytes, ack: bool = False) -> bytes:
    """`data` is of eight bytes."""
    return pack_header(8, PING, ACK if ack else 0, 0) + data


def goaway(last_stream_id: int, code: int, debug: bytes = b"") -> bytes:
    return pack_header(8 + len(debug), GOAWAY, 0, 0) + _two_words.pack(last_stream_id, code) + debug


def window_update(stream_id: int, increment: int) -> bytes:
    return _control.pack(0, 4, WINDOW_UPDATE, 0, stream_id, increment)


# ---- reading ----


def check_header(size: int, kind: int, flags: int, stream_id: int, max_frame_bytes: int) -> None:
    """Raises what the standard wants for a frame whose size or stream cannot be, before its payload is read."""
    if size > max_frame_bytes:
        raise Http2ConnectionError(
            FRAME_SIZE_ERROR, f"a {kind_name(kind)} frame has {size} bytes where {max_frame_bytes} are allowed"
        )
    if kind > CONTINUATION:
        return
    if kind in (SETTINGS, PING, GOAWAY):
        if stream_id:
            raise Http2ConnectionError(PROTOCOL_ERROR, f"a {kind_name(kind)} frame is on stream {stream_id}")
    elif not stream_id and kind != WINDOW_UPDATE:
        raise Http2ConnectionError(PROTOCOL_ERROR, f"a {kind_name(kind)} frame is on stream 0")
    if kind == SETTINGS:
        right = not size if flags & ACK else size % 6 == 0
    elif kind == PING:
        right = size == 8
    elif kind == GOAWAY:
        right = size >= 8
    elif kind == RST_STREAM or kind == WINDOW_UPDATE:
        right = size == 4
    elif kind == PRIORITY and size != 5:
        raise Http2StreamError(stream_id, FRAME_SIZE_ERROR, f"a PRIORITY frame has {size} bytes")
    else:
        right = True
    if not right:
        raise Http2ConnectionError(FRAME_SIZE_ERROR, f"a {kind_name(kind)} frame has {size} bytes")


def parse_padding(size: int, pad: int, kind: int) -> int:
    """How many bytes of a frame of `size` bytes, of which the first says `pad`, are neither that byte nor padding."""
    if pad >= size:
        raise Http2ConnectionError(PROTOCOL_ERROR, f"a {kind_name(kind)} frame of {size} bytes has {pad} bytes of padding")
    return size - 1 - pad


def parse_headers(flags: int, stream_id: int, payload: bytes) -> bytes:
    """The piece of a header block in a HEADERS frame, without padding and priority."""
    start, end = 0, len(payload)
    if flags & PADDED:
        if not end:
            raise Http2ConnectionError(FRAME_SIZE_ERROR, "a padded HEADERS frame is empty")
        start = 1
        end = 1 + parse_padding(end, payload[0], HEADERS)
    if flags & PRIORITY_FIELDS:
        if end - start < 5:
            raise Http2ConnectionError(FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
        start += 5
    return payload[start:end]


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """(name, value) of each entry, in their order. Values that cannot be are refused, unknown names are not."""
    if len(payload) > 6 * MAX_SETTINGS_ENTRIES:
        raise Http2ConnectionError(FRAME_SIZE_ERROR, f"a SETTINGS frame has more than {MAX_SETTINGS_ENTRIES} entries")
    entries: list[tuple[int, int]] = list(_setting.iter_unpack(payload))
    for name, value in entries:
        if name == SETTINGS_ENABLE_PUSH and value:
            raise Http2ConnectionError(PROTOCOL_ERROR, f"a server sets ENABLE_PUSH to {value}")
        if name == SETTINGS_INITIAL_WINDOW_SIZE and value > MAX_WINDOW_BYTES:
            raise Http2ConnectionError(FLOW_CONTROL_ERROR, f"the peer sets INITIAL_WINDOW_SIZE to {value}")
        if name == SETTINGS_MAX_FRAME_SIZE and not MIN_MAX_FRAME_BYTES <= value <= MAX_MAX_FRAME_BYTES:
            raise Http2ConnectionError(PROTOCOL_ERROR, f"the peer sets MAX_FRAME_SIZE to {value}")
    return entries


def parse_rst_stream(payload: bytes) -> int:
    """The error code."""
    return int.from_bytes(payload, "big")


def parse_goaway(payload: bytes) -> tuple[int, int, bytes]:
    """(last stream, error code, debug data)."""
    last, code = _two_words.unpack_from(payload)
    return last & MAX_STREAM_ID, code, payload[8:]


def parse_window_update(stream_id: int, payload: bytes) -> int:
    """The increment."""
    increment = int.from_bytes(payload, "big") & MAX_WINDOW_BYTES
    if not increment:
        message = "a WINDOW_UPDATE frame has an increment of 0"
        if stream_id:
            raise Http2StreamError(stream_id, PROTOCOL_ERROR, message)
        raise Http2ConnectionError(PROTOCOL_ERROR, message)
    return increment
