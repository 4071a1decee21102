"""Elements as Python values: their bytes on the host, and back, for every element type, without NumPy.

Rounding is to nearest, ties to even, through f32, which is what ml_dtypes does; so are NaN, infinity and overflow of
the small floating-point types.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from math import copysign, inf, isinf, isnan, nan
from struct import Struct, pack

from .dtype import DType
from .errors import InvalidArgument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_INTEGERS = {
    DType.S8: "b",
    DType.S16: "h",
    DType.S32: "i",
    DType.S64: "q",
    DType.U8: "B",
    DType.U16: "H",
    DType.U32: "I",
    DType.U64: "Q",
    DType.S4: "b",
    DType.U4: "B",
    DType.S2: "b",
    DType.U2: "B",
    DType.S1: "b",
    DType.U1: "B",
}
_FLOATS = {DType.F32: "f", DType.F64: "d"}
_COMPLEX = {DType.C64: "f", DType.C128: "d"}

# exponent bits, mantissa bits, exponent bias, and how the special values are coded:
# "ieee" (infinities and NaNs at the top exponent), "fn" (one NaN at the very top, no infinity),
# "fnuz" (NaN where -0 would be), "finite" (neither NaN nor infinity)
_SMALL_FLOATS = {
    DType.F8E5M2: (5, 2, 15, "ieee"),
    DType.F8E4M3: (4, 3, 7, "ieee"),
    DType.F8E3M4: (3, 4, 3, "ieee"),
    DType.F8E4M3FN: (4, 3, 7, "fn"),
    DType.F8E4M3B11FNUZ: (4, 3, 11, "fnuz"),
    DType.F8E5M2FNUZ: (5, 2, 16, "fnuz"),
    DType.F8E4M3FNUZ: (4, 3, 8, "fnuz"),
    DType.F4E2M1FN: (2, 1, 1, "finite"),
    DType.F6E2M3FN: (2, 3, 1, "finite"),
    DType.F6E3M2FN: (3, 2, 3, "finite"),
}


class _SmallFloat:
    """The values of a floating-point type of up to 8 bits with a sign."""

    def __init__(self, dtype: DType) -> None:
        exponent_bits, mantissa_bits, bias, kind = _SMALL_FLOATS[dtype]
        bits = 1 + exponent_bits + mantissa_bits
        self.sign = 1 << bits - 1
        top = self.sign  # codes of finite values with sign 0 are below it
        self.nan = self.sign  # -0 stands for NaN where there is none
        if kind == "ieee":
            top -= 1 << mantissa_bits
            self.nan = top + (1 << mantissa_bits - 1)
        elif kind == "fn":
            top -= 1
            self.nan = top
        self.negative_zero = 0 if kind == "fnuz" else self.sign
        # What comes for an infinity or a value too large, with sign 0; the sign is added where signed_overflow.
        self.overflow = {"ieee": top, "fn": self.nan, "fnuz": self.nan, "finite": top - 1}[kind]
        self.signed_overflow = kind != "fnuz"
        # One more value than there are codes: what the next larger code would be, to round at the upper end.
        self.positive: list[float] = []
        for code in range(top + 1):
            exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
            if exponent:
                mantissa += 1 << mantissa_bits
            else:
                exponent = 1
            self.positive.append(mantissa * 2.0 ** (exponent - bias - mantissa_bits))
        self.values: list[float] = []
        for code in range(256):  # the bits above the type's own do not count
            magnitude = code & self.sign - 1
            value = self.positive[magnitude] if magnitude < top else inf if kind == "ieee" and magnitude == top else nan
            if code & self.sign:
                value = nan if kind == "fnuz" and not magnitude else -value
            self.values.append(value)

    def code(self, value: float) -> int:
        sign = self.sign if copysign(1.0, value) < 0 else 0
        if isnan(value):
            return self.nan ^ sign if self.signed_overflow else self.nan
        last = len(self.positive) - 1
        code = last if isinf(value) else _nearest(self.positive, abs(value))
        if code == last:
            return self.overflow | sign if self.signed_overflow else self.overflow
        return code | sign if code else self.negative_zero if sign else 0


def _nearest(values: list[float], value: float) -> int:
    """The index of the nearest of ascending values; of two equally near, the even one."""
    above = bisect_left(values, value)
    if above == len(values):
        return above - 1
    if above == 0 or values[above] == value:
        return above
    below = above - 1
    down, up = value - values[below], values[above] - value
    return below if down < up or down == up and below % 2 == 0 else above


_small_floats: dict[DType, _SmallFloat] = {}


def _small_float(dtype: DType) -> _SmallFloat:
    found = _small_floats.get(dtype)
    if found is None:
        found = _small_floats[dtype] = _SmallFloat(dtype)
    return found


def _e8m0_code(value: float) -> int:
    """A power of two from 2**-127 to 2**127; 255 is NaN, and stands for zero, negative and infinite values too."""
    if isnan(value) or isinf(value) or value <= 0:
        return 255
    if value < 2.0**-126:
        return 0 if value <= 2.0**-127 else 1
    (bits,) = Struct("<I").unpack(pack("<f", value))
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    return exponent + (mantissa >= 0x400000)


def _elements(raw: Any, code: str) -> list[Any]:
    return raw.cast(code).tolist()


def decode(dtype: DType, data: bytes | bytearray | memoryview) -> list[Any]:
    """The elements in dense, little-endian host bytes: bool, int, float or complex."""
    raw = memoryview(data).cast("B") if len(data) else memoryview(b"")
    if dtype in _INTEGERS:
        return _elements(raw, _INTEGERS[dtype])
    if dtype in _FLOATS:
        return _elements(raw, _FLOATS[dtype])
    if dtype is DType.PRED:
        return [byte != 0 for byte in raw]
    if dtype in _COMPLEX:
        parts = _elements(raw, _COMPLEX[dtype])
        return [complex(re, im) for re, im in zip(parts[::2], parts[1::2])]
    if dtype is DType.F16:
        return list(Struct(f"<{len(raw) // 2}e").unpack(raw))
    if dtype is DType.BF16:
        return array("f", array("I", (bits << 16 for bits in raw.cast("H"))).tobytes()).tolist()
    if dtype is DType.F8E8M0FNU:
        return [nan if byte == 255 else 2.0 ** (byte - 127) for byte in raw]
    if dtype in _SMALL_FLOATS:
        values = _small_float(dtype).values
        return [values[byte] for byte in raw]
    raise InvalidArgument(f"{dtype.name} has no values")


def encode(dtype: DType, values: Sequence[Any]) -> bytes:
    """The dense, little-endian host bytes of Python numbers.

    Raises InvalidArgument for a number that the type cannot hold: out of an integer type's range, a fraction where an
    integer belongs, a complex number where a real one does. Floating-point overflow gives what NumPy gives.
    """
    try:
        if dtype in _INTEGERS:
            return _encode_integers(dtype, values)
        if dtype is DType.PRED:
            return bytes(_truth(value) for value in values)
        if dtype in _COMPLEX:
            parts: list[float] = []
            for value in values:
                value = complex(value)
                parts += (value.real, value.imag)
            return array(_COMPLEX[dtype], parts).tobytes()
        floats = [float(value) for value in values]
    except (TypeError, OverflowError) as error:
        raise InvalidArgument(f"a value is no {dtype.name}: {error}") from error
    if dtype in _FLOATS:
        return array(_FLOATS[dtype], floats).tobytes()
    floats = array("f", floats).tolist()
    if dtype is DType.F16:
        return b"".join(_half(value) for value in floats)
    if dtype is DType.BF16:
        return array("H", (_bf16(bits) for bits in array("I", array("f", floats).tobytes()))).tobytes()
    if dtype is DType.F8E8M0FNU:
        return bytes(_e8m0_code(value) for value in floats)
    if dtype in _SMALL_FLOATS:
        code = _small_float(dtype).code
        return bytes(code(value) for value in floats)
    raise InvalidArgument(f"{dtype.name} has no values")


def _encode_integers(dtype: DType, values: Sequence[Any]) -> bytes:
    integers: list[int] = []
    signed = dtype.name[0] == "s"
    low, high = (-1 << dtype.bits - 1, (1 << dtype.bits - 1) - 1) if signed else (0, (1 << dtype.bits) - 1)
    for value in values:
        integer = value.__index__() if hasattr(value, "__index__") else None
        if integer is None:
            raise InvalidArgument(f"{value!r} is no integer, and the element type is {dtype.name}")
        if not low <= integer <= high:
            raise InvalidArgument(f"{integer} does not fit in {dtype.name}, which holds {low} to {high}")
        integers.append(integer)
    return array(_INTEGERS[dtype], integers).tobytes()


def _truth(value: Any) -> bool:
    if value in (0, 1):
        return bool(value)
    raise InvalidArgument(f"{value!r} is neither true nor false, and the element type is pred")


def _half(value: float) -> bytes:
    try:
        return pack("<e", value)
    except OverflowError:
        return pack("<e", copysign(inf, value))


def _bf16(bits: int) -> int:
    """The upper half of an f32, rounded."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 & 0x8000 | 0x7FC0
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16
