"""Slots: names for what a session keeps on the device."""

from __future__ import annotations

from ._proto.wire import varint
from .errors import ArgumentDetail, InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .dtype import DType
    from .tensor_type import TensorType

MAX_NAME_BYTES = 255


class Slot:
    """A name in the session for a buffer that persists, and what the buffer has to be.

    name: 1 to 255 bytes. dtype: as for Client.buffer_from_host; None: any. dims: the dimensions; None: any.

    It can stand among a program's arguments, wherever a buffer can: exe(Slot("theta"), x). What the session's slot of that
    name holds when the call arrives is the argument.
    """

    __slots__ = ("name", "dtype", "dims", "wire")

    def __init__(self, name: str, dtype: Any = None, dims: Sequence[int] | None = None) -> None:
        from .dtype import as_dtype

        self.name = name
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self.dims = None if dims is None else tuple(dims)
        #: The field `slot` of the messages that name it.
        self.wire = wire_name(name)

    def check(self, type: TensorType, index: int = 0) -> None:
        """Raises InvalidArgument where a buffer of that type does not belong into it; `index` is the argument's."""
        wrong = self.dtype is not None and type.dtype is not self.dtype or self.dims is not None and type.dims != self.dims
        if wrong:
            dims = "any shape" if self.dims is None else f"[{','.join(map(str, self.dims))}]"
            expected = f"{'any type' if self.dtype is None else self.dtype.name} {dims}"
            raise InvalidArgument(
                f"slot {self.name!r} takes {expected}, and is {type}", argument=ArgumentDetail(index, expected, str(type))
            )

    def __repr__(self) -> str:
        dtype = "" if self.dtype is None else f", {self.dtype.name}"
        return f"Slot({self.name!r}{dtype}{'' if self.dims is None else f', {list(self.dims)}'})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slot):
            return NotImplemented
        return (self.name, self.dtype, self.dims) == (other.name, other.dtype, other.dims)

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, self.dims))


def wire_name(name: str) -> bytes:
    """A slot's name as field 1 of a message. Raises InvalidArgument for what is no name."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a slot's name is a str, not {type(name).__name__}")
    data = name.encode()
    if not 0 < len(data) <= MAX_NAME_BYTES:
        raise InvalidArgument(f"a slot's name has 1 to {MAX_NAME_BYTES} bytes, and {name[:40]!r} has {len(data)}")
    return b"\x0a" + varint(len(data)) + data


def _message(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


def slot_argument(position: int, name: bytes) -> bytes:
    """The field slot_args of an ExecuteRequest; `name` is wire_name's."""
    return _message(b"\x32", (b"\x08" + varint(position) if position else b"") + b"\x12" + name[1:])


def feed_back_field(output: int, name: bytes) -> bytes:
    """The field feed_back of an ExecuteRequest, to a slot."""
    return _message(b"\x3a", (b"\x08" + varint(output) if output else b"") + b"\x12" + name[1:])


def feed_argument_field(output: int, argument: int) -> bytes:
    """The same, to the argument of a run at that position."""
    return _message(
        b"\x3a", (b"\x08" + varint(output) if output else b"") + (b"\x18" + varint(argument) if argument else b"")
    )


def binding(name: bytes, buffer: bytes) -> bytes:
    """The field bindings of a BindRequest or LookupRequest; `buffer` is an id as a varint."""
    size = len(name) + 1 + len(buffer)
    return b"\x0a" + (bytes((size,)) if size < 128 else varint(size)) + name + b"\x10" + buffer
