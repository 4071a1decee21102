"""Types of tensors: element type and dimensions. Equal types are one object, so they compare by identity."""

from __future__ import annotations

from ._proto.wire import varint
from .dtype import DType, as_dtype
from .errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_RANK = 64
_MASK_64 = (1 << 64) - 1
_types: dict[tuple[int, tuple[int, ...]], TensorType] = {}
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
        return tensor_type, (int(self.dtype), self.dims)


def tensor_type(dtype: Any, dims: Sequence[int]) -> TensorType:
    """The type. Raises InvalidArgument for dimensions that no tensor has."""
    key = (dtype, tuple(dims))
    try:
        found = _types.get(key)
    except TypeError:
        found = None
    if found is None:
        found = _make(as_dtype(dtype), key[1])
    return found


def _make(dtype: DType, dims: Sequence[Any]) -> TensorType:
    checked: list[int] = []
    size = 1
    for dim in dims:
        if not hasattr(dim, "__index__"):
            raise TypeError(f"a dimension is an int, not {type(dim).__name__}")
        dim = int(dim)
        if dim < 0:
            raise InvalidArgument(f"dimensions {tuple(dims)}: {dim} is negative")
        checked.append(dim)
        size *= dim
    if len(checked) > MAX_RANK:
        raise InvalidArgument(f"{len(checked)} dimensions; at most {MAX_RANK} are possible")
    if size * dtype.itemsize >= 1 << 63:
        raise InvalidArgument(f"{dtype.name}{checked} has more bytes than can be addressed")
    result = TensorType()
    result.dtype = dtype
    result.dims = tuple(checked)
    result.size = size
    result.nbytes = size * dtype.itemsize
    packed = b"".join(varint(dim & _MASK_64) for dim in checked)
    message = b"\x08" + varint(dtype) + (b"\x12" + varint(len(packed)) + packed if packed else b"")
    result.wire = varint(len(message)) + message
    if len(_types) >= _MAX_TYPES:
        _types.clear()  # identity then costs a comparison of buffers with programs their short cut, nothing else
    return _types.setdefault((int(dtype), result.dims), result)


def same(a: TensorType, b: TensorType) -> bool:
    return a is b or (a.dtype is b.dtype and a.dims == b.dims)
