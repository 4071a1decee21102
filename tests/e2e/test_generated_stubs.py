"""Every method of the method table through stubs that grpcio-tools generates from the .proto files: right values, and
errors with their code, their text and their typed details."""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

import wire_messages as wire
from case_programs import big_constant, case
from daemon import PATIENCE, Daemon
from generated_stubs import SESSION_KEY, StubUser, f32, refused, stubs, u8

Code = grpc.StatusCode
pb = stubs()
BIG = 5 << 20
PIECE = 1 << 20
FOUR = [1.0, 2.0, 3.0, 4.0]
DAEMON_SETTINGS = {"session_lease_seconds": 2}  # see conftest.py

Driver = Callable[[StubUser, Daemon], None]
DRIVERS: dict[str, Driver] = {}
# A call of its own is of no connection: over Channel it is tested in test_named_sessions.py.
OF_CONNECTIONS = ("Session.Attach",)


def drives(method: str) -> Callable[[Driver], Driver]:
    def register(driver: Driver) -> Driver:
        DRIVERS[method] = driver
        return driver

    return register


@pytest.fixture
def user(daemon: Daemon) -> Iterator[StubUser]:
    with StubUser(daemon.grpc_target) as connected:
        yield connected


def test_stubs_and_method_table_have_the_same_methods() -> None:
    generated = {f"{family}.{method.name}" for family, service in pb.services.items() for method in service.methods}
    assert generated == set(wire.methods()) | {"Runtime.Channel"}
    assert set(DRIVERS) == set(wire.methods()), "each method needs a driver here"


@pytest.mark.parametrize("method", wire.methods())
def test_method(daemon: Daemon, balanced: None, user: StubUser, method: str) -> None:
    """A call that succeeds with right values and one that is refused; what is wrong with the session is refused too."""
    assert method in DRIVERS, f"no driver for {method}: write one"
    user.open_session()
    session = user.recorder.metadata
    DRIVERS[method](user, daemon)
    give_up = time.monotonic() + 5 * PATIENCE  # gRPC tells from a thread of its own
    ends_well = method not in OF_CONNECTIONS
    while not ((Code.OK in user.recorder.codes[method]) == ends_well and len(user.recorder.codes[method]) > ends_well):
        assert time.monotonic() < give_up, user.recorder.codes
        time.sleep(0.01)
    family, _, name = method.partition(".")
    call, request = getattr(getattr(user, family), name), getattr(pb, wire.methods()[method].request)()
    streams = method in ("Buffer.Upload", "Program.Compile")
    user.recorder.metadata = ((SESSION_KEY, "x" * 43),)
    if ends_well:
        assert "names no session" in refused(Code.NOT_FOUND, call, iter([request]) if streams else request).message
    user.recorder.metadata = session
    if method != "Session.Close":
        user.Session.Close(pb.SessionCloseRequest())


# ---- helpers ----


def pieces(first: Any, data: bytes, later: type, piece: int = PIECE) -> Iterator[Any]:
    """The first message with the beginning of the bulk, later ones with bulk alone."""
    first.bulk = data[:piece]
    yield first
    for at in range(piece, len(data), piece):
        yield later(bulk=data[at : at + piece])


def upload(user: StubUser, buffer: int, tensor: Any, data: bytes) -> Any:
    first = pb.UploadRequest(buffer=buffer, type=tensor, data_bytes=len(data))
    return user.Buffer.Upload(pieces(first, data, pb.UploadRequest))


def upload_f32(user: StubUser, buffer: int, values: list[float]) -> None:
    upload(user, buffer, f32(len(values)), struct.pack(f"<{len(values)}f", *values))


def compile_text(user: StubUser, program: int, text: str) -> Any:
    code = text.encode()
    return user.Program.Compile(pieces(pb.CompileRequest(program=program, code_bytes=len(code)), code, pb.CompileRequest))


def download(user: StubUser, buffer: int) -> tuple[Any, bytes]:
    answers = list(user.Buffer.Download(pb.DownloadRequest(buffer=buffer)))
    data = b"".join(answer.bulk for answer in answers)
    assert answers[0].data_bytes == len(data)
    for answer in answers[1:]:
        assert not answer.HasField("type") and not answer.data_bytes and answer.bulk
    return answers[0].type, data


def values(user: StubUser, buffer: int) -> list[float]:
    tensor, data = download(user, buffer)
    assert tensor.dtype == pb.DTYPE_F32
    return list(struct.unpack(f"<{len(data) // 4}f", data))


# ---- one driver a method ----


@drives("Runtime.Hello")
def hello(user: StubUser, daemon: Daemon) -> None:
    user.leave_session()  # in a session it was said with Session.Open
    reply = user.Runtime.Hello(pb.HelloRequest(min_version=1, max_version=7, client_name="stubs"))
    assert reply.version == 1 and reply.id_prefix == 0
    assert (reply.max_payload_bytes, reply.max_inline_bytes, reply.max_item_bytes) == (1 << 20, 64 << 10, 1 << 20)
    assert reply.server_epoch == user.Runtime.Info(pb.Empty()).server_epoch
    error = refused(Code.FAILED_PRECONDITION, user.Runtime.Hello, pb.HelloRequest(min_version=8, max_version=9))
    assert "8 to 9" in error.message and "1 to 1" in error.message and "upgrade pjrtd" in error.hint


@drives("Runtime.Info")
def info(user: StubUser, daemon: Daemon) -> None:
    reply = user.Runtime.Info(pb.Empty())
    assert (reply.pid, reply.platform_name, reply.num_devices) == (daemon.pid, "cpu", 4)
    assert reply.protocol_min == reply.protocol_max == 1 and reply.pjrt_major == 0 and reply.uptime_ns > 0
    user.recorder.metadata = ((SESSION_KEY, ""),)
    refused(Code.NOT_FOUND, user.Runtime.Info, pb.Empty())


@drives("Runtime.Devices")
def devices(user: StubUser, daemon: Daemon) -> None:
    found = user.Runtime.Devices(pb.Empty()).devices
    assert sorted(device.id for device in found) == [0, 1, 2, 3] and all(device.addressable for device in found)
    memories = {memory.id: memory for memory in user.Runtime.Memories(pb.Empty()).memories}
    for device in found:
        assert all(device.id in memories[memory].devices for memory in device.memories)
    user.recorder.metadata = ((SESSION_KEY, "short"),)
    refused(Code.NOT_FOUND, user.Runtime.Devices, pb.Empty())


@drives("Runtime.Memories")
def memories(user: StubUser, daemon: Daemon) -> None:
    found = user.Runtime.Memories(pb.Empty()).memories
    assert len({memory.id for memory in found}) == len(found) >= 4
    kinds = {memory.kind for memory in found}
    assert "unpinned_host" in kinds or "device" in kinds, kinds
    user.recorder.metadata = ((SESSION_KEY, "x" * 1000),)
    refused(Code.NOT_FOUND, user.Runtime.Memories, pb.Empty())


@drives("Runtime.DefaultAssignment")
def default_assignment(user: StubUser, daemon: Daemon) -> None:
    reply = user.Runtime.DefaultAssignment(pb.DefaultAssignmentRequest(num_replicas=2, num_partitions=2))
    assert sorted(reply.devices) == [0, 1, 2, 3]
    refused(Code.INVALID_ARGUMENT, user.Runtime.DefaultAssignment, pb.DefaultAssignmentRequest(num_replicas=1 << 31))


@drives("Session.Open")
def session_open(user: StubUser, daemon: Daemon) -> None:
    user.leave_session()
    first, second = (user.Session.Open(pb.SessionOpenRequest()) for _ in range(2))
    assert first.session != second.session and first.token != second.token
    assert len(first.token) == 43 and first.server_epoch == user.Runtime.Info(pb.Empty()).server_epoch
    refused(Code.INVALID_ARGUMENT, user.Session.Open, pb.SessionOpenRequest(name="no name"))
    named = user.Session.Open(pb.SessionOpenRequest(name="weights", ttl_ns=10**9))
    for opened in (first, second, named):
        user.recorder.metadata = ((SESSION_KEY, opened.token),)
        user.Session.Close(pb.SessionCloseRequest())
    user.leave_session()


@drives("Session.Close")
def session_close(user: StubUser, daemon: Daemon) -> None:
    for buffer in (1, 2, 7):
        upload_f32(user, buffer, FOUR)
    compile_text(user, 1, case("add").text)
    refused(Code.NOT_FOUND, user.Session.Close, pb.SessionCloseRequest(name="of nobody"))
    reply = user.Session.Close(pb.SessionCloseRequest())
    assert (reply.buffers_freed, reply.programs_freed) == (3, 1)
    refused(Code.NOT_FOUND, user.Session.Close, pb.SessionCloseRequest())


@drives("Session.Attach")
def session_attach(user: StubUser, daemon: Daemon) -> None:
    request = pb.SessionAttachRequest(token=user.recorder.metadata[0][1])
    error = refused(Code.FAILED_PRECONDITION, user.Session.Attach, request)
    assert SESSION_KEY in error.hint


@drives("Session.List")
def session_list(user: StubUser, daemon: Daemon) -> None:
    upload_f32(user, 1, FOUR)
    (own,) = user.Session.List(pb.SessionListRequest(buffers=5)).sessions
    assert own.own and not own.local and (own.buffers, own.buffer_bytes, own.programs) == (1, 16, 0)
    assert [(each.buffer, each.bytes, each.type) for each in own.largest] == [(1, 16, f32(4))]
    assert [(each.pid, each.transport) for each in own.connections] == [(0, "grpc")]
    assert [each.session for each in user.Session.List(pb.SessionListRequest(session=own.session)).sessions] == [own.session]
    refused(Code.NOT_FOUND, user.Session.List, pb.SessionListRequest(session=own.session + 1000))


@drives("Session.Bind")
def session_bind(user: StubUser, daemon: Daemon) -> None:
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=1), pb.SlotBinding(slot="v", buffer=1)]))
    assert {slot.slot for slot in user.Session.Slots(pb.SlotsRequest()).slots} == {"w", "v"}
    refused(Code.NOT_FOUND, user.Session.Bind, pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=2)]))


@drives("Session.Unbind")
def session_unbind(user: StubUser, daemon: Daemon) -> None:
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=1)]))
    user.Session.Unbind(pb.UnbindRequest(slots=["w"]))
    assert not user.Session.Slots(pb.SlotsRequest()).slots
    refused(Code.NOT_FOUND, user.Session.Unbind, pb.UnbindRequest(slots=["w"]))


@drives("Session.Lookup")
def session_lookup(user: StubUser, daemon: Daemon) -> None:
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=1)]))
    user.Session.Lookup(pb.LookupRequest(bindings=[pb.SlotBinding(slot="w", buffer=2)]))
    assert user.Buffer.Stat(pb.BufferRequest(buffer=2)).type == f32(4)
    refused(Code.NOT_FOUND, user.Session.Lookup, pb.LookupRequest(bindings=[pb.SlotBinding(slot="x", buffer=3)]))


@drives("Session.Slots")
def session_slots(user: StubUser, daemon: Daemon) -> None:
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=1)]))
    (slot,) = user.Session.Slots(pb.SlotsRequest(slots=["w"])).slots
    assert (slot.slot, slot.state, slot.type, slot.device, slot.device_bytes) == ("w", pb.SLOT_STATE_READY, f32(4), 0, 16)
    refused(Code.NOT_FOUND, user.Session.Slots, pb.SlotsRequest(slots=["x"]))


@drives("Session.Configure")
def session_configure(user: StubUser, daemon: Daemon) -> None:
    user.Session.Configure(pb.ConfigureRequest(priority=pb.SESSION_PRIORITY_LOW, device=1))
    (own,) = [each for each in user.Session.List(pb.SessionListRequest()).sessions if each.own]
    assert (own.priority, own.home_device) == (pb.SESSION_PRIORITY_LOW, 1)
    refused(Code.INVALID_ARGUMENT, user.Session.Configure, pb.ConfigureRequest(device=99))


def publish(user: StubUser, name: str) -> None:
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="w", buffer=1)]))
    user.Session.Publish(pb.PublishRequest(name=name, slots=["w"], everybody=True))


@drives("Session.Publish")
def session_publish(user: StubUser, daemon: Daemon) -> None:
    publish(user, "stubs")
    refused(Code.ALREADY_EXISTS, user.Session.Publish, pb.PublishRequest(name="stubs"))


@drives("Session.Withdraw")
def session_withdraw(user: StubUser, daemon: Daemon) -> None:
    publish(user, "stubs")
    user.Session.Withdraw(pb.WithdrawRequest(name="stubs"))
    refused(Code.NOT_FOUND, user.Session.Withdraw, pb.WithdrawRequest(name="stubs"))


@drives("Session.Borrow")
def session_borrow(user: StubUser, daemon: Daemon) -> None:
    publish(user, "stubs")
    user.Session.Borrow(pb.BorrowRequest(name="stubs", slots=[pb.BorrowedSlot(slot="w", **{"as": "v"})]))
    assert {slot.slot: slot.published for slot in user.Session.Slots(pb.SlotsRequest()).slots} == {"w": True, "v": True}
    refused(Code.NOT_FOUND, user.Session.Borrow, pb.BorrowRequest(name="none"))


@drives("Session.Published")
def session_published(user: StubUser, daemon: Daemon) -> None:
    publish(user, "stubs")
    (info,) = user.Session.Published(pb.Empty()).publications
    assert (info.name, info.own, info.slots, info.bytes, info.borrowed) == ("stubs", True, 1, 16, 0)
    session = user.recorder.metadata
    user.leave_session()
    refused(Code.FAILED_PRECONDITION, user.Session.Published, pb.Empty())
    user.recorder.metadata = session


@drives("Session.Sync")
def session_sync(user: StubUser, daemon: Daemon) -> None:
    before = user.Session.Sync(pb.Empty())
    upload_f32(user, 1, FOUR)
    after = user.Session.Sync(pb.Empty())
    assert after.last_call > before.last_call and not after.failed_call and not after.HasField("error")
    session = user.recorder.metadata
    user.leave_session()
    error = refused(Code.FAILED_PRECONDITION, user.Session.Sync, pb.Empty())
    assert "Session.Open" in error.hint and SESSION_KEY in error.hint
    user.recorder.metadata = session


@drives("Buffer.Upload")
def buffer_upload(user: StubUser, daemon: Daemon) -> None:
    data = os.urandom(BIG)
    assert upload(user, 1, u8(BIG), data).device_bytes >= BIG
    assert upload(user, 2, f32(), struct.pack("<f", 1.5)).device_bytes == 4
    assert upload(user, 3, u8(0, 5), b"").device_bytes == 0
    request = pb.UploadRequest(buffer=4, type=f32(2), data_bytes=8, device=2, bulk=struct.pack("<2f", 1, 2))
    user.Buffer.Upload(iter([request]))
    assert download(user, 1) == (u8(BIG), data) and values(user, 2) == [1.5] and download(user, 3)[1] == b""
    assert user.Buffer.Stat(pb.BufferRequest(buffer=4)).device == 2
    error = refused(Code.INVALID_ARGUMENT, user.Buffer.Upload, iter([pb.UploadRequest(buffer=5, type=f32(2), data_bytes=9)]))
    assert "8 bytes" in error.message and "9" in error.message
    error = refused(Code.INVALID_ARGUMENT, user.Buffer.Upload, iter([pb.UploadRequest(buffer=3, type=f32(), data_bytes=4, bulk=b"1234")]))
    assert "3" in error.message  # an id is used once
    error = refused(Code.INVALID_ARGUMENT, user.Buffer.Upload, iter([pb.UploadRequest(buffer=6, type=u8(9), data_bytes=9, device=77, bulk=bytes(9))]))
    assert "77" in error.message


@drives("Buffer.Download")
def buffer_download(user: StubUser, daemon: Daemon) -> None:
    data = os.urandom(BIG + 1)
    upload(user, 1, u8(BIG + 1), data)
    assert download(user, 1) == (u8(BIG + 1), data)
    upload(user, 2, pb.TensorType(dtype=pb.DTYPE_S4, dims=[2]), b"\x07\xf8")  # one element a byte, sign-extended
    assert download(user, 2)[1] == b"\x07\xf8"
    assert "buffer 3" in refused(Code.NOT_FOUND, user.Buffer.Download, pb.DownloadRequest(buffer=3)).message


@drives("Buffer.Stat")
def buffer_stat(user: StubUser, daemon: Daemon) -> None:
    upload(user, 1, f32(2, 3), bytes(24))
    reply = user.Buffer.Stat(pb.BufferRequest(buffer=1))
    assert (reply.type, reply.host_bytes, reply.device_bytes, reply.device) == (f32(2, 3), 24, 24, 0)
    assert reply.layout.minor_to_major == [1, 0] and not reply.is_deleted
    assert "buffer 2" in refused(Code.NOT_FOUND, user.Buffer.Stat, pb.BufferRequest(buffer=2)).message


@drives("Buffer.Delete")
def buffer_delete(user: StubUser, daemon: Daemon) -> None:
    for buffer in (1, 2, 3):
        upload_f32(user, buffer, FOUR)
    user.Buffer.Delete(pb.DeleteRequest(buffers=[1, 3]))
    for gone in (1, 3):
        refused(Code.NOT_FOUND, user.Buffer.Stat, pb.BufferRequest(buffer=gone))
    assert values(user, 2) == FOUR
    refused(Code.NOT_FOUND, user.Buffer.Delete, pb.DeleteRequest(buffers=[1]))


@drives("Program.Compile")
def program_compile(user: StubUser, daemon: Daemon) -> None:
    reply = compile_text(user, 1, case("add").text + f"// {daemon.stats().compiles}\n")  # one that nobody has
    description = reply.description
    assert [tensor.type for tensor in description.args] == [f32(4), f32(4)]
    assert [tensor.type for tensor in description.outputs] == [f32(4)] and list(description.devices) == [0]
    assert description.straight_line and reply.compile_ns > 0
    count = 700_000
    compile_text(user, 2, big_constant(count))  # over 5 MB of text, in pieces
    user.Execute.Execute(pb.ExecuteRequest(program=2, outputs=[1]))
    assert download(user, 1)[1] == struct.pack("<i", count - 1)
    options = pb.CompileOptions(num_replicas=2)
    code = case("add").text.encode()
    user.Program.Compile(iter([pb.CompileRequest(program=3, code_bytes=len(code), options=options, bulk=code)]))
    assert len(user.Program.Describe(pb.ProgramRequest(program=3)).devices) == 2
    error = refused(Code.INVALID_ARGUMENT, compile_text, user, 4, "func.func @main( nonsense")
    assert "error" in error.message
    late = refused(Code.INVALID_ARGUMENT, user.Program.Describe, pb.ProgramRequest(program=4))
    assert late.message == error.message and late.origin_call  # what failed poisons its id


@drives("Program.Describe")
def program_describe(user: StubUser, daemon: Daemon) -> None:
    compiled = compile_text(user, 1, case("donate_first").text)
    described = user.Program.Describe(pb.ProgramRequest(program=1))
    assert described == compiled.description
    assert [tensor.donated for tensor in described.args] == [True, False] and described.name == "donate_first"
    assert "program 2" in refused(Code.NOT_FOUND, user.Program.Describe, pb.ProgramRequest(program=2)).message


@drives("Program.Release")
def program_release(user: StubUser, daemon: Daemon) -> None:
    for program in (1, 2):
        compile_text(user, program, case("add").text)
    user.Program.Release(pb.ReleaseRequest(programs=[1]))
    refused(Code.NOT_FOUND, user.Program.Describe, pb.ProgramRequest(program=1))
    assert user.Program.Describe(pb.ProgramRequest(program=2)).outputs
    refused(Code.NOT_FOUND, user.Program.Release, pb.ReleaseRequest(programs=[1]))


@drives("Execute.Execute")
def execute(user: StubUser, daemon: Daemon) -> None:
    compile_text(user, 1, case("add").text)
    upload_f32(user, 1, FOUR)
    reply = user.Execute.Execute(pb.ExecuteRequest(program=1, args=[1, 1], outputs=[2], fetch=[0]))
    assert struct.unpack("<4f", reply.bulk) == (2, 4, 6, 8) and values(user, 2) == [2, 4, 6, 8]
    assert [(fetched.position, fetched.type, fetched.data_bytes) for fetched in reply.fetched] == [(0, f32(4), 16)]
    inline = [pb.InlineArgument(position=1, type=f32(4), data_bytes=16)]
    reply = user.Execute.Execute(pb.ExecuteRequest(program=1, args=[1, 0], outputs=[0], fetch=[0], inline_args=inline,
                                                   bulk=struct.pack("<4f", 10, 20, 30, math.inf)))
    assert struct.unpack("<4f", reply.bulk) == (11, 22, 33, math.inf)
    compile_text(user, 2, case("donate_first").text)
    reply = user.Execute.Execute(pb.ExecuteRequest(program=2, args=[2, 1], outputs=[3]))
    assert list(reply.consumed) == [0] and values(user, 3) == [3, 6, 9, 12]
    assert user.Buffer.Stat(pb.BufferRequest(buffer=2)).is_deleted
    assert "donated" in refused(Code.INVALID_ARGUMENT, user.Buffer.Download, pb.DownloadRequest(buffer=2)).message
    upload(user, 4, u8(3), b"abc")
    error = refused(Code.INVALID_ARGUMENT, user.Execute.Execute, pb.ExecuteRequest(program=1, args=[1, 4], outputs=[5]))
    assert (error.argument.index, error.argument.expected, error.argument.actual) == (1, "f32[4]", "u8[3]")
    late = refused(Code.INVALID_ARGUMENT, user.Buffer.Download, pb.DownloadRequest(buffer=5))
    assert late.message == error.message and late.origin_call
    refused(Code.NOT_FOUND, user.Execute.Execute, pb.ExecuteRequest(program=9, outputs=[6]))


@drives("Execute.Run")
def run(user: StubUser, daemon: Daemon) -> None:
    compile_text(user, 1, case("donate_first").text)
    upload_f32(user, 1, FOUR)
    user.Session.Bind(pb.BindRequest(bindings=[pb.SlotBinding(slot="x", buffer=1)]))
    step = pb.ExecuteRequest(program=1, args=[0, 0], slot_args=[pb.SlotArgument(position=0, slot="x")],
                             inline_args=[pb.InlineArgument(position=1, type=f32(4), data_bytes=16)],
                             feed_back=[pb.FeedBack(output=0, slot="x")], outputs=[2], fetch=[0])
    request = pb.RunRequest(step=step, steps=5, every=2, bulk=struct.pack("<4f", 1, 1, 1, 1))
    told = list(user.Execute.Run(request))
    assert [(each.steps, struct.unpack("<4f", each.bulk)) for each in told] == [
        (2, (3, 4, 5, 6)), (4, (5, 6, 7, 8)), (5, (6, 7, 8, 9))]
    assert told[-1].execute_ns and told[-1].fetched[0].type == f32(4)
    assert values(user, 2) == [6, 7, 8, 9]
    # More than gRPC takes at a time, read slowly, and left in the middle: it stops.
    request.steps, request.every = 10**15, 1
    del request.step.outputs[:]
    stream = user.Execute.Run(request)
    seen = [next(stream).steps for _ in range(20_000)]
    assert seen == list(range(1, 20_001))
    stream.cancel()
    user.Session.Lookup(pb.LookupRequest(bindings=[pb.SlotBinding(slot="x", buffer=3)]))
    assert values(user, 3)[0] >= 20_006
    request.bulk = bytes(15)
    assert "15" in refused(Code.INVALID_ARGUMENT, lambda each: next(user.Execute.Run(each)), request).message


@drives("Admin.Stats")
def stats(user: StubUser, daemon: Daemon) -> None:
    before = user.Admin.Stats(pb.Empty())
    upload(user, 1, u8(1000), bytes(1000))
    after = user.Admin.Stats(pb.Empty())
    assert (after.buffers, after.buffer_bytes) == (before.buffers + 1, before.buffer_bytes + 1000)
    assert after.connections >= 1 and after.calls_total > before.calls_total and len(after.lanes) == 4
    session = user.recorder.metadata
    user.recorder.metadata = ((SESSION_KEY, "y" * 43),)
    refused(Code.NOT_FOUND, user.Admin.Stats, pb.Empty())
    user.recorder.metadata = session
