"""The frame of the local socket: a 32-byte header, the protobuf payload, then bulk bytes. No I/O.

proto/README.md describes it; `unpack` says what is wrong with a header in the daemon's words.
"""

from __future__ import annotations

from struct import Struct

HEADER_BYTES = 32
MAGIC = b"PJRT"

REQUEST = 1
REPLY = 2
ERROR = 3
ITEM = 4
END = 5
CANCEL = 6
CREDIT = 7

QUIET = 1  # flag of a request: no reply on success

MAX_PAYLOAD_BYTES = 1 << 20
MAX_INLINE_BYTES = 64 << 10
MAX_ITEM_BYTES = 1 << 20

PROTOCOL_MIN = 1
PROTOCOL_MAX = 1

# magic, payload bytes, bulk bytes, method, kind, flags, call, deadline_ns
_HEADER = Struct("<4sIIHBBQQ")
_pack = _HEADER.pack
_unpack_from = _HEADER.unpack_from


class FrameError(ValueError):
    """The bytes are no frame; nothing after them can be trusted."""


def pack(
    kind: int,
    method: int,
    call: int,
    payload: bytes = b"",
    bulk_bytes: int = 0,
    flags: int = 0,
    deadline_ns: int = 0,
) -> bytes:
    """A frame without its bulk, whose size is all that is needed here."""
    return _pack(MAGIC, len(payload), bulk_bytes, method, kind, flags, call, deadline_ns) + payload


def unpack(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int, int, int, int, int]:
    """(payload bytes, bulk bytes, method, kind, flags, call) of the header at `pos`, which must be there whole.

    Raises FrameError for a header that breaks the protocol's rules.
    """
    magic, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns = _unpack_from(data, pos)
    if kind == REPLY and magic == MAGIC and call and payload_bytes <= MAX_PAYLOAD_BYTES:
        if bulk_bytes <= MAX_INLINE_BYTES and not flags and not deadline_ns:
            return payload_bytes, bulk_bytes, method, kind, flags, call
    if magic != MAGIC:
        raise FrameError('the frame does not begin with the magic "PJRT"')
    if payload_bytes > MAX_PAYLOAD_BYTES:
        raise FrameError("payload_bytes is over 1 MiB")
    if flags & 0x0E:
        raise FrameError("unknown flags are set")
    if not call and kind != ERROR:
        raise FrameError("the call id is 0")
    if kind == REQUEST or kind == REPLY:
        if bulk_bytes > MAX_INLINE_BYTES:
            raise FrameError("bulk_bytes of a request or reply is over 64 KiB")
    elif kind == ITEM:
        if bulk_bytes > MAX_ITEM_BYTES:
            raise FrameError("bulk_bytes of an item is over 1 MiB")
        if not bulk_bytes and not payload_bytes:
            raise FrameError("an item is empty")
    elif kind in (ERROR, END, CANCEL, CREDIT):
        if bulk_bytes:
            raise FrameError("bulk_bytes is not 0 in a frame that carries none")
    else:
        raise FrameError(f"the frame kind {kind} does not exist")
    if kind != REQUEST and (flags & QUIET or deadline_ns):
        raise FrameError("quiet and deadline_ns belong to requests only")
    return payload_bytes, bulk_bytes, method, kind, flags, call
