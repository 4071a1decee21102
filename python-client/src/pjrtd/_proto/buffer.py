"""Device buffers."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/buffer.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .common import Layout, TensorType
from .wire import (
    check_oneof,
    get_bool,
    get_bytes,
    get_int32,
    get_size,
    get_string,
    get_tag,
    get_uint64,
    Message,
    put_bool,
    put_bytes,
    put_int32,
    put_string,
    put_uint64,
    skip,
)


class UploadRequest(Message):
    """Host data is dense row-major and little-endian; types under 8 bits travel one element a byte.
    Data of up to max_inline_bytes may be the bulk of the request; otherwise ITEM frames of the same call carry it,
    in order, under credit, until data_bytes have been sent.
    """

    __slots__ = ("buffer", "type", "data_bytes", "device", "memory", "bulk")

    def __init__(
        self,
        buffer: int = 0,
        type: TensorType | None = None,
        data_bytes: int = 0,
        device: int | None = None,
        memory: int | None = None,
        bulk: bytes = b"",
    ) -> None:
        self.buffer: int = buffer
        self.type: TensorType | None = type
        self.data_bytes: int = data_bytes
        self.device: int | None = device
        self.memory: int | None = memory
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        check_oneof("placement", self.device, self.memory)
        if self.buffer:
            out += b"\x08"
            put_uint64(out, self.buffer)
        if self.type is not None:
            out += b"\x12"
            put_bytes(out, self.type.encode())
        if self.data_bytes:
            out += b"\x18"
            put_uint64(out, self.data_bytes)
        if self.device is not None:
            out += b"\x20"
            put_int32(out, self.device)
        if self.memory is not None:
            out += b"\x28"
            put_int32(out, self.memory)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.buffer, pos = get_uint64(data, pos, end)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 24:
                self.data_bytes, pos = get_uint64(data, pos, end)
            elif tag == 32:
                self.device, pos = get_int32(data, pos, end)
                self.memory = None
            elif tag == 40:
                self.memory, pos = get_int32(data, pos, end)
                self.device = None
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class UploadReply(Message):
    __slots__ = ("device_bytes", "device")

    def __init__(
        self,
        device_bytes: int = 0,
        device: int = 0,
    ) -> None:
        self.device_bytes: int = device_bytes
        self.device: int = device

    def encode(self) -> bytes:
        out = bytearray()
        if self.device_bytes:
            out += b"\x08"
            put_uint64(out, self.device_bytes)
        if self.device:
            out += b"\x10"
            put_int32(out, self.device)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.device_bytes, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.device, pos = get_int32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class DownloadRequest(Message):
    __slots__ = ("buffer",)

    def __init__(
        self,
        buffer: int = 0,
    ) -> None:
        self.buffer: int = buffer

    def encode(self) -> bytes:
        out = bytearray()
        if self.buffer:
            out += b"\x08"
            put_uint64(out, self.buffer)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.buffer, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class DownloadReply(Message):
    """Up to max_inline_bytes of data are the bulk of the reply. Otherwise ITEM frames follow the reply, under the client's
    credit, until data_bytes have come, or an ERROR frame in their place.
    """

    __slots__ = ("type", "data_bytes", "bulk")

    def __init__(
        self,
        type: TensorType | None = None,
        data_bytes: int = 0,
        bulk: bytes = b"",
    ) -> None:
        self.type: TensorType | None = type
        self.data_bytes: int = data_bytes
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        if self.type is not None:
            out += b"\x0a"
            put_bytes(out, self.type.encode())
        if self.data_bytes:
            out += b"\x10"
            put_uint64(out, self.data_bytes)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 16:
                self.data_bytes, pos = get_uint64(data, pos, end)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class BufferRequest(Message):
    __slots__ = ("buffer",)

    def __init__(
        self,
        buffer: int = 0,
    ) -> None:
        self.buffer: int = buffer

    def encode(self) -> bytes:
        out = bytearray()
        if self.buffer:
            out += b"\x08"
            put_uint64(out, self.buffer)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.buffer, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class DeleteRequest(Message):
    __slots__ = ("buffers",)

    def __init__(
        self,
        buffers: Iterable[int] = (),
    ) -> None:
        self.buffers: list[int] = list(buffers)

    def encode(self) -> bytes:
        out = bytearray()
        if self.buffers:
            packed = bytearray()
            for value in self.buffers:
                put_uint64(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_uint64(data, pos, end)
                self.buffers.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint64(data, pos, stop)
                    self.buffers.append(value)
            else:
                pos = skip(data, pos, end, tag)


class StatReply(Message):
    __slots__ = ("type", "host_bytes", "device_bytes", "device", "memory", "memory_kind", "layout", "is_deleted")

    def __init__(
        self,
        type: TensorType | None = None,
        host_bytes: int = 0,
        device_bytes: int = 0,
        device: int = 0,
        memory: int = 0,
        memory_kind: str = "",
        layout: Layout | None = None,
        is_deleted: bool = False,
    ) -> None:
        self.type: TensorType | None = type
        self.host_bytes: int = host_bytes
        self.device_bytes: int = device_bytes
        self.device: int = device
        self.memory: int = memory
        self.memory_kind: str = memory_kind
        self.layout: Layout | None = layout
        self.is_deleted: bool = is_deleted

    def encode(self) -> bytes:
        out = bytearray()
        if self.type is not None:
            out += b"\x0a"
            put_bytes(out, self.type.encode())
        if self.host_bytes:
            out += b"\x10"
            put_uint64(out, self.host_bytes)
        if self.device_bytes:
            out += b"\x18"
            put_uint64(out, self.device_bytes)
        if self.device:
            out += b"\x20"
            put_int32(out, self.device)
        if self.memory:
            out += b"\x28"
            put_int32(out, self.memory)
        if self.memory_kind:
            out += b"\x32"
            put_string(out, self.memory_kind)
        if self.layout is not None:
            out += b"\x3a"
            put_bytes(out, self.layout.encode())
        if self.is_deleted:
            out += b"\x40"
            put_bool(out, self.is_deleted)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 16:
                self.host_bytes, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.device_bytes, pos = get_uint64(data, pos, end)
            elif tag == 32:
                self.device, pos = get_int32(data, pos, end)
            elif tag == 40:
                self.memory, pos = get_int32(data, pos, end)
            elif tag == 50:
                self.memory_kind, pos = get_string(data, pos, end)
            elif tag == 58:
                size, pos = get_size(data, pos, end)
                if self.layout is None:
                    self.layout = Layout()
                self.layout.merge(data, pos, pos + size)
                pos += size
            elif tag == 64:
                self.is_deleted, pos = get_bool(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)
