"""Out of device memory: the plugin's error comes with who holds what, the allocator's state, and what to do. The real
plugin cannot be made to run out, so the fake one says that it did; the daemon's own limit is real."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import grpc
import pytest

import pjrtd
import wire_messages as wire
from daemon import Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import RESOURCE_EXHAUSTED, CallFailed, RawClient
from test_pjrtctl import ctl

OUT = "Out of memory while trying to allocate 64.00MiB."
STATS = "Device_MemoryStats=lie:2576980378"
KIB = 1 << 10
BIG = bytes(256 * KIB)

pytestmark = pytest.mark.usefixtures("balanced")


@pytest.fixture(scope="module", params=["cpu", "elsewhere"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """One whose memory the host reads in place, and one whose memory it does not."""
    with FakeDaemon(platform=request.param, args=["--option", "memory_fraction=0.02"], grpc=True) as started:
        yield started


@pytest.fixture(autouse=True)
def no_script(daemon: FakeDaemon) -> Iterator[None]:
    yield
    daemon.script()


def arguments(client: RawClient) -> list[int]:
    return [client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4)) for _ in range(2)]


def is_report(failed: CallFailed, *words: str) -> None:
    """The plugin's words, the account, and the client's options, once each."""
    assert failed.code == RESOURCE_EXHAUSTED
    assert failed.message.startswith(OUT + "\n"), failed.message
    for word in ("buffers: ", "client create options: ", "memory_fraction=0.02", *words):
        assert failed.message.count(word) == 1, (word, failed.message)
    assert "memory_fraction" in failed.hint, failed.hint


def test_an_upload_that_the_device_has_no_room_for(daemon: FakeDaemon, client: RawClient) -> None:
    client.call("Session.Open", name="train")
    held = client.upload("f32", [64 * KIB], BIG)
    daemon.script(f"Client_BufferFromHostBuffer=error:8:{OUT}; {STATS}")
    for data in (BIG, bytes(16)):  # over a lane, and at once
        buffer, call = client.start_upload("f32", [len(data) // 4], data)
        failed = client.failure_of(call)
        is_report(failed, "this session ", "'train' 256.00 KiB", "the biggest: session",
                  f"buffer {held} f32[65536] of 256.00 KiB on device 0")
        later = client.failure("Buffer.Stat", buffer=buffer)
        assert later.message == failed.message and later.detail.origin_call == call, "told once, and the same to all"
        assert [(of.buffer, of.bytes, of.type) for of in failed.detail.biggest] == [(held, 256 * KIB, "f32[65536]")]
        stats = {of.name: of.integer for of in failed.detail.allocator}
        assert stats == {"bytes_in_use": 2576980378, "bytes_limit": 5153960756, "num_allocs": 204,
                         "largest_free_block_bytes": 322122547}
        assert failed.hint.startswith("delete buffers that are not needed any more; "), failed.hint
        assert "free memory is in pieces: 2.40 GiB, of which the largest has 307.20 MiB" in failed.hint
        assert not failed.detail.HasField("quota")
    daemon.script()
    assert client.download(held) == BIG
    client.call("Session.Close")


@pytest.mark.parametrize("run", [1, 2])
@pytest.mark.parametrize("how", ["error:8:", "event_error:8:"])
def test_an_execution_that_the_device_has_no_room_for(daemon: FakeDaemon, client: RawClient, run: int, how: str) -> None:
    """The first run is on a lane, the second on the loop where that may be."""
    add = client.compile(program(script=f"LoadedExecutable_Execute@{run}={how}{OUT}"))
    given = arguments(client)
    for _ in range(run - 1):
        client.execute(add, given)
    (output,), call = client.start_execute(add, given)
    failed = client.failure_of(call)
    is_report(failed)
    (_,), second = client.start_execute(add, [output, given[0]])
    assert client.failure_of(second).message == failed.message
    assert not failed.detail.allocator, "this plugin has no statistics now"
    (good,) = client.execute(add, given)
    assert client.download(good) == struct.pack("<4f", 2, 4, 6, 8)


def test_what_the_run_consumed_is_said_beside_it(daemon: FakeDaemon, client: RawClient) -> None:
    fails = client.compile(program(script=f"LoadedExecutable_Execute=error:8:{OUT}; LoadedExecutable_Execute=consume",
                                   donated={0: 0}))
    failed = client.failure_of(client.start_execute(fails, arguments(client))[1])
    is_report(failed)
    assert failed.hint.endswith("; it had consumed 1 of its donated arguments: upload or compute them again"), failed.hint


def test_a_run_that_the_device_has_no_room_for(daemon: FakeDaemon, client: RawClient) -> None:
    add = client.compile(program(script=f"LoadedExecutable_Execute@3=error:8:{OUT}"))
    given = arguments(client)
    failed = client.failure("Execute.Run", step=dict(program=add, args=given, feed_back=[dict(output=0, slot="sum")]), steps=5)
    is_report(failed)
    assert failed.hint.endswith("; 2 whole steps were made before it; the slots hold what they gave"), failed.hint
    client.call("Session.Unbind", slots=["sum"])


def test_a_compile_that_the_device_has_no_room_for(daemon: FakeDaemon, client: RawClient) -> None:
    made, call = client.start_compile(program(script=f"Client_Compile=error:8:{OUT}"))
    failed = client.failure_of(call)
    is_report(failed)
    assert failed.hint.startswith("the daemon's client is capped at 0.02 of the device"), failed.hint
    assert client.failure("Program.Describe", program=made).message == failed.message


def test_a_download_that_there_is_no_room_for(daemon: FakeDaemon, client: RawClient) -> None:
    held = client.upload("f32", [64 * KIB], BIG)
    daemon.script(f"Buffer_UnsafePointer=error:12:no; Buffer_ToHostBuffer=error:8:{OUT}")
    is_report(client.failure("Buffer.Download", buffer=held), f"buffer {held} ")


def test_other_errors_and_other_bounds_are_told_as_they_are(daemon: FakeDaemon, client: RawClient) -> None:
    failed = client.failure_of(client.start_compile(program(script="Client_Compile=error:13:no"))[1])
    assert failed.message == "no" and not failed.hint
    failed = client.failure("Program.Compile", program=client.new_program(), code_bytes=1 << 40)
    assert failed.code == RESOURCE_EXHAUSTED and "buffers:" not in failed.message


def test_who_holds_it_is_told_to_those_who_may_know(daemon: FakeDaemon) -> None:
    """The tests' user runs the daemon, so it may know of all; who comes over gRPC hears a sum."""
    with daemon.connect("unix") as local, daemon.connect("channel") as remote, daemon.connect("channel") as third:
        local.call("Session.Open", name="local")
        third.call("Session.Open", name="third")
        local.upload("f32", [64 * KIB], BIG)
        local.upload("f32", [64 * KIB], BIG)
        third.upload("f32", [64 * KIB], BIG)
        mine = remote.upload("f32", [4], bytes(16))
        daemon.script(f"Client_BufferFromHostBuffer=error:8:{OUT}")
        heard = remote.failure_of(remote.start_upload("f32", [1], bytes(4))[1])
        is_report(heard, "buffers: 768.02 KiB in 4, of ", "(this session ", "16 B); other users have 512.00 KiB")
        assert "third" not in heard.message and "local" not in heard.message
        assert [of.buffer for of in heard.detail.biggest] == [mine]
        told = local.failure_of(local.start_upload("f32", [1], bytes(4))[1])
        is_report(told, "'local' 512.00 KiB", "'third' 256.00 KiB", "; other users have 256.02 KiB")
        assert len(told.detail.biggest) == 2, "their buffers are theirs"
        assert re.search(r"\(this session \d+ 'local' 512.00 KiB, session \d+ 'third' 256.00 KiB, session \d+ 16 B\)", told.message)
        daemon.script()
        for client in (local, third):
            client.call("Session.Close")


def test_unary_calls_get_it_whole(daemon: FakeDaemon) -> None:
    with grpc.insecure_channel(daemon.grpc_target.removeprefix("grpc://")) as channel:
        def call(method: str, **fields: object) -> object:
            of = wire.methods()[method]
            path = f"/pjrtd.v1.{method.replace('.', '/')}"
            stub = channel.stream_unary if method == "Buffer.Upload" else channel.unary_unary
            made = stub(path, request_serializer=lambda message: message.SerializeToString(),
                        response_deserializer=wire.message_class(of.reply).FromString)
            message = wire.make(of.request, **fields)
            return made(iter([message]) if method == "Buffer.Upload" else message, metadata=metadata)

        metadata: list[tuple[str, str]] = []
        metadata = [("pjrtd-session", call("Session.Open").token)]
        for buffer in range(1, 7):
            call("Buffer.Upload", buffer=buffer, type=dict(dtype=11, dims=[4]), data_bytes=16, bulk=bytes(16))
        daemon.script(f"Client_BufferFromHostBuffer=error:8:{OUT}; {STATS}")
        with pytest.raises(grpc.RpcError) as caught:
            call("Buffer.Upload", buffer=7, type=dict(dtype=11, dims=[4]), data_bytes=16, bulk=bytes(16))
        error = wire.message_class("Error").FromString(dict(caught.value.trailing_metadata())["pjrtd-error-bin"])
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and caught.value.details().startswith(OUT)
        assert error.message == caught.value.details().partition("\nhint: ")[0]
        assert len(error.biggest) == 5 and len(error.allocator) == 4
        # A text that leaves no room for the details is told once.
        daemon.script(f"Client_BufferFromHostBuffer=error_big:8:{3 * KIB}; {STATS}")
        with pytest.raises(grpc.RpcError) as caught:
            call("Buffer.Upload", buffer=8, type=dict(dtype=11, dims=[4]), data_bytes=16, bulk=bytes(16))
        error = wire.message_class("Error").FromString(dict(caught.value.trailing_metadata())["pjrtd-error-bin"])
        assert caught.value.details() == "x" * 2047 and (error.message, error.hint) == ("", "")
        assert error.code == RESOURCE_EXHAUSTED and len(error.biggest) == 5 and len(error.allocator) == 4
        daemon.script()
        call("Session.Close")


def test_clients_show_it(daemon: FakeDaemon) -> None:
    with pjrtd.Client.create(daemon.target) as client:
        held = client.buffer_from_host([0.0] * 65536, "f32")
        assert held.shape == (65536,)
        client.sync()
        daemon.script(f"Client_BufferFromHostBuffer=error:8:{OUT}; {STATS}")
        with pytest.raises(pjrtd.errors.ResourceExhausted) as caught:
            client.buffer_from_host([0.0] * 4, "f32").to_host()
        text = str(caught.value)
        assert text.startswith(OUT) and "device memory: bytes_in_use=2576980378" in text and "\n  hint: " in text
        assert [of.bytes for of in caught.value.biggest] == [256 * KIB] and caught.value.quota is None
        assert caught.value.allocator["num_allocs"] == 204


def test_pjrtctl_shows_it(daemon: FakeDaemon) -> None:
    daemon.script(f"Client_Compile=error:8:{OUT}; {STATS}")
    path = daemon.folder / "program.mlir"
    path.write_text(program())
    done = ctl(daemon, "compile", path)
    assert done.returncode != 0
    assert done.stderr.startswith(f"pjrtctl: RESOURCE_EXHAUSTED: {OUT}\nbuffers: "), done.stderr
    assert "\nallocator: bytes_in_use=2576980378 " in done.stderr and "\nhint: " in done.stderr


def test_the_daemons_own_limit() -> None:
    with Daemon(settings=dict(max_buffer_bytes="4 MiB")) as limited, limited.connect() as client:
        client.call("Session.Open", name="own")
        held = client.upload("f32", [3 << 18], bytes(3 << 20))
        failed = client.failure_of(client.start_upload("f32", [1 << 19], bytes(2 << 20))[1])
        assert failed.code == RESOURCE_EXHAUSTED
        assert "needs 2097152 bytes; buffers and transfers hold 3145728 of 4194304" in failed.message
        assert "'own' 3.00 MiB)" in failed.message and f"buffer {held} f32[786432] of 3.00 MiB" in failed.message
        assert failed.hint == "delete buffers, or raise max_buffer_bytes"
        client.call("Buffer.Delete", buffers=[held])
        limited.settled(lambda now: not now["buffer_bytes"])  # another thread frees it
        client.upload("f32", [1 << 19], bytes(2 << 20))
        client.call("Session.Close")
