"""Element types.

    pjrtd.DType.F32                  an int, equal to PJRT's 11, with .name "f32" and .itemsize 4
    pjrtd.DType(11), pjrtd.DType("f32"), pjrtd.DType("float32"), pjrtd.DType(numpy.float32)   the same object

Wherever a function takes an element type, it takes all of these, and the markers of pjrtd.typing.
"""

from __future__ import annotations

import sys

from .errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar

# name, PJRT's code, bits of a value, bytes of an element on the host, NumPy's (or ml_dtypes') name
_TABLE = (
    ("PRED", 1, 8, 1, "bool"),
    ("S8", 2, 8, 1, "int8"),
    ("S16", 3, 16, 2, "int16"),
    ("S32", 4, 32, 4, "int32"),
    ("S64", 5, 64, 8, "int64"),
    ("U8", 6, 8, 1, "uint8"),
    ("U16", 7, 16, 2, "uint16"),
    ("U32", 8, 32, 4, "uint32"),
    ("U64", 9, 64, 8, "uint64"),
    ("F16", 10, 16, 2, "float16"),
    ("F32", 11, 32, 4, "float32"),
    ("F64", 12, 64, 8, "float64"),
    ("BF16", 13, 16, 2, "bfloat16"),
    ("C64", 14, 64, 8, "complex64"),
    ("C128", 15, 128, 16, "complex128"),
    ("F8E5M2", 16, 8, 1, "float8_e5m2"),
    ("F8E4M3FN", 17, 8, 1, "float8_e4m3fn"),
    ("F8E4M3B11FNUZ", 18, 8, 1, "float8_e4m3b11fnuz"),
    ("F8E5M2FNUZ", 19, 8, 1, "float8_e5m2fnuz"),
    ("F8E4M3FNUZ", 20, 8, 1, "float8_e4m3fnuz"),
    ("S4", 21, 4, 1, "int4"),
    ("U4", 22, 4, 1, "uint4"),
    ("TOKEN", 23, 0, 0, ""),
    ("S2", 24, 2, 1, "int2"),
    ("U2", 25, 2, 1, "uint2"),
    ("F8E4M3", 26, 8, 1, "float8_e4m3"),
    ("F8E3M4", 27, 8, 1, "float8_e3m4"),
    ("F8E8M0FNU", 28, 8, 1, "float8_e8m0fnu"),
    ("F4E2M1FN", 29, 4, 1, "float4_e2m1fn"),
    ("S1", 30, 1, 1, "int1"),
    ("U1", 31, 1, 1, "uint1"),
    ("F6E2M3FN", 32, 6, 1, "float6_e2m3fn"),
    ("F6E3M2FN", 33, 6, 1, "float6_e3m2fn"),
)


class DType(int):
    """An element type: one of the class's own attributes, DType.PRED to DType.F6E3M2FN.

    It is PJRT's integer for that type. `name` is XLA's ("bf16"), `bits` the size of a value, `itemsize` the bytes of
    one element on the host: 1 for types under 8 bits, 0 for TOKEN, which has no host form.
    """

    name: str
    bits: int
    itemsize: int
    numpy_name: str

    PRED: ClassVar[DType]
    S8: ClassVar[DType]
    S16: ClassVar[DType]
    S32: ClassVar[DType]
    S64: ClassVar[DType]
    U8: ClassVar[DType]
    U16: ClassVar[DType]
    U32: ClassVar[DType]
    U64: ClassVar[DType]
    F16: ClassVar[DType]
    F32: ClassVar[DType]
    F64: ClassVar[DType]
    BF16: ClassVar[DType]
    C64: ClassVar[DType]
    C128: ClassVar[DType]
    F8E5M2: ClassVar[DType]
    F8E4M3FN: ClassVar[DType]
    F8E4M3B11FNUZ: ClassVar[DType]
    F8E5M2FNUZ: ClassVar[DType]
    F8E4M3FNUZ: ClassVar[DType]
    S4: ClassVar[DType]
    U4: ClassVar[DType]
    TOKEN: ClassVar[DType]
    S2: ClassVar[DType]
    U2: ClassVar[DType]
    F8E4M3: ClassVar[DType]
    F8E3M4: ClassVar[DType]
    F8E8M0FNU: ClassVar[DType]
    F4E2M1FN: ClassVar[DType]
    S1: ClassVar[DType]
    U1: ClassVar[DType]
    F6E2M3FN: ClassVar[DType]
    F6E3M2FN: ClassVar[DType]

    def __new__(cls, value: Any) -> DType:
        """The element type that `value` names. Raises InvalidArgument where it names none."""
        return as_dtype(value)

    @property
    def code(self) -> int:
        """PJRT's integer."""
        return int(self)

    @property
    def dtype(self) -> Any:
        """NumPy's dtype; so numpy.empty(buffer.shape, buffer.dtype) works. Imports numpy, and ml_dtypes where the type
        comes from there. Raises ImportError where they are missing, TypeError for TOKEN."""
        return numpy_dtype(self)

    @staticmethod
    def members() -> Iterator[DType]:
        """Every element type, by code."""
        return iter(_BY_CODE.values())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return int(self) == int(other)
        if isinstance(other, str) or _is_foreign(other):
            return _find(other) is self
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __repr__(self) -> str:
        return f"DType.{self.name.upper()}"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name if not spec or spec[-1] == "s" else int(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return DType, (int(self),)


_BY_CODE: dict[int, DType] = {}
_BY_NAME: dict[str, DType] = {}
for _name, _code, _bits, _itemsize, _numpy_name in _TABLE:
    _dtype = int.__new__(DType, _code)
    _dtype.name, _dtype.bits, _dtype.itemsize, _dtype.numpy_name = _name.lower(), _bits, _itemsize, _numpy_name
    setattr(DType, _name, _dtype)
    _BY_CODE[_code] = _BY_NAME[_name.lower()] = _dtype
    if _numpy_name:
        _BY_NAME[_numpy_name] = _dtype

_of_numpy: dict[object, DType] = {}
_OF_PYTHON = {bool: DType.PRED, int: DType.S32, float: DType.F32, complex: DType.C64}


def by_code(code: int) -> DType | None:
    """The element type of PJRT's integer, or None."""
    return _BY_CODE.get(code)


def by_name(name: str) -> DType | None:
    """The element type that XLA or NumPy calls by that name, or None."""
    return _BY_NAME.get(name)


def _is_foreign(value: object) -> bool:
    """Whether a value looks like another library's element type."""
    kind = type(value)
    return isinstance(value, type) or kind.__module__.partition(".")[0] in ("numpy", "torch", "jax", "ml_dtypes")


def _find(value: Any) -> DType | None:
    if isinstance(value, DType):
        return value
    if isinstance(value, int):
        return None if isinstance(value, bool) else _BY_CODE.get(value)
    if isinstance(value, str):
        return _BY_NAME.get(value.lower())
    if isinstance(value, type) and value in _OF_PYTHON:
        return _OF_PYTHON[value]
    code = getattr(value, "code", None)  # a marker of pjrtd.typing
    if isinstance(code, int):
        return _BY_CODE.get(code)
    if type(value).__module__ == "torch":
        return _BY_NAME.get(str(value).rpartition(".")[2])
    numpy = sys.modules.get("numpy")
    if numpy is None or value is None:
        return None
    try:
        return _BY_NAME.get(numpy.dtype(value).name)
    except (TypeError, ValueError):
        return None


def as_dtype(value: Any) -> DType:
    """The element type that a DType, PJRT integer, name, NumPy, JAX or torch dtype, or Python number type stands for.

    float, int, bool and complex are F32, S32, PRED and C64, what accelerators compute in. Raises InvalidArgument for
    anything else.
    """
    found = _find(value)
    if found is None:
        raise InvalidArgument(
            f"{value!r} is not an element type",
            hint="pass pjrtd.DType.F32 or the like, PJRT's integer for it (1 to 33), a name such as 'f32', or a NumPy dtype",
        )
    return found


def from_numpy(dtype: Any) -> DType | None:
    """The element type of an instance of numpy.dtype, whatever its byte order; None where PJRT has none."""
    found = _of_numpy.get(dtype)
    if found is None:
        found = _BY_NAME.get(dtype.name)  # NumPy makes the name up each time
        if found is not None:
            _of_numpy[dtype] = found
    return found


def _import(name: str) -> Any:
    from importlib import import_module

    return import_module(name)


def import_numpy() -> Any:
    """NumPy, which a caller has asked for."""
    return _import("numpy")


def numpy_dtype(dtype: DType) -> Any:
    """NumPy's dtype for an element type, in native byte order."""
    if not dtype.numpy_name:
        raise TypeError(f"{dtype.name} has no values")
    numpy = import_numpy()
    if hasattr(numpy, dtype.numpy_name) or dtype is DType.PRED:
        return numpy.dtype(dtype.numpy_name)
    try:
        ml_dtypes = _import("ml_dtypes")
    except ImportError as error:
        raise ImportError(f"{dtype.name} in NumPy needs ml_dtypes: pip install 'pjrtd[numpy]'") from error
    kind = getattr(ml_dtypes, dtype.numpy_name, None)
    if kind is None:
        raise ImportError(f"this ml_dtypes has no {dtype.numpy_name}; a newer one does")
    return numpy.dtype(kind)
