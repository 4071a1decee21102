"""Frames as entries of gRPC's messages: `Frames { repeated Frame frames = 1; }` of proto/pjrtd/v1/frame.proto. No I/O.

Entries one after the other are a message, so a frame is packed without knowing what travels beside it.
"""

from __future__ import annotations

from ._proto.wire import DecodeError, get_tag, get_varint, skip, varint
from .frame import MAX_INLINE_BYTES, MAX_ITEM_BYTES, MAX_PAYLOAD_BYTES, FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    # bytes of the entry, all of it; kind; call; flags; deadline_ns; where the payload begins and ends; where the bulk
    # begins, or the entry ends; its size
    Entry = tuple[int, int, int, int, int, int, int, int, int]

#: What an entry takes beside its payload and its bulk, at most.
OVERHEAD_BYTES = 64
#: What an entry of a valid frame takes at most.
MAX_ENTRY_BYTES = MAX_PAYLOAD_BYTES + max(MAX_INLINE_BYTES, MAX_ITEM_BYTES) + OVERHEAD_BYTES

_LAST = tuple(bytes((low,)) for low in range(128))  # seven bits of a varint that ends
_MORE = tuple(bytes((low | 128,)) for low in range(128))  # and of one that goes on
_BEGIN_CALL = tuple(b"\x08" + low for low in _MORE)
_heads: dict[tuple[int, int, int], bytes] = {}  # (kind, method, flags) -> these fields


def _varint(value: int) -> bytes:
    if value < 128:
        return _LAST[value]
    if value < 1 << 14:
        return _MORE[value & 127] + _LAST[value >> 7]
    if value < 1 << 21:
        return _MORE[value & 127] + _MORE[value >> 7 & 127] + _LAST[value >> 14]
    return varint(value)


def _head(kind: int, method: int, flags: int) -> bytes:
    made = b"\x10" + varint(method) + b"\x18" + varint(kind) + (b"\x20" + varint(flags) if flags else b"")
    return _heads.setdefault((kind, method, flags), made)


def pack(
    kind: int,
    method: int,
    call: int,
    payload: bytes = b"",
    bulk_bytes: int = 0,
    flags: int = 0,
    deadline_ns: int = 0,
) -> bytes:
    """A frame's entry up to its bulk, whose size is all that is needed here."""
    key = (kind, method, flags)
    head = _heads[key] if key in _heads else _head(kind, method, flags)
    frame = (_BEGIN_CALL[call & 127] + _varint(call >> 7) if call > 127 else b"\x08" + _LAST[call]) + head
    if deadline_ns:
        frame += b"\x28" + varint(deadline_ns)
    if payload:
        size = len(payload)
        frame += b"\x32" + (_LAST[size] if size < 128 else _varint(size)) + payload
    if bulk_bytes:
        frame += b"\x7a" + _varint(bulk_bytes)
    size = len(frame) + bulk_bytes
    return b"\x0a" + (_LAST[size] if size < 128 else _varint(size)) + frame


def parse(data: bytes | bytearray) -> Entry:
    """The entry at the beginning of `data`, which may be cut off: up to the bulk, where that comes last.

    Raises FrameError for what is no frame, and IndexError where more of it is needed to tell.
    """
    if data[0] != 0x0A:
        raise FrameError("the message is not a Frames")
    pos = 2
    size = data[1]
    if size > 127:
        size, pos = _get_size(data, 1)
    end = pos + size
    kind = call = flags = deadline_ns = 0
    payload = after = pos
    bulk = end
    bulk_bytes = 0
    while pos < end:
        tag = data[pos]
        value = data[pos + 1]
        pos += 2
        if value > 127:
            value &= 127
            shift = 7
            while True:
                byte = data[pos]
                pos += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 63:
                    raise FrameError("the frame cannot be decoded")
        if tag == 0x32:
            payload = pos
            pos = after = pos + value
        elif tag == 0x7A:
            bulk = pos
            bulk_bytes = value
            pos += value
        elif tag == 0x08:
            call = value
        elif tag == 0x18:
            kind = value
        elif tag == 0x20:
            flags = value
        elif tag == 0x28:
            deadline_ns = value
        elif tag != 0x10:
            return _parse_slowly(data, end)
    if pos != end:
        raise FrameError("a field of the frame is longer than the frame")
    return end, kind, call, flags, deadline_ns, payload, after, bulk, bulk_bytes


def entry_bytes(data: bytes | bytearray) -> int:
    """How long the entry at the beginning of `data` is, all of it."""
    size, pos = _get_size(data, 1)
    return pos + size


def _get_size(data: bytes | bytearray, pos: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        size |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise FrameError("a frame is longer than any frame can be")
    return size, pos


def _parse_slowly(data: bytes | bytearray, end: int) -> Entry:
    """An entry with fields that this client does not know."""
    if len(data) < end:
        raise IndexError
    raw = bytes(data[:end])
    values: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    _, pos = _get_size(raw, 1)
    try:
        while pos < end:
            tag, pos = get_tag(raw, pos, end)
            if tag in (0x32, 0x7A):
                size, pos = get_varint(raw, pos, end)
                if size > end - pos:
                    raise FrameError("a field of the frame is longer than the frame")
                places[tag] = (pos, size)
                pos += size
            elif tag in (0x08, 0x10, 0x18, 0x20, 0x28):
                values[tag], pos = get_varint(raw, pos, end)
            elif tag >> 3 <= 6 or tag >> 3 == 15:
                raise FrameError("a field of the frame has the wrong type")
            else:
                pos = skip(raw, pos, end, tag)
    except DecodeError as error:
        raise FrameError(f"the frame cannot be decoded: {error}") from error
    payload, payload_bytes = places.get(0x32, (0, 0))
    bulk, bulk_bytes = places.get(0x7A, (end, 0))
    kind, call, flags, deadline_ns = (values.get(tag, 0) for tag in (0x18, 0x08, 0x20, 0x28))
    return end, kind, call, flags, deadline_ns, payload, payload + payload_bytes, bulk, bulk_bytes
