"""Host arrays of every kind as dense bytes."""

from __future__ import annotations

import array
import ctypes
import mmap

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from pjrtd import DType
from pjrtd.dlpack import DLPackError, read_dlpack
from pjrtd.errors import InvalidArgument
from pjrtd.host_array import to_host_bytes

BASE = np.arange(24, dtype=np.float32)
NUMPY_FORMS = {
    "dense": BASE.reshape(4, 6),
    "transposed": BASE.reshape(4, 6).T,
    "fortran": np.asfortranarray(BASE.reshape(4, 6)),
    "every second": BASE.reshape(4, 6)[::2, ::3],
    "reversed": BASE.reshape(4, 6)[::-1, ::-1],
    "broadcast": np.broadcast_to(np.float32(7), (2, 3)),
    "big-endian": BASE.reshape(4, 6).astype(">f4"),
    "big-endian transposed": BASE.reshape(4, 6).astype(">f4").T,
    "big-endian complex": np.array([1 + 2j, 3 - 4j], ">c16"),
    "scalar": np.array(2.5),
    "number": np.float16(1.5),
    "empty": np.zeros((2, 0, 3), np.int32),
    "bool": np.array([True, False, True])[::2],
    "read-only": np.frombuffer(b"abcd", np.uint8),
    "unaligned": np.frombuffer(b"x" + BASE.tobytes(), np.float32, offset=1),
    "bfloat16": np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3).T,
    "float8": np.arange(6).astype(ml_dtypes.float8_e4m3fn),
    "float8 scalar": np.array(2, ml_dtypes.float8_e5m2),
    "float4": np.arange(4).astype(ml_dtypes.float4_e2m1fn)[::-1],
    "large": np.arange(100_000, dtype=np.int64),
}


@pytest.mark.parametrize("form", NUMPY_FORMS)
def test_numpy_arrays(form: str) -> None:
    value = NUMPY_FORMS[form]
    type, content = to_host_bytes(value)
    native = value.dtype.newbyteorder("=")
    assert (type.dtype.dtype, type.dims) == (native, value.shape)
    assert bytes(content) == np.ascontiguousarray(value).astype(native).tobytes()
    assert len(content) == type.nbytes


def test_small_integers_of_ml_dtypes_are_sign_extended() -> None:
    value = np.array([-8, -1, 7, 3, 0], ml_dtypes.int4)
    type, content = to_host_bytes(value[::-1][::-1])
    assert type.dtype is DType.S4 and bytes(content) == bytes.fromhex("f8ff070300")
    type, content = to_host_bytes(np.array([15, 1], ml_dtypes.uint4))
    assert type.dtype is DType.U4 and bytes(content) == b"\x0f\x01"
    assert bytes(to_host_bytes(np.array([-2, 1], ml_dtypes.int2))[1]) == b"\xfe\x01"


def test_plain_integers_may_stand_for_small_types_and_for_bits() -> None:
    assert bytes(to_host_bytes(np.array([-8, 7], np.int8), DType.S4)[1]) == b"\xf8\x07"
    assert bytes(to_host_bytes(np.array([0x3F80], np.uint16), "bf16")[1]) == b"\x80\x3f"
    assert to_host_bytes(array.array("H", [0x3C00]), "f16")[0].dtype is DType.F16
    for bad in (np.array([8], np.int8), np.array([-9], np.int8)):
        with pytest.raises(InvalidArgument, match="s4 holds -8 to 7"):
            to_host_bytes(bad, DType.S4)
    with pytest.raises(InvalidArgument, match="u4 holds 0 to 15"):
        to_host_bytes(bytes([16]), DType.U4)


STANDARD = [
    (b"\0\0\x80\x3f", "f32", None, "f32[1]", b"\0\0\x80\x3f"),
    (b"\0\0\x80\x3f", "f32", [], "f32[]", b"\0\0\x80\x3f"),
    (bytearray(6), "s16", [3, 1], "s16[3,1]", bytes(6)),
    (bytes(3), None, None, "u8[3]", bytes(3)),
    (b"", "f32", [0], "f32[0]", b""),
    (b"", "f32", [2, 0, 3], "f32[2,0,3]", b""),
    (bytes(6), "u8", [2, 3], "u8[2,3]", bytes(6)),
    (array.array("d", [1.0]), None, None, "f64[1]", array.array("d", [1.0]).tobytes()),
    (array.array("l", [1, 2]), None, [2, 1], "s64[2,1]", array.array("q", [1, 2]).tobytes()),
    (array.array("f", [1, 2, 3, 4]), 11, [4], "f32[4]", array.array("f", [1, 2, 3, 4]).tobytes()),
    (memoryview(array.array("h", [1, 2, 3, 4]))[::2], None, None, "s16[2]", b"\1\0\3\0"),
    (memoryview(bytes(range(8))).cast("B", [2, 4]), None, None, "u8[2,4]", bytes(range(8))),
    ((ctypes.c_int32 * 2)(1, 2), None, None, "s32[2]", b"\1\0\0\0\2\0\0\0"),
    ((ctypes.c_uint16.__ctype_be__ * 2)(1, 2), None, None, "u16[2]", b"\1\0\2\0"),
    ((ctypes.c_double.__ctype_be__ * 1)(1.5), None, None, "f64[1]", array.array("d", [1.5]).tobytes()),
    (ctypes.c_float(1.0), None, None, "f32[]", b"\0\0\x80\x3f"),
    (memoryview(b"ab").cast("c"), None, None, "u8[2]", b"ab"),
    (memoryview(b"\1\0").cast("?"), None, None, "pred[2]", b"\1\0"),
    (1.5, None, None, "f32[]", array.array("f", [1.5]).tobytes()),
    (True, None, None, "pred[]", b"\1"),
    (3, None, None, "s32[]", b"\3\0\0\0"),
    (1j, None, None, "c64[]", array.array("f", [0, 1]).tobytes()),
    (3, "f64", None, "f64[]", array.array("d", [3]).tobytes()),
    ([[1, 2], [3, 4]], None, None, "s32[2,2]", array.array("i", [1, 2, 3, 4]).tobytes()),
    ([1, 2.5], None, None, "f32[2]", array.array("f", [1, 2.5]).tobytes()),
    ([1, 2j], None, None, "c64[2]", array.array("f", [1, 0, 0, 2]).tobytes()),
    ((True, False), None, None, "pred[2]", b"\1\0"),
    ([], None, None, "f32[0]", b""),
    ([[], []], "s8", None, "s8[2,0]", b""),
    ([1, 2, 3, 4], "u8", [2, 2], "u8[2,2]", bytes([1, 2, 3, 4])),
    ([np.float32(1), np.int64(2)], None, None, "f32[2]", array.array("f", [1, 2]).tobytes()),
    ([-8, 7], "s4", None, "s4[2]", b"\xf8\x07"),
    ([1.0, -2.0], "bf16", None, "bf16[2]", bytes.fromhex("803f00c0")),
]


@pytest.mark.parametrize("data,dtype,dims,type,content", STANDARD)
def test_standard_library_data(data: object, dtype: object, dims: list[int] | None, type: str, content: bytes) -> None:
    got, bytes_ = to_host_bytes(data, dtype, dims)
    assert (str(got), bytes(bytes_)) == (type, content)


def test_mapped_files() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:4] = b"abcd"
        type, content = to_host_bytes(mapped, "u8")
        assert str(type) == "u8[4096]" and bytes(content[:4]) == b"abcd"
        del content


class OnlyDLPack:
    """Speaks DLPack and nothing else, as torch without NumPy."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(24, dtype=np.int16).reshape(2, 3, 4)[::-1, ::2, 1:],
        np.array(3.5),
        np.zeros((0, 3), np.uint8),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
    ],
    ids=lambda v: f"{v.dtype}{v.shape}",
)
def test_dlpack_is_read_without_numpy(value: np.ndarray) -> None:
    found, shape, content = read_dlpack(OnlyDLPack(value))
    assert (found.dtype, shape, content) == (value.dtype, value.shape, np.ascontiguousarray(value).tobytes())
    type, again = to_host_bytes(OnlyDLPack(value))
    assert bytes(again) == content and type.dims == value.shape


def test_dlpack_of_a_device_is_refused() -> None:
    with pytest.raises(DLPackError, match="host memory"):
        read_dlpack(OnlyDLPack(np.zeros(2), device=2))
    with pytest.raises(TypeError, match="host memory"):
        to_host_bytes(OnlyDLPack(np.zeros(2), device=2))


class OnlyArray:
    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array([1, 2], np.int16)


class Bfloat16OfTorch(OnlyDLPack):
    """NumPy cannot take it, DLPack can."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise TypeError("Got unsupported ScalarType BFloat16")


def test_jax_arrays_and_other_objects() -> None:
    assert str(to_host_bytes(jnp.arange(3, dtype=jnp.bfloat16))[0]) == "bf16[3]"
    assert bytes(to_host_bytes(jnp.array([-1, 7], jnp.int4))[1]) == b"\xff\x07"
    assert str(to_host_bytes(OnlyArray())[0]) == "s16[2]"
    assert str(to_host_bytes(Bfloat16OfTorch(np.zeros(2, np.float32)))[0]) == "f32[2]"


WRONG = [
    (np.zeros(2), "f32", None, "the data is f64"),
    (np.zeros(2, np.int32), "f32", None, "the data is s32"),
    (np.zeros(2, np.float32), "f32", [3], "2 elements"),
    (np.zeros(2, np.uint8), "f32", [2], "8 bytes"),
    (array.array("d", [1]), "f32", None, "the data is f64"),
    (bytes(15), "f32", [4], "16 bytes"),
    (bytes(17), "f32", [4], "16 bytes"),
    (bytes(15), "f32", None, "no whole number"),
    (bytes(4), "token", [1], "0 bytes"),
    (bytes(4), "f32", [-1], "negative"),
    (bytes(4), "f32", [1 << 62, 4], "more bytes"),
    (bytes(4), "f32", [1] * 65, "at most 64"),
    ([[1], [1, 2]], None, None, "different lengths"),
    ([[1, 2], 3], None, None, "different lengths"),
    ([1 << 40], None, None, "does not fit in s32"),
    ([1.5], "s32", None, "no integer"),
    (np.array(["a"]), None, None, "no element type"),
    (np.array([object()]), None, None, "no element type"),
    (np.array(["2020-01-01"], "M8[D]"), None, None, "no element type"),
    (np.zeros(2, np.longdouble), None, None, "no element type"),
    (np.array([(1, 2)], "i4,i4"), None, None, "no element type"),
]


@pytest.mark.parametrize("data,dtype,dims,why", WRONG)
def test_what_does_not_fit_is_refused(data: object, dtype: object, dims: list[int] | None, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        to_host_bytes(data, dtype, dims)


@pytest.mark.parametrize("data", [object(), "text", None, ["a"], [None], {1: 2}, [np.zeros(2)], [b"x"]], ids=repr)
def test_what_is_no_array_is_a_type_error(data: object) -> None:
    with pytest.raises(TypeError):
        to_host_bytes(data)


def test_dimensions_that_are_no_integers_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="dimension"):
        to_host_bytes(bytes(4), "f32", [1.0])  # type: ignore[list-item]
    assert to_host_bytes(bytes(4), "f32", [np.int64(1)])[0].dims == (1,)
