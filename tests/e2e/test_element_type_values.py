"""Every PJRT element type goes to the device and back, and through a program where XLA computes with it."""

from __future__ import annotations

import itertools
import struct

import ml_dtypes
import numpy as np
import pytest

import wire_messages as wire
from bystander import Bystander
from case_programs import case, identity
from daemon import Daemon
from raw_frames import ERROR, INVALID_ARGUMENT, UNIMPLEMENTED, CallFailed, RawClient

import pjrtd

pytestmark = pytest.mark.every_plugin

# Name, numpy type, MLIR type; values are every bit pattern of small types.
NUMPY_TYPES = {
    "pred": (np.bool_, "i1"),
    "s8": (np.int8, "i8"), "s16": (np.int16, "i16"), "s32": (np.int32, "i32"), "s64": (np.int64, "i64"),
    "u8": (np.uint8, "ui8"), "u16": (np.uint16, "ui16"), "u32": (np.uint32, "ui32"), "u64": (np.uint64, "ui64"),
    "f16": (np.float16, "f16"), "f32": (np.float32, "f32"), "f64": (np.float64, "f64"),
    "bf16": (ml_dtypes.bfloat16, "bf16"),
    "c64": (np.complex64, "complex<f32>"), "c128": (np.complex128, "complex<f64>"),
    "f8e5m2": (ml_dtypes.float8_e5m2, "f8E5M2"), "f8e4m3fn": (ml_dtypes.float8_e4m3fn, "f8E4M3FN"),
    "f8e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, "f8E4M3B11FNUZ"),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ"), "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "f8E4M3FNUZ"),
    "f8e4m3": (ml_dtypes.float8_e4m3, "f8E4M3"), "f8e3m4": (ml_dtypes.float8_e3m4, "f8E3M4"),
    "f8e8m0fnu": (ml_dtypes.float8_e8m0fnu, "f8E8M0FNU"),
    "s4": (ml_dtypes.int4, "i4"), "u4": (ml_dtypes.uint4, "ui4"),
    "s2": (ml_dtypes.int2, "i2"), "u2": (ml_dtypes.uint2, "ui2"),
    "s1": (ml_dtypes.int1, None), "u1": (ml_dtypes.uint1, None),
    "f4e2m1fn": (ml_dtypes.float4_e2m1fn, "f4E2M1FN"),
    "f6e2m3fn": (ml_dtypes.float6_e2m3fn, None), "f6e3m2fn": (ml_dtypes.float6_e3m2fn, None),
}
BITS = {"s4": 4, "u4": 4, "s2": 2, "u2": 2, "s1": 1, "u1": 1, "f4e2m1fn": 4, "f6e2m3fn": 6, "f6e3m2fn": 6, "pred": 1}
SIGNED_SUBBYTE = {"s4", "s2", "s1"}
SINCE = {"s1": 94, "u1": 94, "f6e2m3fn": 114, "f6e3m2fn": 114}  # the minor version of PJRT that brought it


def lacks(failed: CallFailed | None, name: str, minor: int) -> bool:
    """Whether the plugin is too old for the type; then that is what the call has to have said."""
    if minor >= SINCE.get(name, 0):
        return False
    assert failed is not None and failed.code == UNIMPLEMENTED
    assert failed.message == f"element type {name} came with PJRT 0.{SINCE[name]}; this plugin speaks 0.{minor}"
    return True


def refusal(client: RawClient, name: str, dims: list[int], data: bytes) -> CallFailed | None:
    """How the upload fails; None where it does not."""
    buffer, call = client.start_upload(name, dims, data)
    try:
        client.reply(call, "Buffer.Upload")
    except CallFailed as failed:
        assert client.failure("Buffer.Stat", buffer=buffer).message == failed.message
        return failed
    return None


def host_patterns(name: str) -> bytes:
    """Host bytes that between them have every bit pattern (small types) or the extreme ones."""
    numpy_type, _ = NUMPY_TYPES[name]
    width = np.dtype(numpy_type).itemsize
    if width == 1:
        bits = BITS.get(name, 8)
        values = range(1 << bits)
        if name in SIGNED_SUBBYTE:
            values = [value - (1 << bits) if value >> (bits - 1) else value for value in values]
        return bytes(value & 0xFF for value in values)
    if width == 2:
        return np.arange(1 << 16, dtype="<u2").tobytes()
    words = [0, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x3F800000]
    if width == 4:
        return struct.pack(f"<{len(words)}I", *words)
    pairs = list(itertools.product(words, words))
    data = b"".join(struct.pack("<II", low, high) for low, high in pairs)
    return data[: len(data) // width * width]


def test_the_table_covers_the_protocol() -> None:
    assert set(NUMPY_TYPES) == set(wire.dtype_numbers()) - {"invalid", "token"}


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_every_bit_pattern_comes_back(client: RawClient, minor: int, name: str) -> None:
    data = host_patterns(name)
    width = np.dtype(NUMPY_TYPES[name][0]).itemsize
    if lacks(refusal(client, name, [len(data) // width], data), name, minor):
        return
    buffer = client.upload(name, [len(data) // width], data)
    assert client.download(buffer) == data
    stat = client.call("Buffer.Stat", buffer=buffer)
    assert stat.type.dtype == wire.dtype_numbers()[name]
    assert stat.host_bytes == len(data)


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_scalars_and_empty_tensors(client: RawClient, minor: int, name: str) -> None:
    width = np.dtype(NUMPY_TYPES[name][0]).itemsize
    one = host_patterns(name)[-width:]
    if lacks(refusal(client, name, [], one), name, minor):
        assert lacks(refusal(client, name, [0], b""), name, minor)
        return
    assert client.download(client.upload(name, [], one)) == one
    assert client.download(client.upload(name, [1, 1, 1], one)) == one
    for dims in ([0], [3, 0], [0, 2**40], [0, 0, 0]):
        assert client.download(client.upload(name, dims, b"")) == b""


@pytest.mark.parametrize("name", [name for name, (_, mlir) in NUMPY_TYPES.items() if mlir])
def test_through_a_program(client: RawClient, name: str) -> None:
    """The program only moves values, so each bit pattern has to survive (a NaN of a type under 32 bits may be quietened
    by a conversion, and stays a NaN)."""
    numpy_type, mlir = NUMPY_TYPES[name]
    data = host_patterns(name)
    count = len(data) // np.dtype(numpy_type).itemsize
    program = client.compile(identity(mlir, (2, count // 2)))
    described = client.call("Program.Describe", program=program)
    assert [arg.type.dtype for arg in described.args] == [wire.dtype_numbers()[name]]
    assert not described.args[0].unsupported
    (result,) = client.execute(program, [client.upload(name, [2, count // 2], data)])
    back = client.download(result)
    if mlir.startswith("f8"):
        before, after = (np.frombuffer(part, numpy_type).astype(np.float32) for part in (data, back))
        assert ((before == after) | (np.isnan(before) & np.isnan(after))).all()
        assert (np.signbit(before) == np.signbit(after))[~np.isnan(before)].all()
    else:
        assert back == data


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_numpy_arrays_through_the_python_client(target: str, minor: int, name: str) -> None:
    numpy_type = np.dtype(NUMPY_TYPES[name][0])
    array = np.frombuffer(host_patterns(name), dtype=numpy_type).copy()
    with pjrtd.Client.create(target) as client:
        if minor < SINCE.get(name, 0):
            with pytest.raises(pjrtd.errors.Unimplemented, match=f"{name} came with PJRT 0.{SINCE[name]}; .* 0.{minor}$"):
                client.buffer_from_host(array).numpy()
            return
        with client.buffer_from_host(array) as buffer:
            assert buffer.element_type == wire.dtype_numbers()[name]
            back = buffer.numpy()
            assert back.dtype == numpy_type and back.shape == array.shape
            if name in SIGNED_SUBBYTE:  # ml_dtypes reads the low bits of a byte and keeps the others as it likes
                assert back.tolist() == array.tolist()
            else:
                assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["s4", "u4", "s2", "u2", "s1", "u1"])
def test_a_packed_payload_of_small_integers_is_refused(client: RawClient, minor: int, name: str) -> None:
    bits = BITS[name]
    packed = (5 * bits + 7) // 8
    _, call = client.start_upload(name, [5], bytes(packed))
    failed = client.failure_of(call)
    if lacks(failed, name, minor):
        return
    assert failed.code == INVALID_ARGUMENT
    assert "5" in failed.message and str(packed) in failed.message


@pytest.mark.parametrize("name", ["s4", "u4", "s2", "u2", "s1", "u1", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "pred"])
def test_host_bytes_outside_a_small_type_do_no_harm(client: RawClient, bystander: Bystander, minor: int, name: str) -> None:
    """Refused, or cut to the bits that the type has: never an echo of bits that it does not have."""
    data = bytes(range(256))
    buffer, call = client.start_upload(name, [256], data)
    answered = client.receive_of(call)
    if answered.kind == ERROR:
        failed = client.failure("Buffer.Stat", buffer=buffer)
        assert lacks(failed, name, minor) or failed.code == INVALID_ARGUMENT
        return
    back = client.download(buffer)
    if name not in ("pred", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn"):
        mask = (1 << BITS[name]) - 1
        expected = [value & mask for value in range(256)]
        if name in SIGNED_SUBBYTE:
            expected = [value - mask - 1 if value > mask >> 1 else value for value in expected]
        assert list(back) == [value & 0xFF for value in expected]


@pytest.mark.parametrize("number", [0, 23, 34, 63, 127, 255, 256, 65535, 2**31 - 1, -1, -(2**31)])
@pytest.mark.parametrize("dims,size", [([4], 16), ([], 4), ([0], 0), ([4], 0), ([4], 4)])
def test_element_types_without_a_host_form_are_refused(client: RawClient, number: int, dims: list[int], size: int) -> None:
    """0 is no type, 23 is the token, the rest is outside the enum: the plugin would abort on most of them."""
    buffer, call = client.start_upload(number, dims, bytes(size))
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT
    assert "type" in failed.message


@pytest.mark.parametrize("number", [0, 23, 34, 255, 2**31 - 1, -1])
def test_element_types_of_inline_arguments_are_checked_too(client: RawClient, number: int) -> None:
    program = client.compile(case("add").text)
    good = client.upload("f32", [4], bytes(16))
    _, call = client.start_execute(
        program, [good, 0], inline_args=[dict(position=1, type=dict(dtype=number, dims=[4]), data_bytes=16)], bulk=bytes(16)
    )
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT and failed.detail.argument.index == 1
    assert client.download(good) == bytes(16)
