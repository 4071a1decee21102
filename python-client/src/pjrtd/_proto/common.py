"""Types that every family uses. Field numbers are never reused.

proto3 without `optional`: Debian's protoc-c rejects it. Where absence must differ from zero, a oneof says so.
No message is recursive: a decoder's depth is bounded by the schema.
"""
# Written by tools/gen_proto.py from proto/pjrtd/v1/common.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .wire import (
    check_oneof,
    get_bool,
    get_double,
    get_int32,
    get_int64,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bool,
    put_bytes,
    put_double,
    put_int32,
    put_int64,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)

# Element types. The values are PJRT_Buffer_Type's, which PJRT never renumbers.
DTYPE_INVALID = 0
DTYPE_PRED = 1
DTYPE_S8 = 2
DTYPE_S16 = 3
DTYPE_S32 = 4
DTYPE_S64 = 5
DTYPE_U8 = 6
DTYPE_U16 = 7
DTYPE_U32 = 8
DTYPE_U64 = 9
DTYPE_F16 = 10
DTYPE_F32 = 11
DTYPE_F64 = 12
DTYPE_BF16 = 13
DTYPE_C64 = 14
DTYPE_C128 = 15
DTYPE_F8E5M2 = 16
DTYPE_F8E4M3FN = 17
DTYPE_F8E4M3B11FNUZ = 18
DTYPE_F8E5M2FNUZ = 19
DTYPE_F8E4M3FNUZ = 20
DTYPE_S4 = 21
DTYPE_U4 = 22
DTYPE_TOKEN = 23
DTYPE_S2 = 24
DTYPE_U2 = 25
DTYPE_F8E4M3 = 26
DTYPE_F8E3M4 = 27
DTYPE_F8E8M0FNU = 28
DTYPE_F4E2M1FN = 29
DTYPE_S1 = 30
DTYPE_U1 = 31
DTYPE_F6E2M3FN = 32
DTYPE_F6E3M2FN = 33


class TensorType(Message):
    """Element type and dimensions. A scalar has no dimensions; a dimension may be 0, never negative."""

    __slots__ = ("dtype", "dims")

    def __init__(
        self,
        dtype: int = 0,
        dims: Iterable[int] = (),
    ) -> None:
        self.dtype: int = dtype
        self.dims: list[int] = list(dims)

    def encode(self) -> bytes:
        out = bytearray()
        if self.dtype:
            out += b"\x08"
            put_int32(out, self.dtype)
        if self.dims:
            packed = bytearray()
            for value in self.dims:
                put_int64(packed, value)
            out += b"\x12"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.dtype, pos = get_int32(data, pos, end)
            elif tag == 16:
                value, pos = get_int64(data, pos, end)
                self.dims.append(value)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.dims.append(value)
            else:
                pos = skip(data, pos, end, tag)


class Tile(Message):
    __slots__ = ("dims",)

    def __init__(
        self,
        dims: Iterable[int] = (),
    ) -> None:
        self.dims: list[int] = list(dims)

    def encode(self) -> bytes:
        out = bytearray()
        if self.dims:
            packed = bytearray()
            for value in self.dims:
                put_int64(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_int64(data, pos, end)
                self.dims.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.dims.append(value)
            else:
                pos = skip(data, pos, end, tag)


class Layout(Message):
    """A device layout: dimensions from the fastest to the slowest varying, then tiles."""

    __slots__ = ("minor_to_major", "tiles")

    def __init__(
        self,
        minor_to_major: Iterable[int] = (),
        tiles: Iterable[Tile] = (),
    ) -> None:
        self.minor_to_major: list[int] = list(minor_to_major)
        self.tiles: list[Tile] = list(tiles)

    def encode(self) -> bytes:
        out = bytearray()
        if self.minor_to_major:
            packed = bytearray()
            for value in self.minor_to_major:
                put_int64(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        for value in self.tiles:
            out += b"\x12"
            put_bytes(out, value.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_int64(data, pos, end)
                self.minor_to_major.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.minor_to_major.append(value)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                item = Tile()
                item.merge(data, pos, pos + size)
                self.tiles.append(item)
                pos += size
            else:
                pos = skip(data, pos, end, tag)


class Attribute(Message):
    """A named value of a plugin: device attributes, create options, cost analysis, statistics."""

    __slots__ = ("name", "text", "integer", "real", "boolean", "integers")

    def __init__(
        self,
        name: str = "",
        text: str | None = None,
        integer: int | None = None,
        real: float | None = None,
        boolean: bool | None = None,
        integers: IntegerList | None = None,
    ) -> None:
        self.name: str = name
        self.text: str | None = text
        self.integer: int | None = integer
        self.real: float | None = real
        self.boolean: bool | None = boolean
        self.integers: IntegerList | None = integers

    def encode(self) -> bytes:
        out = bytearray()
        check_oneof("value", self.text, self.integer, self.real, self.boolean, self.integers)
        if self.name:
            out += b"\x0a"
            put_string(out, self.name)
        if self.text is not None:
            out += b"\x12"
            put_string(out, self.text)
        if self.integer is not None:
            out += b"\x18"
            put_int64(out, self.integer)
        if self.real is not None:
            out += b"\x21"
            put_double(out, self.real)
        if self.boolean is not None:
            out += b"\x28"
            put_bool(out, self.boolean)
        if self.integers is not None:
            out += b"\x32"
            put_bytes(out, self.integers.encode())
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.name, pos = get_string(data, pos, end)
            elif tag == 18:
                self.text, pos = get_string(data, pos, end)
                self.integer = None
                self.real = None
                self.boolean = None
                self.integers = None
            elif tag == 24:
                self.integer, pos = get_int64(data, pos, end)
                self.text = None
                self.real = None
                self.boolean = None
                self.integers = None
            elif tag == 33:
                self.real, pos = get_double(data, pos, end)
                self.text = None
                self.integer = None
                self.boolean = None
                self.integers = None
            elif tag == 40:
                self.boolean, pos = get_bool(data, pos, end)
                self.text = None
                self.integer = None
                self.real = None
                self.integers = None
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                if self.integers is None:
                    self.integers = IntegerList()
                self.integers.merge(data, pos, pos + size)
                pos += size
                self.text = None
                self.integer = None
                self.real = None
                self.boolean = None
            else:
                pos = skip(data, pos, end, tag)


class IntegerList(Message):
    __slots__ = ("values",)

    def __init__(
        self,
        values: Iterable[int] = (),
    ) -> None:
        self.values: list[int] = list(values)

    def encode(self) -> bytes:
        out = bytearray()
        if self.values:
            packed = bytearray()
            for value in self.values:
                put_int64(packed, value)
            out += b"\x0a"
            put_bytes(out, packed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                value, pos = get_int64(data, pos, end)
                self.values.append(value)
            elif tag == 10:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_int64(data, pos, stop)
                    self.values.append(value)
            else:
                pos = skip(data, pos, end, tag)


class ArgumentDetail(Message):
    """Which argument was wrong, and how."""

    __slots__ = ("index", "expected", "actual")

    def __init__(
        self,
        index: int = 0,
        expected: str = "",
        actual: str = "",
    ) -> None:
        self.index: int = index
        self.expected: str = expected
        self.actual: str = actual

    def encode(self) -> bytes:
        out = bytearray()
        if self.index:
            out += b"\x08"
            put_uint32(out, self.index)
        if self.expected:
            out += b"\x12"
            put_string(out, self.expected)
        if self.actual:
            out += b"\x1a"
            put_string(out, self.actual)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.index, pos = get_uint32(data, pos, end)
            elif tag == 18:
                self.expected, pos = get_string(data, pos, end)
            elif tag == 26:
                self.actual, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class Error(Message):
    """The payload of an ERROR frame, and the binary detail of a gRPC status."""

    __slots__ = ("code", "message", "hint", "argument", "origin_call", "retry_after_ns", "allocator", "biggest", "quota", "needed")

    def __init__(
        self,
        code: int = 0,
        message: str = "",
        hint: str = "",
        argument: ArgumentDetail | None = None,
        origin_call: int = 0,
        retry_after_ns: int = 0,
        allocator: Iterable[Attribute] = (),
        biggest: Iterable[BufferDetail] = (),
        quota: QuotaUse | None = None,
        needed: int = 0,
    ) -> None:
        self.code: int = code
        self.message: str = message
        self.hint: str = hint
        self.argument: ArgumentDetail | None = argument
        self.origin_call: int = origin_call
        self.retry_after_ns: int = retry_after_ns
        self.allocator: list[Attribute] = list(allocator)
        self.biggest: list[BufferDetail] = list(biggest)
        self.quota: QuotaUse | None = quota
        self.needed: int = needed

    def encode(self) -> bytes:
        out = bytearray()
        if self.code:
            out += b"\x08"
            put_uint32(out, self.code)
        if self.message:
            out += b"\x12"
            put_string(out, self.message)
        if self.hint:
            out += b"\x1a"
            put_string(out, self.hint)
        if self.argument is not None:
            out += b"\x22"
            put_bytes(out, self.argument.encode())
        if self.origin_call:
            out += b"\x28"
            put_uint64(out, self.origin_call)
        if self.retry_after_ns:
            out += b"\x30"
            put_uint64(out, self.retry_after_ns)
        for value in self.allocator:
            out += b"\x3a"
            put_bytes(out, value.encode())
        for value in self.biggest:
            out += b"\x42"
            put_bytes(out, value.encode())
        if self.quota is not None:
            out += b"\x4a"
            put_bytes(out, self.quota.encode())
        if self.needed:
            out += b"\x50"
            put_uint64(out, self.needed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.code, pos = get_uint32(data, pos, end)
            elif tag == 18:
                self.message, pos = get_string(data, pos, end)
            elif tag == 26:
                self.hint, pos = get_string(data, pos, end)
            elif tag == 34:
                size, pos = get_size(data, pos, end)
                if self.argument is None:
                    self.argument = ArgumentDetail()
                self.argument.merge(data, pos, pos + size)
                pos += size
            elif tag == 40:
                self.origin_call, pos = get_uint64(data, pos, end)
            elif tag == 48:
                self.retry_after_ns, pos = get_uint64(data, pos, end)
            elif tag == 58:
                size, pos = get_size(data, pos, end)
                item = Attribute()
                item.merge(data, pos, pos + size)
                self.allocator.append(item)
                pos += size
            elif tag == 66:
                size, pos = get_size(data, pos, end)
                item = BufferDetail()
                item.merge(data, pos, pos + size)
                self.biggest.append(item)
                pos += size
            elif tag == 74:
                size, pos = get_size(data, pos, end)
                if self.quota is None:
                    self.quota = QuotaUse()
                self.quota.merge(data, pos, pos + size)
                pos += size
            elif tag == 80:
                self.needed, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class BufferDetail(Message):
    __slots__ = ("session", "buffer", "bytes", "type", "device", "slot")

    def __init__(
        self,
        session: int = 0,
        buffer: int = 0,
        bytes: int = 0,
        type: str = "",
        device: int = 0,
        slot: str = "",
    ) -> None:
        self.session: int = session
        self.buffer: int = buffer
        self.bytes: int = bytes
        self.type: str = type
        self.device: int = device
        self.slot: str = slot

    def encode(self) -> bytes:
        out = bytearray()
        if self.session:
            out += b"\x08"
            put_uint64(out, self.session)
        if self.buffer:
            out += b"\x10"
            put_uint64(out, self.buffer)
        if self.bytes:
            out += b"\x18"
            put_uint64(out, self.bytes)
        if self.type:
            out += b"\x22"
            put_string(out, self.type)
        if self.device:
            out += b"\x28"
            put_int32(out, self.device)
        if self.slot:
            out += b"\x32"
            put_string(out, self.slot)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.session, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.buffer, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.bytes, pos = get_uint64(data, pos, end)
            elif tag == 34:
                self.type, pos = get_string(data, pos, end)
            elif tag == 40:
                self.device, pos = get_int32(data, pos, end)
            elif tag == 50:
                self.slot, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class QuotaUse(Message):
    """What is used of what is allowed."""

    __slots__ = ("setting", "used", "allowed")

    def __init__(
        self,
        setting: str = "",
        used: int = 0,
        allowed: int = 0,
    ) -> None:
        self.setting: str = setting
        self.used: int = used
        self.allowed: int = allowed

    def encode(self) -> bytes:
        out = bytearray()
        if self.setting:
            out += b"\x0a"
            put_string(out, self.setting)
        if self.used:
            out += b"\x10"
            put_uint64(out, self.used)
        if self.allowed:
            out += b"\x18"
            put_uint64(out, self.allowed)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                self.setting, pos = get_string(data, pos, end)
            elif tag == 16:
                self.used, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.allowed, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class Empty(Message):
    __slots__ = ()

    def encode(self) -> bytes:
        return b""

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            pos = skip(data, pos, end, tag)
