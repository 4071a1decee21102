"""Types of tensors: element type and dimensions. Equal types are one object, so they compare by identity."""

from __future__ import annotations

from _operator import index  # without the operator module, which takes time to import

from ._proto.wire import varint
from .errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .dtype import DType

MAX_RANK = 64
_types: dict[tuple[DType, tuple[int, ...]], TensorType] = {}
_MAX_TYPES = 65536


class TensorType:
    """An element type with dimensions: `f32[2,3]`.

    dtype: a DType. dims: () for a scalar; a dimension may be 0.
    size: number of elements. nbytes: of the dense host form; types under 8 bits take a byte an element.
    """

    __slots__ = ("dtype", "dims", "size", "nbytes", "wire")

    dtype: DType
    dims: tuple[int, ...]
    size: int
    nbytes: int
    #: the message TensorType, with its length before it
    wire: bytes

    def __repr__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.dims))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return tensor_type, (self.dtype, self.dims)


def tensor_type(dtype: DType, dims: Sequence[int]) -> TensorType:
    """The type. Raises InvalidArgument for dimensions that no tensor has, TypeError for what are no dimensions."""
    try:
        key = (dtype, tuple(map(index, dims)))
    except TypeError as error:
        raise TypeError(f"dimensions are a list of int: {error}") from None
    return _types.get(key) or _make(*key)


def _make(dtype: DType, dims: tuple[int, ...]) -> TensorType:
    size = 1
    for dim in dims:
        if dim < 0:
            raise InvalidArgument(f"dimensions {dims}: {dim} is negative")
        size *= dim
    if len(dims) > MAX_RANK:
        raise InvalidArgument(f"{len(dims)} dimensions; at most {MAX_RANK} are possible")
    if size * dtype.itemsize >= 1 << 63 or any(dim >= 1 << 63 for dim in dims):
        raise InvalidArgument(f"{dtype.name}{list(dims)} has more bytes than can be addressed")
    result = TensorType()
    result.dtype = dtype
    result.dims = dims
    result.size = size
    result.nbytes = size * dtype.itemsize
    packed = b"".join(varint(dim) for dim in dims)
    message = b"\x08" + varint(dtype) + (b"\x12" + varint(len(packed)) + packed if packed else b"")
    result.wire = varint(len(message)) + message
    if len(_types) >= _MAX_TYPES:
        _types.clear()  # identity then costs a comparison of buffers with programs their short cut, nothing else
    return _types.setdefault((dtype, dims), result)


def same(a: TensorType, b: TensorType) -> bool:
    return a is b or (a.dtype is b.dtype and a.dims == b.dims)
