"""What Program.Compile takes and refuses: versions, bytecode, damage, compression, options, size."""

from __future__ import annotations

import ctypes
import io
import pathlib
import struct

import numpy as np
import pytest

from case_programs import big_constant, case, elementwise, nested_ifs
from daemon import PATIENCE, Daemon
from plugins import STABLEHLO
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNKNOWN, CallFailed, RawClient, deadline

import pjrtd

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

ADD_F32 = elementwise("f32", (4,))


def jax_module() -> object:
    import jax

    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        return jax.jit(lambda a: a + a).lower(np.zeros(4, np.float32)).compiler_ir("stablehlo")


def bytecode() -> bytes:
    out = io.BytesIO()
    jax_module().operation.write_bytecode(out)
    return out.getvalue()


def artifact(version: str = "1.0.0") -> bytes:
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.serialize_portable_artifact(jax_module(), version)


def doubles(client: RawClient, program: int) -> list[float]:
    argument = client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4))
    return list(struct.unpack("<4f", client.download(client.execute(program, [argument])[0])))


@pytest.mark.every_plugin
def test_the_versions_are_published(client: RawClient, daemon: Daemon, plugin: pathlib.Path) -> None:
    info = client.call("Runtime.Info")
    right = {"lammps_jax_pjrt_cpu": 115, "fastatomstruct_xla_cpu": 106, "xla_cpu_pjrt": 81}
    assert (info.pjrt_major, info.pjrt_minor) == (0, right[plugin.parent.name])
    assert (info.stablehlo_current, info.stablehlo_minimum) == (STABLEHLO[info.pjrt_minor], "0.9.0")
    assert (info.protocol_min, info.protocol_max) == (1, 1)
    assert info.pid == daemon.pid and info.platform_name == "cpu"
    assert info.num_devices == info.num_addressable_devices == 4


@pytest.mark.every_plugin
@pytest.mark.parametrize("make", [bytecode, artifact], ids=["bytecode", "portable artifact"])
def test_bytecode_with_nul_bytes(client: RawClient, daemon: Daemon, make) -> None:  # noqa: ANN001
    code = make()
    assert b"\0" in code
    assert doubles(client, client.compile(code)) == [2, 4, 6, 8]
    with pjrtd.Client.create(daemon.target) as python:
        (result,) = python.compile(code)(np.array([1, 2, 3, 4], np.float32))
        assert result.numpy().tolist() == [2, 4, 6, 8]


@pytest.mark.every_plugin
@pytest.mark.parametrize("make", [bytecode, artifact, lambda: ADD_F32.encode()], ids=["bytecode", "artifact", "text"])
def test_truncated_programs(client: RawClient, make) -> None:  # noqa: ANN001
    code = make()
    for size in (1, 4, 20, len(code) // 2, len(code) - 3):
        program, call = client.start_compile(code[:size])
        failed = client.failure_of(call)
        assert failed.code in (INVALID_ARGUMENT, UNKNOWN) and failed.message
        assert client.failure("Program.Describe", program=program).message == failed.message
    assert doubles(client, client.compile(ADD_F32)) == [2, 4, 6, 8]


def test_damaged_bytecode(client: RawClient) -> None:
    """A flipped byte gives an error or a program; either way the daemon goes on."""
    code = artifact()
    for position in range(0, len(code), max(1, len(code) // 40)):
        damaged = bytearray(code)
        damaged[position] ^= 0x55
        _, call = client.start_compile(bytes(damaged))
        try:
            client.reply(call, "Program.Compile")
        except CallFailed as failed:
            assert failed.message
    assert doubles(client, client.compile(code)) == [2, 4, 6, 8]


@pytest.mark.every_plugin
def test_an_op_from_the_future_keeps_the_whole_diagnostic(client: RawClient) -> None:
    _, call = client.start_compile(case("op_from_the_future").text)
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT
    assert "vhlo.constant_v99" in failed.message


@pytest.mark.every_plugin
@pytest.mark.parametrize("code", [
    b"", ADD_F32.encode() + b"\0", ADD_F32.encode() + b"\0junk", b"\0" + ADD_F32.encode(), b"\0" * 100,
    ADD_F32.encode().replace(b"%0", b"%0\0"), b"ML\xefR", b"junk", b"\xff" * 64, b" ", b"\n" * 1000, b"// only a comment\n",
    b"module {}", b"func.func @not_main() { return }", ADD_F32.encode() + b"\xff\xfe",
], ids=lambda code: repr(code[:12]))
def test_what_is_not_a_program(client: RawClient, code: bytes) -> None:
    _, call = client.start_compile(code)
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, NOT_FOUND, UNKNOWN), failed
    assert failed.message
    assert doubles(client, client.compile(ADD_F32)) == [2, 4, 6, 8]


@pytest.mark.every_plugin
@pytest.mark.parametrize("name,code", [("dynamic_shapes_unbounded", INVALID_ARGUMENT), ("dynamic_shapes_bounded", UNIMPLEMENTED)])
def test_dynamic_shapes_pass_the_plugins_words_on(client: RawClient, name: str, code: int) -> None:
    for _ in range(2):  # nothing of a failure is remembered
        _, call = client.start_compile(case(name).text)
        failed = client.failure_of(call)
        assert failed.code == code
        assert ("PadToStatic" if code == UNIMPLEMENTED else "dynamism") in failed.message
    assert doubles(client, client.compile(ADD_F32)) == [2, 4, 6, 8]


@pytest.mark.parametrize("name,target", [
    ("missing_custom_call_typed", "pjrtd_no_such_target"), ("missing_custom_call_untyped", "pjrtd_no_such_untyped_target"),
    ("missing_custom_call_pycallback", "xla_ffi_python_cpu_callback"),
])
def test_a_missing_custom_call_target_is_named(client: RawClient, name: str, target: str) -> None:
    for _ in range(2):
        _, call = client.start_compile(case(name).text)
        failed = client.failure_of(call)
        assert failed.code == NOT_FOUND and target in failed.message


def test_a_real_jax_callback_is_a_missing_target(daemon: Daemon) -> None:
    import jax

    def with_callback(a):  # noqa: ANN001, ANN202
        return jax.pure_callback(lambda value: value, jax.ShapeDtypeStruct((4,), np.float32), a)

    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        text = jax.jit(with_callback).lower(np.zeros(4, np.float32)).as_text()
    with pjrtd.Client.create(daemon.target) as client:
        with pytest.raises(pjrtd.errors.NotFound, match="callback"):
            client.compile(text)


def test_a_program_of_5_6_megabytes(client: RawClient, daemon: Daemon) -> None:
    text = big_constant(700000)
    assert len(text) > 5_600_000
    with deadline(60 * PATIENCE, "compiling 5.6 MB"):
        program = client.compile(text)
    (result,) = client.execute(program, [])
    assert struct.unpack("<i", client.download(result)) == (699999,)
    with pjrtd.Client.create(daemon.target) as python:
        (result,) = python.compile(text)()
        assert result.numpy().tolist() == [699999]


@pytest.mark.parametrize("level", [1, 19])
def test_compressed_programs(client: RawClient, level: int) -> None:
    code = zstd(ADD_F32.encode(), level)
    program = client.compile(code, compression=1, uncompressed_bytes=len(ADD_F32))
    assert doubles(client, program) == [2, 4, 6, 8]
    text = big_constant(200000).encode()
    program = client.compile(zstd(text, level), compression=1, uncompressed_bytes=len(text))
    assert struct.unpack("<i", client.download(client.execute(program, [])[0])) == (199999,)


def zstd(data: bytes, level: int) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    room = library.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    size = library.ZSTD_compress(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), level)
    assert not library.ZSTD_isError(ctypes.c_size_t(size))
    return out.raw[:size]


@pytest.mark.parametrize("change", ["size+1", "size-1", "size 0", "size huge", "size lies", "cut", "flipped", "plain", "twice", "empty"])
def test_damaged_compression(client: RawClient, change: str) -> None:
    text = ADD_F32.encode()
    code, size = zstd(text, 3), len(text)
    if change == "size+1":
        size += 1
    elif change == "size-1":
        size -= 1
    elif change == "size 0":
        size = 0
    elif change == "size huge":
        size = 2**62
    elif change == "size lies":
        size = 10**9
    elif change == "cut":
        code = code[:-5]
    elif change == "flipped":
        code = code[:20] + bytes([code[20] ^ 0xFF]) + code[21:]
    elif change == "plain":
        code = text
    elif change == "twice":
        code += code
    else:
        code = b""
    _, call = client.start_compile(code, compression=1, uncompressed_bytes=size)
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED), failed


def test_a_decompression_bomb(client: RawClient, daemon: Daemon) -> None:
    """Half a gigabyte in a few bytes: refused, and the memory does not stay."""
    bomb = zstd(bytes(500_000_000), 1)
    assert len(bomb) < 1 << 20
    before = daemon.resident_bytes()
    for claimed in (100, 500_000_000):
        _, call = client.start_compile(bomb, compression=1, uncompressed_bytes=claimed)
        assert client.failure_of(call).code in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED)
    assert daemon.resident_bytes() < before + (256 << 20)


@pytest.mark.parametrize("fields", [
    dict(compression=2), dict(compression=-1), dict(compression=2**31 - 1), dict(code_bytes=5), dict(code_bytes=10**6),
    dict(code_bytes=2**63), dict(code_bytes=2**64 - 1), dict(uncompressed_bytes=3),
])
def test_lengths_and_compressions_that_contradict_the_bulk(client: RawClient, fields: dict[str, int]) -> None:
    _, call = client.start_compile(ADD_F32, **fields)
    try:
        client.reply(call, "Program.Compile")
        assert fields == dict(uncompressed_bytes=3), "accepted"  # without compression the field says nothing
    except CallFailed as failed:
        assert failed.code in (INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED)


@pytest.mark.parametrize("options", [
    dict(num_replicas=5), dict(num_replicas=2**31), dict(num_partitions=2**32 - 1), dict(num_replicas=2**16, num_partitions=2**16),
    dict(device_assignment=[7]), dict(device_assignment=[-1]), dict(device_assignment=[0, 1]), dict(device_assignment=[0] * 10000),
    dict(num_replicas=2, device_assignment=[0, 0]), dict(num_replicas=2, device_assignment=[0]),
    dict(use_auto_spmd_partitioning=True, auto_spmd_partitioning_mesh_shape=[-1]),
    dict(use_auto_spmd_partitioning=True, auto_spmd_partitioning_mesh_shape=[2**62, 2**62]),
    dict(auto_spmd_partitioning_mesh_ids=[2**62]),
    dict(exec_time_optimization_effort=float("nan")), dict(exec_time_optimization_effort=7.0),
    dict(memory_fitting_effort=float("inf")), dict(memory_fitting_effort=-2.0),
    dict(overrides=[dict(name="xla_no_such_flag", boolean=True)]), dict(overrides=[dict(name="xla_cpu_enable_fast_math", text="x")]),
    dict(overrides=[dict(name="", text="")]), dict(overrides=[dict(name="xla_cpu_enable_fast_math")]),
    dict(overrides=[dict(name="xla_backend_optimization_level", integer=2**40)]),
    dict(parameter_is_tupled_arguments=True), dict(allow_spmd_sharding_propagation_to_parameters=[True] * 1000),
    dict(allow_spmd_sharding_propagation_to_output=[True, False, True]),
])
def test_compile_options_that_a_plugin_may_abort_on(client: RawClient, options: dict) -> None:
    """An error that says what, or a program; never the end of the daemon."""
    _, call = client.start_compile(ADD_F32, options=options)
    try:
        client.reply(call, "Program.Compile")
    except CallFailed as failed:
        assert failed.code in (INVALID_ARGUMENT, UNIMPLEMENTED, NOT_FOUND, RESOURCE_EXHAUSTED), failed
        assert failed.message
    else:
        assert not any(name.startswith(("num_", "device_", "exec_", "memory_", "auto_", "use_auto")) for name in options), "accepted"


def test_options_that_work(client: RawClient) -> None:
    program = client.compile(ADD_F32, options=dict(overrides=[dict(name="xla_cpu_enable_fast_math", boolean=True)]))
    assert doubles(client, program) == [2, 4, 6, 8]
    program = client.compile(ADD_F32, options=dict(num_replicas=2))
    assert list(client.call("Program.Describe", program=program).devices) == [0, 1]
    a = client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4), device=0)
    b = client.upload("f32", [4], struct.pack("<4f", 5, 6, 7, 8), device=1)
    first, second = client.execute(program, [a, b], 2)
    assert struct.unpack("<4f", client.download(first)) == (2, 4, 6, 8)
    assert struct.unpack("<4f", client.download(second)) == (10, 12, 14, 16)
    assert client.call("Buffer.Stat", buffer=second).device == 1
    _, call = client.start_execute(program, [b, a], 2)
    assert client.failure_of(call).code == INVALID_ARGUMENT


def test_deeply_nested_text_is_an_error_or_a_program(client: RawClient, bystander) -> None:  # noqa: ANN001
    """The parser and the passes recurse: the compile thread's stack has to be large enough for what a client sends."""
    _, call = client.start_compile(nested_ifs(60))
    client.reply(call, "Program.Compile")
    bystander.check()
