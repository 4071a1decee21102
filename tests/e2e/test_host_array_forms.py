"""Host arrays of every form arrive with the values that numpy says they have."""

from __future__ import annotations

import array

import ml_dtypes
import numpy as np
import pytest

import pjrtd
from case_programs import case, elementwise
from daemon import Daemon
from raw_frames import RawClient

pytestmark = pytest.mark.every_plugin


@pytest.fixture
def python(target: str):
    with pjrtd.Client.create(target) as client:
        yield client


BASE = np.arange(24, dtype=np.float32)
FORMS = {
    "transposed": np.arange(6, dtype=np.float32).reshape(3, 2).T,
    "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "every second row": np.arange(12, dtype=np.float32).reshape(4, 3)[::2],
    "every second column": np.arange(12, dtype=np.float32).reshape(4, 3)[:, ::2],
    "reversed": np.arange(6, dtype=np.float32)[::-1],
    "reversed twice": np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, ::-1],
    "broadcast": np.broadcast_to(np.float32(7), (2, 3)),
    "broadcast row": np.broadcast_to(np.arange(3, dtype=np.float32), (4, 3)),
    "three axes permuted": BASE.reshape(2, 3, 4).transpose(2, 0, 1),
    "offset": BASE[5:17],
    "scalar view": BASE[3:4].reshape(()),
    "big-endian": np.arange(6, dtype=">f4").reshape(2, 3),
    "big-endian transposed": np.arange(6, dtype=">f4").reshape(2, 3).T,
    "big-endian reversed": np.arange(6, dtype=">i8")[::-1],
    "big-endian complex": np.array([1 + 2j, 3 - 4j], dtype=">c8"),
    "big-endian half": np.arange(5, dtype=">f2"),
    "unaligned": np.frombuffer(b"x" + np.arange(4, dtype=np.float32).tobytes(), dtype=np.float32, offset=1),
    "field of a record": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i1"), ("b", "<f4")])["b"],
    "fortran complex": np.asfortranarray(np.array([[1 + 1j, 2], [3, 4j]], np.complex64)),
    "strided bfloat16": np.arange(12).astype(ml_dtypes.bfloat16).reshape(3, 4).T,
    "strided int4": np.arange(-8, 8).astype(ml_dtypes.int4).reshape(4, 4).T,
    "strided float8": np.arange(12).astype(ml_dtypes.float8_e4m3fn)[::-3],
    "strided float4": np.arange(4).astype(ml_dtypes.float4_e2m1fn)[::-1],
    "read-only": np.frombuffer(np.arange(4, dtype=np.int16).tobytes(), np.int16),
    "bool": np.array([True, False, True])[::2],
}


@pytest.mark.parametrize("form", FORMS)
def test_the_values_arrive_in_row_major_order(python: pjrtd.Client, form: str) -> None:
    value = FORMS[form]
    native = value.dtype.newbyteorder("=")
    with python.buffer_from_host(value) as buffer:
        back = buffer.numpy()
        assert back.shape == value.shape and back.dtype == native
        assert back.tobytes() == np.ascontiguousarray(value.astype(native)).tobytes()


def test_the_listed_strides_and_the_row_sum(python: pjrtd.Client) -> None:
    listed = {
        "transposed": [0, 2, 4, 1, 3, 5], "fortran": [0, 1, 2, 3, 4, 5], "every second row": [0, 1, 2, 6, 7, 8],
        "reversed": [5, 4, 3, 2, 1, 0], "broadcast": [7] * 6,
    }
    for form, values in listed.items():
        with python.buffer_from_host(FORMS[form]) as buffer:
            data = np.empty(6, np.float32)
            buffer.to_host(data)
            assert data.tolist() == values
    program = python.compile(case("row_sum").text)
    (result,) = program(FORMS["transposed"])
    assert result.numpy().tolist() == [6, 9]
    (result,) = program(python.buffer_from_host(FORMS["transposed"]))
    assert result.numpy().tolist() == [6, 9]
    (result,) = program(np.arange(6, dtype=">f4").reshape(2, 3))
    assert result.numpy().tolist() == [3, 12]


def test_bfloat16_and_complex_arrays(python: pjrtd.Client) -> None:
    the = case("python_buffer_protocol")
    program = python.compile(the.text)
    bf16 = np.frombuffer(the.args[0].data, ml_dtypes.bfloat16)
    c64 = np.array([1 + 2j, -3 + 0.5j], np.complex64)
    c128 = np.array(1e200 + 1j, np.complex128)
    for arguments in ((bf16, c64, c128), [python.buffer_from_host(value) for value in (bf16, c64, c128)]):
        squares, c64_squares, c128_square = (output.numpy() for output in program(*arguments))
        assert squares.tobytes() == bytes.fromhex("803f823f1e41") and squares.dtype == ml_dtypes.bfloat16
        assert c64_squares.tolist() == [-3 + 4j, 8.75 - 3j]
        assert c128_square.shape == () and c128_square == complex(float("inf"), 2e200)


def test_uploads_keep_what_the_array_held(python: pjrtd.Client) -> None:
    storage = np.empty(1024 + 16, np.float32)
    skip = (-storage.ctypes.data % 64) // 4
    aligned = storage[skip : skip + 1024]
    assert aligned.ctypes.data % 64 == 0
    aligned[:] = 1
    with python.buffer_from_host(aligned) as buffer:
        aligned[:] = 99
        assert buffer.numpy().tolist() == [1] * 1024
    kept = []
    for round_number in range(200):
        aligned[:] = round_number
        kept.append(python.buffer_from_host(aligned))
    aligned[:] = -1
    for round_number, buffer in enumerate(kept):
        assert buffer.numpy().tolist() == [round_number] * 1024


def test_a_large_upload_keeps_what_the_array_held(python: pjrtd.Client) -> None:
    values = np.full(4 * 1024 * 1024, 1.0, np.float32)
    with python.buffer_from_host(values) as buffer:
        values[:] = 99
        assert (buffer.numpy() == 1.0).all()
    value = bytearray(b"\x01" * (3 << 20))
    buffer = python.buffer_from_host(value, pjrtd.DType.U8, [3 << 20])
    value[:] = bytes(len(value))
    back = bytearray(3 << 20)
    buffer.to_host(back)
    assert back == b"\x01" * (3 << 20)


def test_arguments_given_by_value_keep_what_the_array_held(python: pjrtd.Client) -> None:
    program = python.compile(elementwise("f32", (4,)))
    value = np.array([1, 2, 3, 4], np.float32)
    results = []
    for step in range(100):
        value[:] = step
        results.append(program(value)[0])
        value[:] = -1
    assert [result.numpy().tolist() for result in results] == [[2 * step] * 4 for step in range(100)]


def test_the_wire_bytes_can_be_reused_at_once(client: RawClient) -> None:
    """The daemon copies what it received before it takes the next frame into the same memory."""
    buffers = [client.start_upload("u8", [64], bytes([step]) * 64, quiet=True)[0] for step in range(200)]
    assert client.call("Session.Sync").failed_call == 0
    for step, buffer in enumerate(buffers):
        assert client.download(buffer) == bytes([step]) * 64


@pytest.mark.parametrize("data,dtype,dims,right", [
    (bytes(range(8)), "U8", [2, 4], [[0, 1, 2, 3], [4, 5, 6, 7]]),
    (bytearray(b"\x00\x00\x80\x3f"), "F32", [], 1.0),
    (memoryview(array.array("h", [1, -2, 3])), "S16", [3], [1, -2, 3]),
    (array.array("d", [1.5, -0.0]), "F64", [2], [1.5, -0.0]),
    (array.array("f", [1.5, 2]), None, None, [1.5, 2.0]),
    ([1, 2, 3], "S32", [3], [1, 2, 3]),
    ([[1, 2], [3, 4]], "F32", [2, 2], [[1.0, 2.0], [3.0, 4.0]]),
])
def test_standard_library_data(python: pjrtd.Client, data: object, dtype: str | None, dims: list[int] | None, right: object) -> None:
    with python.buffer_from_host(data, getattr(pjrtd.DType, dtype) if dtype else None, dims) as buffer:
        assert buffer.tolist() == right
        assert repr(buffer.tolist()) == repr(right)


def test_objects_and_text_are_refused(python: pjrtd.Client) -> None:
    for value in (np.array([object()]), np.array(["a"]), np.array([b"abc"]), np.array(["2020-01-01"], "M8[D]"), object(),
                  np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")]), "text"):
        with pytest.raises((TypeError, ValueError, pjrtd.errors.PjrtError)):
            python.buffer_from_host(value)


def test_host_data_of_the_wrong_size_never_leaves_the_client_wrong(python: pjrtd.Client) -> None:
    for size in (0, 15, 17, 32):
        with pytest.raises((ValueError, pjrtd.errors.InvalidArgument)):
            python.buffer_from_host(bytes(size), pjrtd.DType.F32, [4])
    with python.buffer_from_host(np.zeros(4, np.float32)) as buffer:
        for wrong in (bytearray(15), bytearray(17), np.empty(3, np.float32)):
            with pytest.raises((ValueError, pjrtd.errors.InvalidArgument)):
                buffer.to_host(wrong)
        with pytest.raises((TypeError, ValueError, BufferError, pjrtd.errors.InvalidArgument)):
            buffer.to_host(bytes(16))
        assert buffer.numpy().tolist() == [0] * 4
