"""Frames as they travel inside messages of the gRPC stream `Channel`, and the small payloads of control frames.
The local socket has the same fields in a 32-byte header (proto/README.md).
"""
# Written by tools/gen_proto.py from proto/pjrtd/v1/frame.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .wire import (
    get_bytes,
    get_int32,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bytes,
    put_int32,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)

FRAME_KIND_INVALID = 0
FRAME_KIND_REQUEST = 1
FRAME_KIND_REPLY = 2
FRAME_KIND_ERROR = 3
FRAME_KIND_ITEM = 4
FRAME_KIND_END = 5
FRAME_KIND_CANCEL = 6
FRAME_KIND_CREDIT = 7
FRAME_KIND_NOTICE = 8


class Frame(Message):
    __slots__ = ("call", "method", "kind", "flags", "deadline_ns", "payload", "bulk")

    def __init__(
        self,
        call: int = 0,
        method: int = 0,
        kind: int = 0,
        flags: int = 0,
        deadline_ns: int = 0,
        payload: bytes = b"",
        bulk: bytes = b"",
    ) -> None:
        self.call: int = call
        self.method: int = method
        self.kind: int = kind
        self.flags: int = flags
        self.deadline_ns: int = deadline_ns
        self.payload: bytes = payload
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        if self.call:
            out += b"\x08"
            put_uint64(out, self.call)
        if self.method:
            out += b"\x10"
            put_uint32(out, self.method)
        if self.kind:
            out += b"\x18"
            put_int32(out, self.kind)
        if self.flags:
            out += b"\x20"
            put_uint32(out, self.flags)
        if self.deadline_ns:
            out += b"\x28"
            put_uint64(out, self.deadline_ns)
        if self.payload:
            out += b"\x32"
            put_bytes(out, self.payload)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.call, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.method, pos = get_uint32(data, pos, end)
            elif tag == 24:
                self.kind, pos = get_int32(data, pos, end)
            elif tag == 32:
                self.flags, pos = get_uint32(data, pos, end)
            elif tag == 40:
                self.deadline_ns, pos = get_uint64(data, pos, end)
            elif tag == 50:
                self.payload, pos = get_bytes(data, pos, end)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class Frames(Message):
    __slots__ = ("frames",)

    def __init__(
        self,
        frames: Iterable[Frame] = (),
    ) -> None:
        self.frames: list[Frame] = list(frames)

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.frames:
            out += b"\x0a"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = Frame()
                item.merge(data, pos, pos + size)
                self.frames.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class Credit(Message):
    __slots__ = ("bytes",)

    def __init__(
        self,
        bytes: int = 0,
    ) -> None:
        self.bytes: int = bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.bytes:
            out += b"\x08"
            put_uint64(out, self.bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class Notice(Message):
    """What the daemon tells a connection unasked."""

    __slots__ = ("message", "idle_end_ns")

    def __init__(
        self,
        message: str = "",
        idle_end_ns: int = 0,
    ) -> None:
        self.message: str = message
        self.idle_end_ns: int = idle_end_ns

    def encode(self) -> bytes:
        out = bytearray()
        if self.message:
            out += b"\x0a"
            put_string(out, self.message)
        if self.idle_end_ns:
            out += b"\x10"
            put_uint64(out, self.idle_end_ns)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.message, pos = get_string(data, pos, end)
            elif tag == 16:
                self.idle_end_ns, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)
