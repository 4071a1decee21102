"""The protobuf wire format: what the generated messages are made of. No I/O.

Decoding accepts what a proto3 parser must accept (fields in any order, unknown fields, packed and unpacked lists,
repeated singular fields) and raises DecodeError for everything else, whatever the bytes are. One difference from
Google's parsers is meant: text that is not UTF-8 is decoded with replacement characters, because it may be what a
plugin said in an error, and losing the rest of the message over it would help nobody.
"""

from __future__ import annotations

from struct import Struct

_DOUBLE = Struct("<d")
_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1
_MAX_GROUP_DEPTH = 32


class DecodeError(ValueError):
    """The bytes are not a message."""


class Message:
    """What every generated message can do beside encode and merge."""

    __slots__ = ()

    def encode(self) -> bytes:
        raise NotImplementedError

    def merge(self, data: bytes, pos: int, end: int) -> None:
        """Reads the fields in data[pos:end] into this message."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # messages are mutable

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in values if v or v == 0)})"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes | bytearray | memoryview) -> M:
    """The message of that kind in `data`. Raises DecodeError."""
    raw = bytes(data)
    message = kind()
    message.merge(raw, 0, len(raw))
    return message


# ---- writing: each appends to `out`; ValueError for a value that the type cannot hold ----


def varint(value: int) -> bytes:
    """An unsigned number of up to 64 bits."""
    out = bytearray()
    put_uint64(out, value)
    return bytes(out)


def put_uint64(out: bytearray, value: int) -> None:
    if not 0 <= value <= _MASK_64:
        raise ValueError(f"{value} does not fit in uint64")
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_uint32(out: bytearray, value: int) -> None:
    if not 0 <= value <= _MASK_32:
        raise ValueError(f"{value} does not fit in uint32")
    put_uint64(out, value)


def put_int64(out: bytearray, value: int) -> None:
    if not -1 << 63 <= value < 1 << 63:
        raise ValueError(f"{value} does not fit in int64")
    put_uint64(out, value & _MASK_64)


def put_int32(out: bytearray, value: int) -> None:
    if not -1 << 31 <= value < 1 << 31:
        raise ValueError(f"{value} does not fit in int32")
    put_uint64(out, value & _MASK_64)


def put_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def put_double(out: bytearray, value: float) -> None:
    out += _DOUBLE.pack(value)


def put_bytes(out: bytearray, value: bytes | bytearray) -> None:
    put_uint64(out, len(value))
    out += value


def put_string(out: bytearray, value: str) -> None:
    put_bytes(out, value.encode())


def is_set(value: float) -> bool:
    """Whether a double differs from the default: -0.0 does."""
    return _DOUBLE.pack(value) != bytes(8)


def check_oneof(name: str, *values: object) -> None:
    if sum(value is not None for value in values) > 1:
        raise ValueError(f"more than one of {name} is set")


# ---- reading: each gives (value, next position) and never looks at `end` or beyond ----


def get_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK_64, pos
        shift += 7
        if shift == 70:
            raise DecodeError("a varint is longer than 10 bytes")
    raise DecodeError("the message is cut short in a varint")


def get_tag(data: bytes, pos: int, end: int) -> tuple[int, int]:
    value, pos = get_varint(data, pos, end)
    if not 8 <= value <= _MASK_32:
        raise DecodeError(f"{value} is not a field tag")
    return value, pos


def get_size(data: bytes, pos: int, end: int) -> tuple[int, int]:
    size, pos = get_varint(data, pos, end)
    if size > end - pos:
        raise DecodeError("the message is cut short in a field")
    return size, pos


get_uint64 = get_varint


def get_uint32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    value, pos = get_varint(data, pos, end)
    return value & _MASK_32, pos


def get_int64(data: bytes, pos: int, end: int) -> tuple[int, int]:
    value, pos = get_varint(data, pos, end)
    return value - (1 << 64) if value >> 63 else value, pos


def get_int32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    value, pos = get_varint(data, pos, end)
    value &= _MASK_32
    return value - (1 << 32) if value >> 31 else value, pos


def get_bool(data: bytes, pos: int, end: int) -> tuple[bool, int]:
    value, pos = get_varint(data, pos, end)
    return value != 0, pos


def get_double(data: bytes, pos: int, end: int) -> tuple[float, int]:
    if end - pos < 8:
        raise DecodeError("the message is cut short in a double")
    return _DOUBLE.unpack_from(data, pos)[0], pos + 8


def get_bytes(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    size, pos = get_size(data, pos, end)
    return data[pos : pos + size], pos + size


def get_string(data: bytes, pos: int, end: int) -> tuple[str, int]:
    raw, pos = get_bytes(data, pos, end)
    return raw.decode("utf-8", "replace"), pos


def skip(data: bytes, pos: int, end: int, tag: int, depth: int = 0) -> int:
    """The position after a field that the reader does not know."""
    wire = tag & 7
    if wire == 0:
        return get_varint(data, pos, end)[1]
    if wire == 1 or wire == 5:
        pos += 8 if wire == 1 else 4
        if pos > end:
            raise DecodeError("the message is cut short in a number")
        return pos
    if wire == 2:
        size, pos = get_size(data, pos, end)
        return pos + size
    if wire == 3:
        if depth == _MAX_GROUP_DEPTH:
            raise DecodeError("groups are nested too deep")
        while True:
            inner, pos = get_tag(data, pos, end)
            if inner & 7 == 4:
                if inner >> 3 != tag >> 3:
                    raise DecodeError("a group ends with another field's number")
                return pos
            pos = skip(data, pos, end, inner, depth + 1)
    raise DecodeError(f"{wire} is not a wire type that can stand here")
