"""The surface, against a scripted peer: what is asked for, what is checked before, what comes back."""

from __future__ import annotations

import array
import gc
import pickle
import time
import warnings

import numpy as np
import pytest
from conftest import over_unix
from fake_daemon import REQUEST, FakeDaemon, Frame, Peer

import pjrtd
from pjrtd import DType, errors
from pjrtd._proto import methods
from pjrtd._proto.buffer import UploadRequest
from pjrtd._proto.common import ArgumentDetail, Attribute, Error
from pjrtd._proto.execute import ExecuteRequest
from pjrtd._proto.wire import decode


def requests(fake: FakeDaemon, method: int) -> list[Frame]:
    return [frame for frame in fake.peer.frames if frame.kind == REQUEST and frame.method == method]


# ---- connecting ----


@pytest.mark.parametrize("target", ["/opt/plugin.so", "pjrt_c_api_cpu_plugin.so", "/lib/libtpu.so.1"])
def test_a_plugin_as_target_is_explained(target: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="do not load plugins") as caught:
        pjrtd.Client.create(target)
    assert f"pjrtd --plugin {target}" in caught.value.hint and "unix:PATH" in caught.value.hint


def test_other_words_as_target_are_explained(tmp_path) -> None:
    for target in ("nonsense", "unix:", "http://x", str(tmp_path)):
        with pytest.raises(errors.InvalidArgument, match="not a target") as caught:
            pjrtd.Client.create(target)
        assert "unix:PATH" in caught.value.hint


@over_unix
def test_where_nobody_listens_it_is_unavailable(tmp_path, fake: FakeDaemon) -> None:
    with pytest.raises(errors.Unavailable, match="No such file") as caught:
        pjrtd.Client.create(f"unix:{tmp_path}/none.sock")
    assert "pjrtd --plugin" in caught.value.hint
    fake.stop()
    with pytest.raises(errors.Unavailable, match="refused") as caught:
        pjrtd.Client.create(fake.target)
    assert "left over" in caught.value.hint
    with pytest.raises(errors.InvalidArgument, match="too long"):
        pjrtd.Client.create("unix:/" + "x" * 200)


def test_the_target_comes_from_the_environment(fake: FakeDaemon, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PJRTD_TARGET", fake.target)
    with pjrtd.Client.create() as client:
        assert client.target == fake.target
    monkeypatch.delenv("PJRTD_TARGET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    from pjrtd.target import default_target

    assert default_target() == "unix:/run/pjrtd/pjrtd.sock"
    (tmp_path / "pjrtd.sock").touch()
    assert default_target() == f"unix:{tmp_path}/pjrtd.sock"


def test_a_server_that_says_nothing_is_given_up(fake: FakeDaemon) -> None:
    fake.hooks[methods.HELLO] = lambda peer, frame: True
    with pytest.raises(errors.DeadlineExceeded):
        pjrtd.Client.create(fake.target, timeout=0.1)


def test_a_version_mismatch_is_passed_on(fake: FakeDaemon) -> None:
    def refuse(peer: Peer, frame: Frame) -> bool:
        peer.fail(frame, 12, "the client speaks protocol 1 to 1, this daemon 2 to 3", hint="upgrade the client")
        return True

    fake.hooks[methods.HELLO] = refuse
    with pytest.raises(errors.Unimplemented, match="1 to 1.*2 to 3") as caught:
        pjrtd.Client.create(fake.target)
    assert caught.value.hint == "upgrade the client"


def test_limits_without_sense_are_refused(fake: FakeDaemon) -> None:
    fake.hello.max_item_bytes = 0
    with pytest.raises(errors.Internal, match="make no sense"):
        pjrtd.Client.create(fake.target)
    fake.hello.max_item_bytes = 1
    fake.hello.version = 9
    with pytest.raises(errors.Internal, match="chose protocol 9"):
        pjrtd.Client.create(fake.target)


def test_keyword_arguments_of_a_library_in_process(fake: FakeDaemon) -> None:
    pjrtd.Client.create(fake.target, options={"cpu_device_count": 2}, allow_multiple=True).close()
    pjrtd.Client.create(fake.target, options=pjrtd.Client.GPU_DEFAULTS).close()
    with pytest.raises(errors.FailedPrecondition, match="cpu_device_count=4") as caught:
        pjrtd.Client.create(fake.target, options={"cpu_device_count": 4})
    assert "pjrtd --option cpu_device_count=4" in caught.value.hint
    with pytest.raises(errors.Unimplemented):
        pjrtd.Client.create(fake.target, kv_store=object())  # type: ignore[arg-type]


# ---- devices, memory spaces, plugin ----


def test_devices_and_memories(fake_client: pjrtd.Client) -> None:
    with fake_client.devices() as devices:
        assert [device.id for device in devices] == [0, 1] and len(devices) == fake_client.device_count == 2
        first, second = devices
        assert devices[:1] == (first,)
    assert (first.kind, first.debug_string, first.to_string(), first.addressable) == ("cpu", "d0", "Cpu0", True)
    assert first.attributes == {"speed": 1.5} and first.coords is None
    assert [memory.kind for memory in first.memories()] == ["device", "pinned_host"]
    assert first.default_memory().id == 0 and str(first.default_memory()) == "memory 0"
    assert second.memory_stats() == {"bytes_in_use": 5}
    with pytest.raises(errors.Unimplemented):
        first.memory_stats()
    assert [memory.id for memory in fake_client.memories()] == [0, 1, 2]
    assert fake_client.memories()[2].addressable_by() == [second]
    with fake_client.device(1) as device:
        assert device is second
    assert fake_client.lookup_device(1) is second
    for lookup in (fake_client.lookup_device, fake_client.lookup_memory):
        with pytest.raises(errors.NotFound):
            lookup(9)
    assert fake_client.default_device_assignment(2, 1) == [0, 1]
    with pytest.raises(errors.InvalidArgument):
        fake_client.default_device_assignment(-1)
    assert fake_client.memory_summary() == "device 1: bytes_in_use=5"


def test_the_plugin(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    plugin = fake_client.plugin
    assert plugin.api_version == (0, 115) and plugin.path.name == "fake.so"
    assert plugin.extension("FFI") == pjrtd.Extension("ffi") and plugin.extension("megascale") is None
    assert [extension.known for extension in plugin.extensions] == [True, True, False]
    assert plugin.require_extension("layouts").name == "layouts"
    with pytest.raises(errors.UnsupportedByPlugin, match="layouts, ffi"):
        plugin.require_extension("megascale")
    assert (plugin.stablehlo_target(), plugin.stablehlo_target("max")) == ("0.9.0", "1.20.0")
    assert plugin.stablehlo_version_range == ((0, 9, 0), (1, 20, 0))
    assert (plugin.platform_hint, plugin.is_gpu, plugin.is_accelerator, plugin.xla_version) == ("cpu", False, False, 2)
    assert pjrtd.Plugin(fake.target).api_version == (0, 115)
    with pjrtd.Client.create(pjrtd.Plugin(fake.target)) as client:
        assert client.platform_name == "cpu" and client.server_version == "0.0.1"
    with pytest.raises(errors.InvalidArgument, match="do not load plugins"):
        pjrtd.Plugin("/lib/plugin.so")


def test_a_plugin_that_does_not_say_its_stablehlo_versions(fake: FakeDaemon) -> None:
    fake.info.stablehlo_minimum = fake.info.stablehlo_current = ""
    plugin = pjrtd.Plugin(fake.target)
    assert plugin.stablehlo_version_range is None
    with pytest.raises(errors.UnsupportedByPlugin):
        plugin.stablehlo_target()


# ---- buffers ----


def test_what_a_buffer_is(fake_client: pjrtd.Client) -> None:
    with fake_client.buffer_from_host(np.arange(6, dtype=np.float32).reshape(2, 3)) as buffer:
        assert buffer.dimensions == buffer.shape == (2, 3) and buffer.ndim == 2 and buffer.size == 6 and len(buffer) == 2
        assert buffer.element_type == 11 and buffer.dtype is DType.F32 and buffer.nbytes == 24
        assert buffer.device().id == 0 and buffer.memory().id == 0 and buffer.is_on_cpu()
        assert buffer.tolist() == [[0, 1, 2], [3, 4, 5]] and not buffer.is_deleted
        assert np.asarray(buffer).tolist() == buffer.tolist() and np.asarray(buffer, np.int32).dtype == np.int32
        assert np.from_dlpack(buffer).tolist() == buffer.tolist()
        assert "f32[2,3] on device 0" in repr(buffer)
        assert buffer.block_until_ready() is buffer
        assert buffer.astype(pjrtd.typing.F32) is buffer
        with pytest.raises(errors.InvalidArgument, match="holds f32"):
            buffer.astype(pjrtd.typing.F64)
        with pytest.raises(ValueError, match="6 elements"):
            buffer.item()
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(buffer)
    assert buffer.is_deleted and "closed" in repr(buffer)
    buffer.close()
    for use in (buffer.to_host, buffer.block_until_ready, buffer.numpy, buffer.tolist):
        with pytest.raises(errors.HandleClosed):
            use()


def test_scalars(fake_client: pjrtd.Client) -> None:
    with fake_client.buffer_from_host(2.5) as buffer:
        assert buffer.shape == () and buffer.item() == buffer.tolist() == float(buffer) == 2.5
        assert int(buffer) == 2 and complex(buffer) == 2.5 and bool(buffer)
        with pytest.raises(TypeError):
            len(buffer)
        assert buffer.numpy().shape == ()
    with fake_client.buffer_from_host(0, "s64") as zero:
        assert not zero and zero.item() == 0


def test_empty_arrays(fake_client: pjrtd.Client) -> None:
    for shape in ((0,), (2, 0, 3), (0, 5)):
        with fake_client.buffer_from_host(np.zeros(shape, np.float32)) as buffer:
            assert buffer.tolist() == np.zeros(shape).tolist()
            assert buffer.numpy().shape == shape and buffer.to_host() == b"" and buffer.nbytes == 0
            out = np.empty(shape, np.float32)
            assert buffer.to_host(out) is out


def test_the_place_of_a_buffer(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    devices = fake_client.devices()
    pinned = fake_client.memories()[1]
    buffers = [
        fake_client.buffer_from_host(1.0),
        fake_client.buffer_from_host(1.0, device=devices[1]),
        fake_client.buffer_from_host(1.0, device=1),
        fake_client.buffer_from_host(1.0, memory=pinned),
    ]
    fake_client.sync()
    sent = [decode(UploadRequest, frame.payload) for frame in requests(fake, methods.BUFFER_UPLOAD)]
    assert [(request.device, request.memory) for request in sent] == [(0, None), (1, None), (1, None), (None, 1)]
    assert [buffer.device().id for buffer in buffers] == [0, 1, 1, 0]
    assert buffers[3].memory() is pinned
    for bad in (7, -1):
        with pytest.raises(errors.InvalidArgument, match=f"no device {bad}"):
            fake_client.buffer_from_host(1.0, device=bad)
    with pytest.raises(TypeError):
        fake_client.buffer_from_host(1.0, device="0")  # type: ignore[arg-type]
    for buffer in buffers:
        buffer.close()
    shards = fake_client.buffers_from_host([[1.0], [2.0]], 11, [1], devices)
    assert [shard.device().id for shard in shards] == [0, 1]
    for shard in shards:
        shard.close()
    with pytest.raises(errors.InvalidArgument, match="1 shard"):
        fake_client.buffers_from_host([[1.0]], 11, [1], devices)


def test_reading_into_memory_of_the_caller(fake_client: pjrtd.Client) -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    with fake_client.buffer_from_host(value) as buffer:
        dense = value.tobytes()
        for out in (bytearray(24), array.array("f", bytes(24)), memoryview(bytearray(24)), np.empty(24, np.uint8)):
            assert buffer.to_host(out) is out
            assert bytes(out) == dense
        for shaped in (np.empty((2, 3), np.float32), np.empty((3, 2), np.float32).T, np.empty((4, 6), np.float32)[::2, ::2]):
            assert buffer.to_host(shaped) is shaped and (shaped == value).all()
        big = np.empty((2, 3), ">f4")
        assert (buffer.to_host(big) == value).all()
        big = np.empty((3, 2), ">f4").T
        assert (buffer.to_host(big) == value).all()
        for wrong in (bytearray(23), bytearray(25), np.empty(5, np.float32), bytearray()):
            with pytest.raises(errors.InvalidArgument, match="out has"):
                buffer.to_host(wrong)
        for read_only in (bytes(24), np.broadcast_to(np.float32(0), (2, 3))):
            with pytest.raises(errors.InvalidArgument, match="read-only"):
                buffer.to_host(read_only)
        with pytest.raises(errors.InvalidArgument, match="contiguous"):
            buffer.to_host(memoryview(bytearray(48))[::2])
        with pytest.raises(TypeError):
            buffer.to_host("out")


def test_dropped_buffers_are_deleted_with_a_warning(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    for _ in range(200):
        with pytest.warns(ResourceWarning, match="never closed"):
            fake_client.buffer_from_host(1.0)
    cycle: list[object] = [fake_client.buffer_from_host(1.0)]
    cycle.append(cycle)
    with pytest.warns(ResourceWarning):
        del cycle
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fake_client.buffer_from_host(1.0).close()
        with fake_client.buffer_from_host(1.0):
            pass
    assert fake_client.stats()["buffers"] == 0
    deletes = requests(fake, methods.BUFFER_DELETE)
    assert 1 < len(deletes) < 100  # in batches
    assert all(frame.flags == 1 for frame in deletes)


def test_the_warning_follows_the_filters(fake_client: pjrtd.Client) -> None:
    """Whatever changed them last, and back."""

    def warned() -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fake_client.buffer_from_host(1.0)
        return len(caught)

    def ignored(*entries: tuple[str, type[Warning]]) -> bool:
        shown: list[object] = []
        with warnings.catch_warnings():
            warnings.resetwarnings()
            for action, category in reversed(entries):
                warnings.simplefilter(action, category)  # type: ignore[arg-type]
            warnings.showwarning = lambda *args: shown.append(args)
            fake_client.buffer_from_host(1.0)
        return not shown

    assert warned() == 1
    assert ignored(("ignore", ResourceWarning))
    assert warned() == 1
    assert not ignored(("ignore", DeprecationWarning))
    assert ignored(("ignore", DeprecationWarning), ("ignore", Warning), ("always", ResourceWarning))
    assert not ignored(("always", ResourceWarning), ("ignore", Warning))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="something else")
        assert warned() == 1


def test_memory_of_the_caller_is_let_go(fake_client: pjrtd.Client) -> None:
    """A bytearray that is still exported could not be resized."""
    for size in (4, 300_000):
        source, out = bytearray(size), bytearray(size)
        with fake_client.buffer_from_host(source, "u8") as buffer:
            source.append(1)
            buffer.to_host(out)
            out.append(1)
            buffer.to_host().append(1)


def test_large_buffers_are_deleted_at_once(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    buffer = fake_client.buffer_from_host(bytes(2 << 20), "u8")
    buffer.to_host()
    buffer.close()
    deadline = time.monotonic() + 10
    while fake.peer.buffers:  # the peer gets it without any further call
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_dropped_client_closes_its_connection_with_a_warning(fake: FakeDaemon) -> None:
    client = pjrtd.Client.create(fake.target)
    client.devices()
    buffer = client.buffer_from_host(1.0)
    del client  # the buffer keeps it
    assert buffer.item() == 1.0
    with pytest.warns(ResourceWarning, match="Client was never closed"):
        buffer.close()
        del buffer
    fake.peer.thread.join(5)
    assert not fake.peer.thread.is_alive()


def test_a_closed_client_and_what_it_made(fake: FakeDaemon) -> None:
    client = pjrtd.Client.create(fake.target)
    exe = client.compile("f32[]->f32[]")
    buffer = client.buffer_from_host(1.0)
    client.close()
    client.close()
    assert client.closed and "closed" in repr(client) and buffer.is_deleted and exe.is_deleted
    for use in (lambda: buffer.item(), lambda: exe(1.0), lambda: exe(buffer), client.stats, lambda: client.compile("f32[]->f32[]")):
        with pytest.raises(errors.HandleClosed, match="the client is closed"):
            use()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del buffer, exe, client
        gc.collect()


# ---- programs ----


def test_what_a_program_is(fake_client: pjrtd.Client) -> None:
    with fake_client.compile("f32[2,3],s32[]->bf16[4],pred[] donate0") as exe:
        assert [str(tensor.type) for tensor in exe.arguments] == ["f32[2,3]", "s32[]"]
        assert [tensor.donated for tensor in exe.arguments] == [True, False]
        assert [str(tensor.type) for tensor in exe.outputs] == ["bf16[4]", "pred[]"]
        assert exe.output_types() == [13, 1] and exe.num_outputs == 2 and exe.num_arguments == 2
        assert (exe.name, exe.num_replicas, exe.num_partitions, exe.addressable_device_count) == ("main", 1, 1, 1)
        assert exe.device_assignment() == [(0, 0)] and exe.addressable_devices() == [fake_client.devices()[0]]
        assert exe.fingerprint() == b"\xab\xcd" and exe.compile_ns == 5
        assert "(f32[2,3], s32[]) -> (bf16[4], pred[])" in repr(exe)
    assert exe.is_deleted
    exe.close()
    with pytest.raises(errors.HandleClosed, match="program is closed"):
        exe(1.0, 2)
    fake_client.sync()
    assert fake_client.stats()["programs"] == 0


def test_compile_errors_come_at_once_and_whole(fake_client: pjrtd.Client) -> None:
    with pytest.raises(errors.InvalidArgument, match="does not parse: nonsense") as caught:
        fake_client.compile("nonsense")
    assert caught.value.hint == "write it right" and "hint: write it right" in str(caught.value)
    assert fake_client.stats()["programs"] == 0  # its id was released


def test_compile_options_travel(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    from pjrtd._proto.program import CompileRequest

    options = pjrtd.CompileOptions(2, use_spmd_partitioning=True, device_assignment=[[1], [0]], overrides={"xla_x": True})
    fake_client.compile("f32[]->f32[]", options=options).close()
    fake_client.compile(b"f32[]->f32[] sdy.mesh").close()
    first, second = (decode(CompileRequest, frame.payload).options for frame in requests(fake, methods.PROGRAM_COMPILE))
    assert first is not None and second is not None
    assert (first.num_replicas, first.num_partitions, first.use_spmd_partitioning) == (2, 1, True)
    assert first.device_assignment == [1, 0] and first.overrides == [Attribute("xla_x", boolean=True)]
    assert second.use_shardy_partitioner and not first.use_shardy_partitioner
    for bad in (
        pjrtd.CompileOptions(num_replicas=-1),
        pjrtd.CompileOptions(num_replicas="2"),  # type: ignore[arg-type]
        pjrtd.CompileOptions(overrides={"xla_x": object()}),
        pjrtd.CompileOptions(device_assignment=[1 << 40]),
    ):
        with pytest.raises(errors.InvalidArgument, match="compile options"):
            fake_client.compile("f32[]->f32[]", options=bad)


def test_compile_options_compare_print_and_read_xlas_assignment() -> None:
    options = pjrtd.CompileOptions(num_partitions=2)
    assert options == pjrtd.CompileOptions(1, 2) != pjrtd.CompileOptions()
    assert repr(options) == "CompileOptions(num_partitions=2)"
    # replica_count: 2, computation_count: 2, computation_devices { replica_device_ids: [0, 1] } { ... [2, 3] }
    proto = b"\x08\x02\x10\x02" + b"\x1a\x04\x0a\x02\x00\x01" + b"\x1a\x04\x08\x02\x08\x03"
    assert pjrtd.CompileOptions(device_assignment=proto).to_wire().device_assignment == [0, 2, 1, 3]
    with pytest.raises(errors.InvalidArgument):
        pjrtd.CompileOptions(device_assignment=b"\x1a\xff").to_wire()


def test_arguments_of_every_kind(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[2],s32[],u8[100000],f32[0]->f32[2],s32[]")
    buffer = fake_client.buffer_from_host([3.0, 4.0])
    big = np.arange(100_000, dtype=np.uint8)
    for first in (buffer, [3.0, 4.0], np.array([3, 4], np.float32), array.array("f", [3, 4]), array.array("f", [3, 4]).tobytes()):
        results = exe(first, 7, big, np.zeros(0, np.float32))
        assert isinstance(results, tuple)
        assert results[0].tolist() == [3.0, 4.0]
        for result in results:
            result.close()
    sent = [decode(ExecuteRequest, frame.payload) for frame in requests(fake, methods.EXECUTE)]
    assert [argument.position for argument in sent[0].inline_args] == [1, 3]
    assert sent[0].args[0] and sent[0].args[2] and sent[0].args[1] == sent[0].args[3] == 0
    assert [argument.position for argument in sent[1].inline_args] == [0, 1, 3]
    assert fake_client.stats()["buffers"] == 1  # what was uploaded for the call is gone
    buffer.close()
    exe.close()


WRONG_ARGUMENTS = [
    ([np.zeros(4, np.int32)], 1, "f32[4]", "s32[4]"),
    ([np.zeros(2, np.float64)], 1, "f32[4]", "f64[2]"),
    ([np.zeros((2, 2), np.float32)], 1, "f32[4]", "f32[2,2]"),
    ([np.zeros(2, np.float32)], 1, "f32[4]", "f32[2]"),
    ([np.float32(1)], 1, "f32[4]", "f32[]"),
]


@pytest.mark.parametrize("values,index,expected,actual", WRONG_ARGUMENTS, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("as_buffer", [True, False], ids=["buffer", "array"])
def test_wrong_arguments_are_named_at_once(
    fake: FakeDaemon, fake_client: pjrtd.Client, values: list[np.ndarray], index: int, expected: str, actual: str, as_buffer: bool
) -> None:
    exe = fake_client.compile("f32[4],f32[4]->f32[4]")
    right = fake_client.buffer_from_host(np.zeros(4, np.float32))
    wrong = fake_client.buffer_from_host(values[0]) if as_buffer else values[0]
    with pytest.raises(errors.InvalidArgument, match="argument 1 must be") as caught:
        exe(right, wrong)
    assert caught.value.argument == errors.ArgumentDetail(index, expected, actual)
    assert requests(fake, methods.EXECUTE) == []
    for handle in (exe, right):
        handle.close()
    if isinstance(wrong, pjrtd.Buffer):
        wrong.close()


def test_python_numbers_take_the_wanted_type_where_they_fit(fake_client: pjrtd.Client) -> None:
    for kind, value in (("f32", 2), ("f64", 2.5), ("bf16", 1.0), ("s8", -8), ("pred", True), ("c64", 1j), ("s4", -8)):
        with fake_client.compile(f"{kind}[]->{kind}[]") as exe:
            (out,) = exe(value)
            assert out.item() == value
            out.close()
    with fake_client.compile("s8[]->s8[]") as exe:
        for bad in (128, 1.5, 1j, "1", None):
            with pytest.raises(errors.InvalidArgument, match="argument 0 must be s8"):
                exe(bad)


def test_the_wrong_number_of_arguments(fake_client: pjrtd.Client) -> None:
    with fake_client.compile("f32[],f32[]->f32[]") as exe:
        for arguments in ((), (1.0,), (1.0, 2.0, 3.0)):
            with pytest.raises(errors.InvalidArgument, match=f"supplied {len(arguments)} arguments, expected 2") as caught:
                exe(*arguments)
            assert caught.value.argument is not None and caught.value.argument.expected == "2 arguments"


def test_buffers_of_another_client_or_device_or_closed(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    with fake_client.compile("f32[]->f32[]") as exe, pjrtd.Client.create(fake.target) as other:
        with other.buffer_from_host(1.0) as foreign, pytest.raises(errors.InvalidArgument, match="of the same client"):
            exe(foreign)
        with fake_client.buffer_from_host(1.0, device=1) as elsewhere:
            with pytest.raises(errors.InvalidArgument, match="argument 0 must be on device 0, and is on device 1"):
                exe(elsewhere)
        closed = fake_client.buffer_from_host(1.0)
        closed.close()
        with pytest.raises(errors.HandleClosed, match="argument 0 is a closed buffer"):
            exe(closed)
        with pytest.raises(errors.InvalidArgument, match="belongs to another client"):
            fake_client.buffer_from_host(1.0, device=other.devices()[0])


def test_donated_buffers(fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[],f32[]->f32[] donate0")
    a, b = fake_client.buffer_from_host(1.0), fake_client.buffer_from_host(2.0)
    with pytest.raises(errors.InvalidArgument, match="argument 0 is donated, and the same buffer is argument 1"):
        exe(a, a)
    assert a.item() == 1.0
    (out,) = exe(a, b)
    assert out.item() == 1.0 and a.is_deleted and not b.is_deleted and "donated" in repr(a)
    with pytest.raises(errors.HandleClosed, match="argument 0 was donated"):
        exe(a, b)
    for use in (a.to_host, a.numpy, a.block_until_ready, lambda: a.to_host(bytearray(4))):
        with pytest.raises(errors.HandleClosed, match="was donated"):
            use()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del a  # its id is freed, and there is nothing to warn of
        gc.collect()
    (again,) = exe(3.0, b)
    assert again.item() == 3.0
    for handle in (b, out, again, exe):
        handle.close()
    assert fake_client.stats()["buffers"] == 0


def test_a_donation_that_did_not_happen(fake_client: pjrtd.Client) -> None:
    """The call failed before the plugin saw it, so its argument is still there."""
    exe = fake_client.compile("f32[]->f32[] donate0,fail")
    good = fake_client.compile("f32[]->f32[]")
    a = fake_client.buffer_from_host(1.0)
    (out,) = exe(a)
    with pytest.raises(errors.Internal):
        out.to_host()
    assert not a.is_deleted and a.item() == 1.0
    (again,) = good(a)
    assert again.item() == 1.0
    for handle in (a, out, again, exe, good):
        handle.close()


def test_non_donatable(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    with fake_client.compile("f32[],f32[]->f32[] donate0") as exe:
        exe(1.0, 2.0, non_donatable=[1])[0].close()
        buffer = fake_client.buffer_from_host(1.0)
        exe(buffer, 2.0, non_donatable=[1, 0, 1])[0].close()
        fake_client.sync()
        assert buffer.tolist() == 1.0, "the client does not take it for consumed"
        sent = [decode(ExecuteRequest, each.payload).non_donatable for each in requests(fake, methods.EXECUTE)]
        assert sent == [[1], [0, 1]]
        with pytest.raises(errors.InvalidArgument, match="no argument 2"):
            exe(1.0, 2.0, non_donatable=[2])


def test_many_devices(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[],s32[]->f32[],s32[]", options=pjrtd.CompileOptions(num_replicas=2))
    a, b = (fake_client.buffer_from_host(float(i), device=i) for i in range(2))
    rows = exe.execute_sharded([[a, 1], [b, 2]], launch_id=3)
    assert [len(row) for row in rows] == [2, 2]
    assert rows[1][0].device().id == 1
    fake_client.sync()
    request = decode(ExecuteRequest, requests(fake, methods.EXECUTE)[0].payload)
    assert len(request.args) == len(request.outputs) == 4 and [i.position for i in request.inline_args] == [1, 3]
    with pytest.raises(errors.InvalidArgument, match="expects 2 device"):
        exe.execute_sharded([[a, 1]])
    with pytest.raises(errors.InvalidArgument, match="device 1 gets 1"):
        exe.execute_sharded([[a, 1], [b]])
    with pytest.raises(errors.InvalidArgument, match="argument 0 of device 1 must be on device 1"):
        exe.execute_sharded([[a, 1], [a, 2]])
    with pytest.raises(errors.InvalidArgument, match="execute_sharded"):
        exe(a, 1)
    with pytest.raises(errors.Unimplemented):
        exe.execute_sharded([[a, 1], [b, 2]], context=object())  # type: ignore[arg-type]
    for row in rows:
        for result in row:
            result.close()
    for handle in (a, b, exe):
        handle.close()


def test_no_results_are_waited_for(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    with fake_client.compile("f32[]->") as exe:
        assert exe(1.0) == ()
    assert requests(fake, methods.EXECUTE)[0].flags == 0
    with fake_client.compile("f32[]-> fail") as exe, pytest.raises(errors.Internal, match="it was to fail"):
        exe(1.0)


# ---- failures of quiet calls ----


def test_a_failed_program_shows_where_its_result_is_used(fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[]->f32[] fail")
    good = fake_client.compile("f32[]->f32[]")
    (out,) = exe(1.0)
    (next_,) = good(out)
    for poisoned in (out, next_):
        with pytest.raises(errors.Internal, match="it was to fail") as caught:
            poisoned.to_host()
        assert caught.value.origin_call
        with pytest.raises(errors.Internal):
            poisoned.block_until_ready()
    fake_client.sync()  # it was reported
    for handle in (out, next_, exe, good):
        handle.close()


def test_sync_raises_what_nobody_was_told(fake_client: pjrtd.Client) -> None:
    exe = fake_client.compile("f32[]->f32[] fail")
    exe(1.0)[0].close()
    exe(2.0)[0].close()
    with pytest.raises(errors.Internal, match="it was to fail"):
        fake_client.sync()
    fake_client.sync()
    exe.close()


def test_error_details(fake: FakeDaemon, fake_client: pjrtd.Client) -> None:
    error = Error(
        8,
        "out of memory",
        "free some",
        ArgumentDetail(2, "f32[4]", "f32[5]"),
        17,
        1_500_000_000,
        [Attribute("bytes_in_use", integer=5), Attribute("kind", text="bfc")],
    )

    def fail(peer: Peer, frame: Frame) -> bool:
        peer.fail_with(frame, error)
        return True

    fake.hooks[methods.BUFFER_STAT] = fail
    with fake_client.buffer_from_host(1.0) as buffer, pytest.raises(errors.ResourceExhausted) as caught:
        buffer.block_until_ready()
    raised = caught.value
    assert (raised.code, raised.message, raised.hint) == (8, "out of memory", "free some")
    assert raised.argument == errors.ArgumentDetail(2, "f32[4]", "f32[5]")
    assert (raised.origin_call, raised.retry_after_s) == (17, 1.5)
    assert raised.allocator == {"bytes_in_use": 5, "kind": "bfc"}
    assert "bytes_in_use=5" in str(raised) and "hint: free some" in str(raised)
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is errors.ResourceExhausted and again.__dict__ == raised.__dict__


def test_one_class_for_each_code() -> None:
    assert sorted(errors.BY_CODE) == list(range(1, 17))
    for code, kind in errors.BY_CODE.items():
        assert kind.code == code and type(errors.make(code, "x")) is kind and issubclass(kind, errors.PjrtError)
    assert type(errors.make(99, "x")) is errors.Unknown and errors.make(99, "x").code == 99
    assert issubclass(errors.DeadlineExceeded, TimeoutError) and issubclass(errors.PjrtError, RuntimeError)
    assert errors.HandleClosed("x").code == 3


def test_text_and_attributes_of_the_module() -> None:
    assert set(pjrtd.__all__) <= set(dir(pjrtd))
    for name in pjrtd.__all__:
        assert getattr(pjrtd, name) is not None
    with pytest.raises(AttributeError):
        pjrtd.nonsense  # type: ignore[attr-defined]  # noqa: B018
