"""Element types and what stands for them."""

from __future__ import annotations

import pickle

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pjrtd
from pjrtd import DType
from pjrtd._proto import common
from pjrtd.errors import InvalidArgument


def test_the_codes_are_the_protocols() -> None:
    mine = {f"DTYPE_{dtype.name.upper()}": int(dtype) for dtype in DType.members()}
    theirs = {name: value for name, value in vars(common).items() if name.startswith("DTYPE_") and value}
    assert mine == theirs


@pytest.mark.parametrize("dtype", [d for d in DType.members() if d is not DType.TOKEN], ids=str)
def test_everything_that_names_a_type_gives_the_same_object(dtype: DType) -> None:
    numpy_type = dtype.dtype
    marker = getattr(pjrtd.typing, dtype.name.upper())
    names = [int(dtype), dtype, dtype.name, dtype.name.upper(), numpy_type, numpy_type.type, numpy_type.name, marker]
    for name in names:
        assert DType(name) is dtype
    assert (marker.code, marker.name, marker.itemsize) == (int(dtype), dtype.name, dtype.itemsize)
    assert numpy_type.itemsize == dtype.itemsize
    assert getattr(DType, dtype.name.upper()) is dtype


def test_other_names() -> None:
    assert DType(float) is DType.F32 and DType(int) is DType.S32 and DType(bool) is DType.PRED
    assert DType(np.dtype(">f4")) is DType.F32
    assert DType(jnp.float32) is DType.F32 and DType(jnp.bfloat16) is DType.BF16
    assert DType(ml_dtypes.int4) is DType.S4


@pytest.mark.parametrize("value", [0, 34, -1, "f33", "", None, True, 1.5, np.dtype("U4"), np.object_, str, object(), [11]])
def test_what_names_no_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="not an element type"):
        DType(value)


def test_it_is_pjrts_integer() -> None:
    assert DType.F32 == 11 and hash(DType.F32) == hash(11) and int(DType.F32) == 11 == DType.F32.code
    assert {11: "x"}[DType.F32] == "x"
    assert DType.F32 != 12 and DType.F32 != "f64" and DType.F32 == "f32" == DType.F32.name
    assert DType.F32 == np.float32 and np.dtype("f4") == DType.F32 and DType.F32 != np.int32
    assert str(DType.F32) == f"{DType.F32}" == "f32" and repr(DType.F32) == "DType.F32" and f"{DType.F32:d}" == "11"
    assert pickle.loads(pickle.dumps(DType.BF16)) is DType.BF16
    assert len(list(DType.members())) == 33


def test_numpy_takes_it() -> None:
    assert np.empty(3, DType.F64).dtype == np.float64
    assert np.dtype(DType.BF16) == np.dtype(ml_dtypes.bfloat16)
    with pytest.raises(TypeError):
        _ = DType.TOKEN.dtype


def test_markers_cannot_be_made_into_objects() -> None:
    with pytest.raises(TypeError):
        pjrtd.typing.F32()  # type: ignore[abstract]
    assert pjrtd.typing.by_code(11) is pjrtd.typing.F32 and pjrtd.typing.by_code(99) is None
    assert len(pjrtd.typing.ALL) == 32
