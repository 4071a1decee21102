"""The frame of the local socket: a 32-byte header, the protobuf payload, then bulk bytes. No I/O.

proto/README.md describes it.
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
NOTICE = 8

QUIET = 1  # flag of a request: no reply on success

MAX_PAYLOAD_BYTES = 1 << 20
MAX_INLINE_BYTES = 64 << 10
MAX_ITEM_BYTES = 1 << 20

_MAX_BULK_BYTES = {
    REQUEST: MAX_INLINE_BYTES,
    REPLY: MAX_INLINE_BYTES,
    ERROR: 0,
    ITEM: MAX_ITEM_BYTES,
    END: 0,
    CANCEL: 0,
    CREDIT: 0,
    NOTICE: 0,
}

_SMALL = MAX_INLINE_BYTES  # within every limit of a reply

#: How much of a download the daemon may send before the client has granted more.
DOWNLOAD_CREDIT_BYTES = 8 << 20

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


def unpack(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int, int, int]:
    """(payload bytes, bulk bytes, kind, call) of the header at `pos`, which must be there whole.

    Raises FrameError for a header that breaks the protocol's rules.
    """
    magic, payload_bytes, bulk_bytes, _method, kind, flags, call, deadline_ns = _unpack_from(data, pos)
    if magic != MAGIC:
        raise FrameError('the frame does not begin with the magic "PJRT"')
    if kind == REPLY and call and not (flags or deadline_ns) and payload_bytes <= _SMALL and bulk_bytes <= _SMALL:
        return payload_bytes, bulk_bytes, kind, call  # what comes most
    check(payload_bytes, bulk_bytes, kind, flags & 0x0F, call, deadline_ns)
    return payload_bytes, bulk_bytes, kind, call


def check(payload_bytes: int, bulk_bytes: int, kind: int, flags: int, call: int, deadline_ns: int) -> None:
    """Raises FrameError for what no frame may be, however it travels."""
    if payload_bytes > MAX_PAYLOAD_BYTES:
        raise FrameError("payload_bytes is over 1 MiB")
    if flags & ~QUIET:
        raise FrameError("unknown flags are set")
    if not call and kind != ERROR and kind != NOTICE:
        raise FrameError("the call id is 0")
    if bulk_bytes > _MAX_BULK_BYTES.get(kind, -1):
        if kind not in _MAX_BULK_BYTES:
            raise FrameError(f"the frame kind {kind} does not exist")
        raise FrameError(f"bulk_bytes is {bulk_bytes} in a frame that carries at most {_MAX_BULK_BYTES[kind]}")
    if kind == ITEM and not bulk_bytes and not payload_bytes:
        raise FrameError("an item is empty")
    if (flags or deadline_ns) and kind != REQUEST:
        raise FrameError("quiet and deadline_ns belong to requests only")
