"""Arrays of the host, of whatever kind, as dense row-major bytes.

NumPy arrays (of any strides and byte order, ml_dtypes' types included), whatever has the buffer protocol (bytes,
bytearray, memoryview, array.array, mmap, ctypes arrays), JAX and torch arrays and whatever else speaks DLPack or
`__array__`, and Python numbers and nested lists of them. Nothing is imported for it that the caller has not imported.
"""

from __future__ import annotations

import sys

from . import dtype as dtypes
from .dtype import DType, as_dtype
from .errors import InvalidArgument
from .tensor_type import TensorType, tensor_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Bytes = bytes | memoryview

# what memoryview calls it -> the element type; sizes are checked beside it
_FORMATS = {
    "?": "pred",
    **{code: "s" for code in "bhilqn"},
    **{code: "u" for code in "BHILQN"},
    **{code: "f" for code in "efd"},
    "Zf": "c",
    "Zd": "c",
    "F": "c",
    "D": "c",
}
# Bytes without a type of their own: they are what the caller says.
_RAW_FORMATS = ("B", "b", "c")


def to_host_bytes(data: Any, dtype: Any = None, dims: Sequence[int] | None = None) -> tuple[TensorType, Bytes]:
    """The type and the dense, row-major, little-endian bytes of an array, number, or nested list.

    dtype: what the elements are, or are to be taken for; None: what `data` says.
    dims: the dimensions; None: what `data` says. Another arrangement of as many elements is a reshape.
    The result shares memory with `data` where it can. Raises InvalidArgument where the three do not fit together, and
    TypeError for an object that is no array.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic)):
        return _from_numpy(numpy, data, wanted, dims)
    if isinstance(data, (bool, int, float, complex, list, tuple)):
        return _from_python(data, wanted, dims)
    try:
        view = memoryview(data)
    except TypeError:
        view = None
    except (ValueError, BufferError) as error:  # a format that the buffer protocol does not know
        view = None
        if not hasattr(data, "__array__") and not hasattr(data, "__dlpack__"):
            raise InvalidArgument(f"{type(data).__name__} does not give out its memory: {error}") from error
    if view is not None:
        return _from_view(view, wanted, dims, type(data).__name__)
    return _from_other(data, wanted, dims)


def _resolve(found: DType, wanted: DType | None, found_dims: Sequence[int], dims: Sequence[int] | None) -> TensorType:
    """The type of data that is `found`, when the caller says `wanted` and `dims`."""
    if wanted is not None and wanted is not found and not _is_bits_of(found, wanted):
        raise InvalidArgument(
            f"the data is {found.name}, and the element type says {wanted.name}",
            hint=f"convert it first (NumPy: data.astype({wanted.numpy_name!r})), or leave the element type out",
        )
    own = tensor_type(wanted or found, found_dims)
    if dims is None:
        return own
    result = tensor_type(wanted or found, dims)
    if result.size != own.size:
        raise InvalidArgument(f"the data is {own}, {own.size} elements, and dims {tuple(dims)} have {result.size}")
    return result


def _is_bits_of(found: DType, wanted: DType) -> bool:
    """Whether integers may stand for the bits of another type of their size: unsigned ones for a floating-point type,
    8-bit ones for a type under 8 bits of the same sign."""
    if found.itemsize != wanted.itemsize or found.name[0] not in "su":
        return False
    if wanted.name[0] in "su":
        return wanted.bits < 8 and wanted.name[0] == found.name[0]
    return found.name[0] == "u"


def _from_numpy(numpy: Any, data: Any, wanted: DType | None, dims: Sequence[int] | None) -> tuple[TensorType, Bytes]:
    found = dtypes.from_numpy(data.dtype)
    if found is None:
        raise InvalidArgument(f"NumPy's {data.dtype} has no element type in PJRT")
    if wanted is not None and dims is not None and found is DType.U8:  # bytes, whatever they are bytes of
        result = tensor_type(wanted, dims)
        if result.nbytes != data.nbytes:
            raise InvalidArgument(f"{result} has {result.nbytes} bytes, and the data {data.nbytes}")
        return result, _in_range(wanted, _numpy_bytes(numpy, data))
    result = _resolve(found, wanted, data.shape, dims)
    if found.bits < 8 and found.name[0] in "su":
        # ml_dtypes keeps only the low bits; on the wire signed values are sign-extended
        data = data.astype(numpy.int8 if found.name[0] == "s" else numpy.uint8)
    elif data.dtype.byteorder == ">":
        data = data.astype(data.dtype.newbyteorder("<"))
    content = _numpy_bytes(numpy, data)
    return result, content if result.dtype is found else _in_range(result.dtype, content)


def _numpy_bytes(numpy: Any, data: Any) -> Bytes:
    if not data.size:
        return b""
    if not data.flags.c_contiguous:
        data = numpy.ascontiguousarray(data)
    elif data.nbytes <= 512:
        return data.tobytes()
    return memoryview(data.reshape(-1).view(numpy.uint8))


def _from_view(
    view: memoryview, wanted: DType | None, dims: Sequence[int] | None, kind: str
) -> tuple[TensorType, Bytes]:
    code, itemsize = view.format, view.itemsize
    big = code[:1] in (">", "!")
    if code[:1] in ("@", "=", "<", ">", "!"):
        code = code[1:]
    shape = view.shape or ()
    if wanted is not None and code in _RAW_FORMATS:
        if dims is None:
            if wanted.itemsize != 1:
                if not wanted.itemsize or view.nbytes % wanted.itemsize:
                    raise InvalidArgument(f"{view.nbytes} bytes are no whole number of {wanted.name} elements")
                shape = (view.nbytes // wanted.itemsize,)
            dims = shape
        result = tensor_type(wanted, dims)
        if result.nbytes != view.nbytes:
            raise InvalidArgument(f"{result} has {result.nbytes} bytes, and the data {view.nbytes}")
        return result, _in_range(wanted, _view_bytes(view))
    if code == "c":
        code = "B"
    letter = _FORMATS.get(code)
    found = DType.PRED if letter == "pred" else dtypes.by_name(f"{letter}{itemsize * 8}")
    if found is None:
        raise InvalidArgument(f"{kind} of buffer format {view.format!r} has no element type in PJRT")
    result = _resolve(found, wanted, shape, dims)
    content = _view_bytes(view)
    if big and itemsize > 1:
        content = _swapped(content, itemsize // 2 if letter == "c" else itemsize)
    return result, content


def _in_range(dtype: DType, content: Bytes) -> Bytes:
    """`content`, where its bytes are values of a type under 8 bits."""
    if dtype.bits < 8 and content:
        low, high = (-1 << dtype.bits - 1, (1 << dtype.bits - 1) - 1) if dtype.name[0] == "s" else (0, (1 << dtype.bits) - 1)
        values = memoryview(content).cast("b" if low else "B")
        for bad in (min(values), max(values)):
            if not low <= bad <= high:
                raise InvalidArgument(
                    f"a byte holds {bad}, and {dtype.name} holds {low} to {high}",
                    hint="types under 8 bits take one byte an element, signed ones sign-extended",
                )
    return content


def _view_bytes(view: memoryview) -> Bytes:
    if not view.nbytes:
        return b""
    if not view.c_contiguous:
        return view.tobytes()
    try:
        return view.cast("B") if view.ndim else memoryview(view.tobytes())
    except (TypeError, ValueError):
        return view.tobytes()


def _swapped(content: Bytes, itemsize: int) -> bytes:
    from array import array

    values: array[int] = array({2: "H", 4: "I", 8: "Q"}[itemsize])
    values.frombytes(content)
    values.byteswap()
    return values.tobytes()


def _from_python(data: Any, wanted: DType | None, dims: Sequence[int] | None) -> tuple[TensorType, Bytes]:
    shape: list[int] = []
    values: list[Any] = [data]
    level: Any = data
    while isinstance(level, (list, tuple)):
        shape.append(len(level))  # pyright: ignore[reportUnknownArgumentType]
        flat: list[Any] = []
        for item in values:
            if not isinstance(item, (list, tuple)) or len(item) != shape[-1]:  # pyright: ignore[reportUnknownArgumentType]
                raise InvalidArgument("a nested list has rows of different lengths")
            flat += item
        values = flat
        if not values:
            break
        level = values[0]
    for value in values:
        if not isinstance(value, (bool, int, float, complex)):
            if getattr(value, "shape", ()) or not (hasattr(value, "__index__") or hasattr(value, "__float__")):
                raise TypeError(f"a list of {type(value).__name__} is no array of numbers")
    found = wanted
    if found is None:
        kinds: set[type] = {type(value) for value in values}
        if complex in kinds:
            found = DType.C64
        elif kinds == {bool}:
            found = DType.PRED
        elif values and all(hasattr(value, "__index__") for value in values):
            found = DType.S32
        else:
            found = DType.F32
    from .element import encode  # brings modules that arrays do not need

    content = encode(found, values)
    return _resolve(found, wanted, shape, dims), content


def _from_other(data: Any, wanted: DType | None, dims: Sequence[int] | None) -> tuple[TensorType, Bytes]:
    """JAX, torch, and everything else that hands over an array."""
    kind = type(data).__name__
    failure: Exception | None = None
    numpy = sys.modules.get("numpy")
    speaks_dlpack = hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__")
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        if numpy is None and not speaks_dlpack:
            numpy = dtypes.import_numpy()  # nothing else can make use of it
        if numpy is not None:
            try:
                array = numpy.asarray(data)
            except (TypeError, ValueError, RuntimeError) as error:  # torch: bfloat16, a GPU's memory
                failure = error
            else:
                if array.dtype != object:
                    return _from_numpy(numpy, array, wanted, dims)
    if speaks_dlpack:
        from .dlpack import DLPackError, read_dlpack

        try:
            found, shape, content = read_dlpack(data)
        except DLPackError as error:
            failure = error
        else:
            return _resolve(found, wanted, shape, dims), content
    if failure is not None:
        raise TypeError(f"{kind} cannot be read as an array: {failure}") from failure
    raise TypeError(
        f"{kind} is no array: pass bytes, a NumPy, JAX or torch array, something with the buffer protocol or DLPack, "
        "a number, or a nested list of numbers"
    )
