"""Python numbers as elements and back, held against NumPy and ml_dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pjrtd import element
from pjrtd.dtype import DType, numpy_dtype
from pjrtd.errors import InvalidArgument

FLOATS = [dtype for dtype in DType.members() if dtype.name[0] in "fb"]
INTEGERS = [dtype for dtype in DType.members() if dtype.name[0] in "su"]


def samples() -> np.ndarray:
    """Every magnitude and the neighbourhood of every rounding boundary of the small types."""
    rng = np.random.default_rng(1)
    powers = np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32)
    parts = [
        rng.integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32),
        rng.normal(size=2000) * 100,
        rng.normal(size=2000) * 1e-3,
        np.arange(-600, 600, 0.125),
        powers,
        1.5 * powers,
        1.25 * powers,
        -powers,
        [0.0, -0.0, np.inf, -np.inf, 464, 465, 61440, 65504, 65519, 65520, 248, 17, 15.75, 30, 31, 7.75, 30.1, 7.0],
    ]
    values = np.concatenate([np.asarray(part, np.float32) for part in parts])
    return values[~np.isnan(values)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_rounded_as_ml_dtypes_does(dtype: DType) -> None:
    values = samples()
    mine = element.encode(dtype, values.tolist())
    theirs = values.astype(numpy_dtype(dtype))
    wrong = np.flatnonzero(np.frombuffer(mine, theirs.dtype).view(f"u{dtype.itemsize}") != theirs.view(f"u{dtype.itemsize}"))
    assert [(values[i], mine[i * dtype.itemsize : (i + 1) * dtype.itemsize], theirs[i]) for i in wrong[:5]] == []


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_becomes_nan_where_the_type_has_one(dtype: DType) -> None:
    (value,) = element.decode(dtype, element.encode(dtype, [math.nan]))
    assert math.isnan(value) or dtype in (DType.F4E2M1FN, DType.F6E2M3FN, DType.F6E3M2FN)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize <= 2], ids=str)
def test_every_code_of_the_small_floats_is_decoded(dtype: DType) -> None:
    kind = f"u{dtype.itemsize}"
    codes = np.arange(1 << (8 * dtype.itemsize if dtype.bits >= 8 else dtype.bits), dtype=kind)
    theirs = codes.view(numpy_dtype(dtype)).astype(np.float64)
    mine = np.array(element.decode(dtype, codes.tobytes()))
    assert np.array_equal(mine, theirs, equal_nan=True)
    numbers = ~np.isnan(theirs)
    assert np.array_equal(np.signbit(mine)[numbers], np.signbit(theirs)[numbers])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_and_their_limits(dtype: DType) -> None:
    low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.name[0] == "s" else (0, (1 << dtype.bits) - 1)
    values = [low, high, 0, np.int64(0)]
    data = element.encode(dtype, values)
    kind = f"{'i' if low else 'u'}{dtype.itemsize}"
    assert np.frombuffer(data, kind).tolist() == values
    assert element.decode(dtype, data) == values
    for bad in (low - 1, high + 1):
        with pytest.raises(InvalidArgument, match="does not fit"):
            element.encode(dtype, [bad])
    for bad in (1.0, 1.5, "1", None, 1j):
        with pytest.raises(InvalidArgument):
            element.encode(dtype, [bad])


def test_bools_and_complex_numbers() -> None:
    assert element.encode(DType.PRED, [True, False, 1, 0]) == b"\1\0\1\0"
    assert element.decode(DType.PRED, b"\0\1\2") == [False, True, True]
    with pytest.raises(InvalidArgument):
        element.encode(DType.PRED, [2])
    for dtype in (DType.C64, DType.C128):
        data = element.encode(dtype, [1 + 2j, -0.5, True])
        assert data == np.array([1 + 2j, -0.5, 1], numpy_dtype(dtype)).tobytes()
        assert element.decode(dtype, data) == [1 + 2j, -0.5, 1]
    with pytest.raises(InvalidArgument):
        element.encode(DType.F32, [1j])


def test_no_elements() -> None:
    for dtype in DType.members():
        if dtype is not DType.TOKEN:
            assert element.encode(dtype, []) == b""
            assert element.decode(dtype, b"") == []
    with pytest.raises(InvalidArgument):
        element.decode(DType.TOKEN, b"")
