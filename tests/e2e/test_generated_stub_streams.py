"""Streams through stubs that grpcio-tools generates from the .proto files: `Channel`, health and server reflection."""

from __future__ import annotations

import os
import pathlib
import queue
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

import wire_messages as wire
from case_programs import case
from daemon import PATIENCE, Daemon
from generated_stubs import StubUser, f32, generate, refused, stubs, u8

Code = grpc.StatusCode
pb = stubs()
BIG = 5 << 20


@pytest.fixture
def user(daemon: Daemon) -> Iterator[StubUser]:
    with StubUser(daemon.grpc_target) as connected:
        yield connected



class FrameMaker:
    """Frames of one `Channel`, by the generated messages."""

    def __init__(self) -> None:
        self.calls = 0

    def frame(self, kind: int, method: str, call: int, message: Any = None, bulk: bytes = b"", **more: int) -> Any:
        payload = message.SerializeToString() if message is not None else b""
        return pb.Frame(call=call, method=wire.methods()[method].number, kind=kind, payload=payload, bulk=bulk, **more)

    def request(self, method: str, message: Any, bulk: bytes = b"", **more: int) -> Any:
        self.calls += 1
        return self.frame(pb.FRAME_KIND_REQUEST, method, self.calls, message, bulk, **more)


def by_call(frames: list[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for frame in frames:
        found.setdefault(frame.call, []).append(frame)
    return found


def test_channel_pipelines(daemon: Daemon, balanced: None, user: StubUser) -> None:
    """Hello, compile, upload, execute, download and a call that fails, all in one message."""
    channel = FrameMaker()
    code = case("add").text.encode()
    four = struct.pack("<4f", 1, 2, 3, 4)
    frames = [
        channel.request("Runtime.Hello", pb.HelloRequest(min_version=1, max_version=1)),
        channel.request("Program.Compile", pb.CompileRequest(program=1, code_bytes=len(code)), code),
        channel.request("Buffer.Upload", pb.UploadRequest(buffer=1, type=f32(4), data_bytes=16), four, flags=1),  # quiet
        channel.request("Execute.Execute", pb.ExecuteRequest(program=1, args=[1, 1], outputs=[2])),
        channel.request("Buffer.Download", pb.DownloadRequest(buffer=2)),
        channel.request("Buffer.Stat", pb.BufferRequest(buffer=99)),
        channel.request("Session.Sync", pb.Empty()),
    ]
    answers = by_call([frame for message in user.Runtime.Channel(iter([pb.Frames(frames=frames)])) for frame in message.frames])
    assert sorted(answers) == [1, 2, 4, 5, 6, 7]  # the quiet one succeeded
    assert all(len(of_call) == 1 for of_call in answers.values())
    downloaded = answers[5][0]
    assert pb.DownloadReply.FromString(downloaded.payload).type == f32(4) and struct.unpack("<4f", downloaded.bulk) == (2, 4, 6, 8)
    assert answers[6][0].kind == pb.FRAME_KIND_ERROR
    error = pb.Error.FromString(answers[6][0].payload)
    assert error.code == Code.NOT_FOUND.value[0] and "buffer 99" in error.message
    assert pb.SyncReply.FromString(answers[7][0].payload).last_call == 6


def test_channel_carries_bulk_under_credit(daemon: Daemon, balanced: None, user: StubUser) -> None:
    """5 MB up in items while the daemon grants, and down in items while we grant."""
    data = os.urandom(BIG)
    channel = FrameMaker()
    out: queue.SimpleQueue[Any] = queue.SimpleQueue()
    window = 1 << 20
    out.put(pb.Frames(frames=[
        channel.request("Runtime.Hello", pb.HelloRequest(min_version=1, max_version=1, download_credit_bytes=window)),
        channel.request("Buffer.Upload", pb.UploadRequest(buffer=1, type=u8(BIG), data_bytes=BIG)),
    ]))
    arriving = (frame for message in user.Runtime.Channel(iter(out.get, None)) for frame in message.frames)
    hello_reply = pb.HelloReply.FromString(next(arriving).payload)
    allowed, sent = hello_reply.upload_credit_bytes, 0
    while sent < BIG:
        while allowed > sent and sent < BIG:
            piece = data[sent : min(sent + hello_reply.max_item_bytes, allowed)]
            out.put(pb.Frames(frames=[channel.frame(pb.FRAME_KIND_ITEM, "Buffer.Upload", 2, bulk=piece)]))
            sent += len(piece)
        if sent < BIG:
            granted = next(arriving)
            assert granted.kind == pb.FRAME_KIND_CREDIT and granted.call == 2
            allowed += pb.Credit.FromString(granted.payload).bytes
    reply = next(frame for frame in arriving if frame.kind != pb.FRAME_KIND_CREDIT)
    assert pb.UploadReply.FromString(reply.payload).device_bytes >= BIG

    out.put(pb.Frames(frames=[channel.request("Buffer.Download", pb.DownloadRequest(buffer=1))]))
    assert pb.DownloadReply.FromString(next(arriving).payload).data_bytes == BIG
    received, granted_bytes = bytearray(), window
    while len(received) < BIG:
        item = next(arriving)
        assert item.kind == pb.FRAME_KIND_ITEM and item.call == 3
        received += item.bulk
        assert len(received) <= granted_bytes
        granted_bytes += len(item.bulk)
        out.put(pb.Frames(frames=[channel.frame(pb.FRAME_KIND_CREDIT, "Buffer.Download", 3, pb.Credit(bytes=len(item.bulk)))]))
    assert received == data
    out.put(None)
    assert list(arriving) == []


def test_channel_that_breaks_the_protocol_is_told(daemon: Daemon, balanced: None, user: StubUser) -> None:
    answers = user.Runtime.Channel(iter([pb.Frames(frames=[pb.Frame(call=1, method=0x0102, kind=pb.FRAME_KIND_REQUEST)])]))
    (frame,) = next(answers).frames
    assert frame.kind == pb.FRAME_KIND_ERROR and "Hello" in pb.Error.FromString(frame.payload).message
    refused(Code.INVALID_ARGUMENT, lambda: answers)


STANDARD = """
import sys
import grpc
sys.path.insert(0, sys.argv[1])
from health.v1 import health_pb2, health_pb2_grpc
from reflection.v1 import reflection_pb2, reflection_pb2_grpc
assert health_pb2.DESCRIPTOR.package == "grpc.health.v1"
with grpc.insecure_channel(sys.argv[2]) as channel:
    health = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    assert health.Check(health_pb2.HealthCheckRequest(service="pjrtd.v1.Runtime")).status == serving
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == serving
    watch.cancel()
    try:
        health.Check(health_pb2.HealthCheckRequest(service="nobody"))
    except grpc.RpcError as refused:
        assert refused.code() == grpc.StatusCode.NOT_FOUND
    else:
        raise AssertionError("nobody is served")
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = [reflection_pb2.ServerReflectionRequest(list_services=""),
             reflection_pb2.ServerReflectionRequest(file_containing_symbol="pjrtd.v1.Buffer.Upload"),
             reflection_pb2.ServerReflectionRequest(file_by_filename="nothing.proto")]
    listed, found, missing = reflection.ServerReflectionInfo(iter(asked))
    print(*sorted(service.name for service in listed.list_services_response.service))
    assert any(b"UploadRequest" in file for file in found.file_descriptor_response.file_descriptor_proto)
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
"""


def test_standard_services(daemon: Daemon, tmp_path: pathlib.Path) -> None:
    """Health and reflection by stubs of the .proto files here, in a process of its own: other tests have their messages
    from packages."""
    for pattern in ("health/v1/*.proto", "reflection/v1/*.proto"):
        generate(str(tmp_path), pattern, wire.PROTO_FOLDER / "grpc")
    done = subprocess.run([sys.executable, "-c", STANDARD, str(tmp_path), daemon.grpc_target.removeprefix("grpc://")],
                          capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    families = {f"pjrtd.v1.{method.family}" for method in wire.methods().values()}
    assert families | {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= set(done.stdout.split())
