"""gRPC: every case and the ugly ends, over `Channel` and over unary RPCs, by grpcio."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import wire_messages as wire
from bystander import Bystander
from case_programs import all_cases, case
from daemon import PATIENCE, Daemon
from grpc_bridges import OPTIONS, with_bulk
from raw_frames import (DEADLINE_EXCEEDED, INVALID_ARGUMENT, ITEM, NOT_FOUND,
                        RawClient)
from test_case_programs import run_case

TRANSPORTS = ["channel", "unary"]
BIG = 10 << 20
DAEMON_SETTINGS = {"session_lease_seconds": 2}  # see conftest.py


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[RawClient]:
    with daemon.connect(over=request.param) as connected:
        yield connected


@pytest.fixture
def channel(daemon: Daemon) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(daemon.grpc_target.removeprefix("grpc://"), options=OPTIONS) as opened:
        yield opened


@pytest.mark.parametrize("name", all_cases())
def test_cases(balanced: None, bystander: Bystander, client: RawClient, name: str) -> None:
    run_case(client, name)


def test_bulk_of_every_size(balanced: None, client: RawClient) -> None:
    for size in (0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, (3 << 20) + 17, BIG):
        data = os.urandom(size)
        buffer = client.upload("u8", [size], data)
        assert client.download(buffer) == data, size
        client.call("Buffer.Delete", buffers=[buffer])


def test_values_inside_execute(client: RawClient) -> None:
    the = case("add")
    program = client.compile(the.text)
    first, second = the.args
    number = wire.dtype_numbers()[first.dtype]
    inline = [dict(position=i, type=dict(dtype=number, dims=arg.dims), data_bytes=len(arg.data)) for i, arg in enumerate((first, second))]
    call = client.start("Execute.Execute", first.data + second.data, program=program, args=[0, 0], fetch=[0], inline_args=inline)
    assert client.answer(call).bulk == the.outputs[0].data


def test_errors_keep_their_details(client: RawClient) -> None:
    the = case("add")
    program = client.compile(the.text)
    wrong = client.upload("s8", [3], b"abc")
    failed = client.failure("Execute.Execute", program=program, args=[wrong, wrong], outputs=[client.new_buffer()])
    assert failed.code == INVALID_ARGUMENT and failed.detail.argument.expected and "s8" in failed.detail.argument.actual
    assert client.failure("Buffer.Stat", buffer=12345).code == NOT_FOUND


def test_deadlines(client: RawClient) -> None:
    program = client.compile(case("stepped_loop").text)
    count, start = client.upload("s32", [], struct.pack("<i", 300_000_000)), client.upload("u32", [], bytes(4))
    failed = client.failure("Execute.Execute", program=program, args=[count, start], outputs=[client.new_buffer()], deadline_ns=300_000_000)
    assert failed.code == DEADLINE_EXCEEDED


def test_many_calls_pipelined_on_one_channel(daemon: Daemon, balanced: None) -> None:
    with daemon.connect(over="channel") as client:
        the = case("add")
        program = client.compile(the.text)
        arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in the.args]
        calls = [client.start_execute(program, arguments, 0, outputs=[], fetch=[0])[1] for _ in range(2000)]
        for call in calls:
            assert client.answer(call).bulk == the.outputs[0].data
        quiet = [client.start_execute(program, arguments, 1, quiet=True)[0][0] for _ in range(500)]
        assert client.call("Session.Sync").failed_call == 0
        assert client.download(quiet[-1]) == the.outputs[0].data


def test_many_large_answers_come_in_messages_of_a_size_that_clients_take(balanced: None, channel: grpc.Channel) -> None:
    data = os.urandom(60 << 10)
    requests = [dict(kind=1, method=wire.methods()["Runtime.Hello"].number, call=1,
                     payload=wire.make("HelloRequest", min_version=1, max_version=1, download_credit_bytes=1 << 20).SerializeToString()),
                dict(kind=1, method=wire.methods()["Buffer.Upload"].number, call=2, bulk=data,
                     payload=wire.make("UploadRequest", buffer=1, type={"dtype": wire.dtype_numbers()["u8"], "dims": [len(data)]}, data_bytes=len(data)).SerializeToString())]
    requests += [dict(kind=1, method=wire.methods()["Buffer.Download"].number, call=call,
                      payload=wire.make("DownloadRequest", buffer=1).SerializeToString()) for call in range(3, 203)]
    stream = channel.stream_stream("/pjrtd.v1.Runtime/Channel")(iter([wire.make("Frames", frames=requests).SerializeToString()]))
    sizes, answered = [], 0
    for message in stream:
        sizes.append(len(message))
        for frame in wire.message_class("Frames").FromString(message).frames:
            assert frame.kind == 2
            if frame.call > 2:
                assert frame.bulk == data
                answered += 1
    assert answered == 200
    assert max(sizes) <= 1 << 20, "one frame, or frames that are no more than a MiB together"


def test_a_channel_that_ends_leaves_nothing(daemon: Daemon, balanced: None) -> None:
    """Half closed, cancelled in the middle of an upload, killed with its process's connection."""
    with daemon.connect(over="channel") as client:
        client.upload("u8", [BIG], bytes(BIG))
        _, call = client.start_upload("u8", [100], bytes(100))
        client.reply(call, "Buffer.Upload")
        client.start("Buffer.Upload", buffer=client.new_buffer(), type=dict(dtype=wire.dtype_numbers()["u8"], dims=[BIG]), data_bytes=BIG)


def test_a_broken_frame_ends_its_channel_and_says_why(daemon: Daemon, bystander: Bystander) -> None:
    with daemon.connect(over="channel") as client:
        client.send_control(ITEM, 77, bulk=b"x", method="Buffer.Upload")
        frames = client.receive_until_closed()
        assert wire.message_class("Error").FromString(frames[-1].payload).code == INVALID_ARGUMENT


@pytest.mark.parametrize("garbage", [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x08\x80", b"\x0d\x00\x00"],
                         ids=["tags", "a length beyond the end", "half a varint", "half a number"])
def test_garbage_in_a_channels_message(daemon: Daemon, bystander: Bystander, channel: grpc.Channel, garbage: bytes) -> None:
    answers = channel.stream_stream("/pjrtd.v1.Runtime/Channel", None, wire.message_class("Frames").FromString)(iter([garbage]))
    with pytest.raises(grpc.RpcError) as caught:
        frames = [frame for message in answers for frame in message.frames]
        assert frames and wire.message_class("Error").FromString(frames[0].payload).code == INVALID_ARGUMENT
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def failure(call: object) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call()  # type: ignore[operator]
    return caught.value


def test_unary_calls_without_a_session(channel: grpc.Channel) -> None:
    info = wire.message_class("InfoReply").FromString(channel.unary_unary("/pjrtd.v1.Runtime/Info")(b""))
    assert info.platform_name == "cpu"
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Buffer/Stat")(b"\x08\x01"))
    assert refused.code() == grpc.StatusCode.FAILED_PRECONDITION and "Session.Open" in refused.details()
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Buffer/Stat")(b"\x08\x01", metadata=(("pjrtd-session", "A" * 43),)))
    assert refused.code() == grpc.StatusCode.NOT_FOUND
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Runtime/Nothing")(b""))
    assert refused.code() == grpc.StatusCode.UNIMPLEMENTED
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Buffer/Download/x")(b""))
    assert refused.code() == grpc.StatusCode.UNIMPLEMENTED


def open_session(channel: grpc.Channel) -> tuple[tuple[str, str], ...]:
    opened = wire.message_class("SessionOpenReply").FromString(channel.unary_unary("/pjrtd.v1.Session/Open")(b""))
    return (("pjrtd-session", opened.token),)


def test_uploads_that_do_not_keep_their_word(daemon: Daemon, balanced: None, channel: grpc.Channel) -> None:
    session = open_session(channel)
    upload = channel.stream_unary("/pjrtd.v1.Buffer/Upload")

    def request(buffer: int, size: int) -> bytes:
        return wire.make("UploadRequest", buffer=buffer, type=dict(dtype=wire.dtype_numbers()["u8"], dims=[size]), data_bytes=size).SerializeToString()

    for messages, text in (
        ([], "no message"),
        ([with_bulk(request(1, 100), bytes(101))], "more bulk"),
        ([with_bulk(request(2, BIG), bytes(1000))], "too early"),
        ([with_bulk(request(3, BIG), bytes(1000)), with_bulk(request(4, 5), b"x")], "nothing else"),
        ([with_bulk(request(5, 5), b"x") + b"\x08\x09"], "last"),
    ):
        refused = failure(lambda messages=messages: upload(iter(messages), metadata=session))
        assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT and text in refused.details(), refused
    assert upload(iter([with_bulk(request(9, 3), b"abc")]), metadata=session)
    channel.unary_unary("/pjrtd.v1.Session/Close")(b"", metadata=session)
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Session/Close")(b"", metadata=session))
    assert refused.code() == grpc.StatusCode.NOT_FOUND


def test_a_session_that_nobody_uses_ends(daemon: Daemon, balanced: None, channel: grpc.Channel) -> None:
    session = open_session(channel)
    upload = channel.stream_unary("/pjrtd.v1.Buffer/Upload")
    request = wire.make("UploadRequest", buffer=1, type=dict(dtype=wire.dtype_numbers()["u8"], dims=[3]), data_bytes=3).SerializeToString()
    upload(iter([with_bulk(request, b"abc")]), metadata=session)
    stat = channel.unary_unary("/pjrtd.v1.Buffer/Stat")
    for _ in range(4):  # in use it stays
        time.sleep(1)
        stat(b"\x08\x01", metadata=session)
    give_up = time.monotonic() + 20 * PATIENCE
    while daemon.stats().buffers:
        assert time.monotonic() < give_up
        time.sleep(0.2)
    assert failure(lambda: stat(b"\x08\x01", metadata=session)).code() == grpc.StatusCode.NOT_FOUND


def test_cancelled_calls(daemon: Daemon, balanced: None, channel: grpc.Channel) -> None:
    session = open_session(channel)
    text = case("stepped_loop").text.encode()
    compile_request = wire.make("CompileRequest", program=1, code_bytes=len(text)).SerializeToString()
    channel.stream_unary("/pjrtd.v1.Program/Compile")(iter([with_bulk(compile_request, text)]), metadata=session)
    for buffer, dtype, data in ((1, "s32", struct.pack("<i", 300_000_000)), (2, "u32", bytes(4))):
        request = wire.make("UploadRequest", buffer=buffer, type=dict(dtype=wire.dtype_numbers()[dtype]), data_bytes=4).SerializeToString()
        channel.stream_unary("/pjrtd.v1.Buffer/Upload")(iter([with_bulk(request, data)]), metadata=session)
    execute = wire.make("ExecuteRequest", program=1, args=[1, 2], outputs=[3]).SerializeToString()
    running = channel.unary_unary("/pjrtd.v1.Execute/Execute").future(execute, metadata=session)
    time.sleep(0.2)
    running.cancel()
    refused = failure(lambda: channel.unary_unary("/pjrtd.v1.Buffer/Stat")(b"\x08\x03", metadata=session))
    assert refused.code() == grpc.StatusCode.CANCELLED, "the output of a cancelled call is poisoned"
    channel.unary_unary("/pjrtd.v1.Session/Close")(b"", metadata=session)


def test_a_hundred_clients_at_once(daemon: Daemon, balanced: None) -> None:
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            with daemon.connect(over=TRANSPORTS[number % 2]) as client:
                run_case(client, "add")
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(f"{number}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * PATIENCE)
    assert not failures, failures[:3]


def test_ends_in_time_with_open_channels() -> None:
    with Daemon(listen=["grpc://127.0.0.1:0"]) as own:
        with own.connect(over="channel") as client:
            client.upload("u8", [BIG], bytes(BIG))
            own.signal(signal.SIGTERM)
            assert own.wait(20) == 0
            client.receive_until_closed()


def test_health(daemon: Daemon, channel: grpc.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ("", "pjrtd.v1.Runtime"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == serving
    refused = failure(lambda: stub.Check(health_pb2.HealthCheckRequest(service="nobody")))
    assert refused.code() == grpc.StatusCode.NOT_FOUND
    watch = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"))
    assert next(iter(watch)).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_health_while_the_daemon_drains() -> None:
    with Daemon(listen=["grpc://127.0.0.1:0"], settings={"drain_seconds": 3}) as own:
        with grpc.insecure_channel(own.grpc_target.removeprefix("grpc://")) as channel, own.connect(over="channel") as client:
            program = client.compile(case("endless_loop").text)
            argument = client.upload("s32", [], struct.pack("<i", 3))
            stub = health_pb2_grpc.HealthStub(channel)
            watch = iter(stub.Watch(health_pb2.HealthCheckRequest(service="pjrtd.v1.Runtime"), timeout=20 * PATIENCE))
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            client.start_execute(program, [argument])
            time.sleep(0.3)
            own.signal(signal.SIGTERM)
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert stub.Check(health_pb2.HealthCheckRequest(service="")).status == health_pb2.HealthCheckResponse.SERVING
            assert own.wait(20) == 0


def test_reflection_describes_every_method(channel: grpc.Channel) -> None:
    """A client without .proto files finds all services and calls a method by what it was told."""
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    assert {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection"} <= services
    pool = descriptor_pool.DescriptorPool(database)
    for method in wire.methods().values():
        assert f"pjrtd.v1.{method.family}" in services
        found = pool.FindServiceByName(f"pjrtd.v1.{method.family}").methods_by_name[method.name]
        assert (found.input_type.name, found.output_type.name) == (method.request, method.reply)
    reply = message_factory.GetMessageClass(pool.FindMessageTypeByName("pjrtd.v1.InfoReply"))
    assert reply.FromString(channel.unary_unary("/pjrtd.v1.Runtime/Info")(b"")).platform_name == "cpu"
    for absent in ("pjrtd.v1.Nothing", "pjrtd.v1", "", "pjrtd.v1.Runtime.Nothing"):
        with pytest.raises(KeyError):  # a fresh one: it takes a method of a service that it knows for found
            ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol(absent)
    assert database.FindFileContainingSymbol("pjrtd.v1.Runtime.Info").name == "pjrtd/v1/runtime.proto"
    assert database.FindFileByName("pjrtd/v1/frame.proto").package == "pjrtd.v1"


@pytest.mark.parametrize("read", [0, 1, 5])
def test_clients_that_vanish_in_the_middle_of_bulk(daemon: Daemon, balanced: None, bystander: Bystander, read: int) -> None:
    """Connections that end while an upload comes in and while a download goes out, as RPCs and on a channel."""
    request = wire.make("UploadRequest", buffer=2, type=dict(dtype=wire.dtype_numbers()["u8"], dims=[BIG]), data_bytes=BIG).SerializeToString()
    for _ in range(5):
        with grpc.insecure_channel(daemon.grpc_target.removeprefix("grpc://"), options=OPTIONS) as own:
            session = open_session(own)
            first = wire.make("UploadRequest", buffer=1, type=dict(dtype=wire.dtype_numbers()["u8"], dims=[BIG]), data_bytes=BIG).SerializeToString()
            own.stream_unary("/pjrtd.v1.Buffer/Upload")(
                iter([with_bulk(first, bytes(3 << 20)), *[with_bulk(b"", bytes(1 << 20))] * 7]), metadata=session)
            download = own.unary_stream("/pjrtd.v1.Buffer/Download")(b"\x08\x01", metadata=session)
            stalled = threading.Event()

            def pieces(stalled: threading.Event = stalled) -> Iterator[bytes]:
                yield with_bulk(request, bytes(1 << 20))
                stalled.wait(10)

            upload = own.stream_unary("/pjrtd.v1.Buffer/Upload").future(pieces(), metadata=session)
            for _ in range(read):
                next(download)
            upload.cancel()
            download.cancel()
            stalled.set()
        with daemon.connect(over="channel") as client:
            buffer = client.upload("u8", [BIG], bytes(BIG))
            call = client.start("Buffer.Download", buffer=buffer)
            client.answer(call)
            for _ in range(read):
                client.receive_of(call)
            client.start("Buffer.Upload", buffer=client.new_buffer(), type=dict(dtype=wire.dtype_numbers()["u8"], dims=[BIG]), data_bytes=BIG)
    # Sessions of RPCs end when nobody uses them: `balanced` waits for that.
