"""Client-chosen ids: strictly increasing per kind, with the connection's prefix, never reused, private to a session."""

from __future__ import annotations

import struct

import pytest

from bystander import Bystander
from case_programs import case
from daemon import Daemon
from raw_frames import (CANCELLED, FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, CallFailed, RawClient)

RUN_OVER = ["unix", "channel", "unary"]
# What needs frames that are under way together, or a connection that outlives its session.
pipelined = pytest.mark.over("unix", "channel")

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

DATA = struct.pack("<4f", 1, 2, 3, 4)


def try_upload(client: RawClient, buffer: int) -> CallFailed | None:
    _, call = client.start_upload("f32", [4], DATA, buffer=buffer)
    try:
        client.reply(call, "Buffer.Upload")
    except CallFailed as failed:
        return failed
    return None


def test_ids_may_jump_but_not_repeat_or_go_back(client: RawClient) -> None:
    prefix = client.hello.id_prefix << 48
    assert try_upload(client, prefix | 10) is None
    for wrong in (prefix | 10, prefix | 9, prefix | 1, prefix):
        failed = try_upload(client, wrong)
        assert failed is not None and failed.code == INVALID_ARGUMENT, hex(wrong)
    assert client.download(prefix | 10) == DATA, "a refused id does not touch the one that has it"
    assert try_upload(client, prefix | 11) is None
    client.call("Buffer.Delete", buffers=[prefix | 11])
    failed = try_upload(client, prefix | 11)
    assert failed is not None and failed.code == INVALID_ARGUMENT, "an id is never used again"
    assert client.failure("Buffer.Download", buffer=prefix | 11).code == NOT_FOUND
    assert try_upload(client, prefix | (1 << 48) - 1) is None
    assert client.download(prefix | (1 << 48) - 1) == DATA
    client._last_id["buffer"] = (1 << 48) - 1
    failed = try_upload(client, client.new_buffer())
    assert failed is not None and failed.code == INVALID_ARGUMENT, "the ids of this prefix have run out"


def test_the_prefix_is_checked(client: RawClient) -> None:
    prefix = client.hello.id_prefix
    for wrong in ((prefix + 1 & 0xFFFF) << 48 | 5, prefix - 1 & 0xFFFF, 0xFFFF << 48 | 5 if prefix != 0xFFFF else 5, 2**64 - 1, 0):
        if wrong >> 48 == prefix and wrong & (1 << 48) - 1:
            continue
        failed = try_upload(client, wrong)
        assert failed is not None and failed.code == INVALID_ARGUMENT, hex(wrong)
        assert client.failure("Buffer.Download", buffer=wrong).code in (NOT_FOUND, INVALID_ARGUMENT)
        _, call = client.start_compile(case("add").text, program=wrong)
        assert client.failure_of(call).code == INVALID_ARGUMENT


def test_buffers_and_programs_count_separately(client: RawClient) -> None:
    prefix = client.hello.id_prefix << 48
    assert try_upload(client, prefix | 1000) is None
    client.reply(client.start_compile(case("add").text, program=prefix | 3)[1], "Program.Compile")
    _, call = client.start_compile(case("add").text, program=prefix | 2)
    assert client.failure_of(call).code == INVALID_ARGUMENT
    assert client.failure("Program.Describe", program=prefix | 1000).code == NOT_FOUND
    assert client.failure("Buffer.Stat", buffer=prefix | 3).code == NOT_FOUND


def test_output_ids_have_the_same_rules(client: RawClient) -> None:
    the = case("divide_by_zero")
    program = client.compile(the.text)
    a, b = (client.upload("s32", [4], arg.data) for arg in the.args)
    high = client.new_buffer() + 100
    client._last_id["buffer"] += 200
    for outputs in ([high, high], [high, high - 1], [a, b], [high + 1, a], [5, 6], [0xFFFF << 48 | 1, 0xFFFF << 48 | 2]):
        _, call = client.start_execute(program, [a, b], outputs=outputs)
        assert client.failure_of(call).code == INVALID_ARGUMENT, outputs
    assert client.download(a) == the.args[0].data and client.download(b) == the.args[1].data
    good = client.execute(program, [a, b], 2)
    assert [client.download(buffer) for buffer in good] == [output.data for output in the.outputs]


def test_an_id_of_another_session_looks_like_none(client: RawClient, bystander: Bystander) -> None:
    for buffer in (bystander.kept, bystander.kept + 1000, client.hello.id_prefix << 48 | 777):
        for method in ("Buffer.Download", "Buffer.Stat"):
            assert client.failure(method, buffer=buffer).code == NOT_FOUND
        assert client.failure("Buffer.Delete", buffers=[buffer]).code == NOT_FOUND
    for program in (bystander.program, bystander.program + 1000):
        assert client.failure("Program.Describe", program=program).code == NOT_FOUND
        assert client.failure("Program.Release", programs=[program]).code == NOT_FOUND
    bystander.check()


def test_two_connections_do_not_share_ids(client: RawClient, daemon: Daemon) -> None:
    with daemon.connect() as other:
        mine, theirs = client.upload("f32", [4], DATA), other.upload("f32", [4], bytes(16))
        assert client.download(mine) == DATA and other.download(theirs) == bytes(16)
        if mine != theirs:
            assert client.failure("Buffer.Download", buffer=theirs).code == NOT_FOUND


def test_deleting(client: RawClient) -> None:
    buffers = [client.upload("f32", [4], DATA) for _ in range(5)]
    client.call("Buffer.Delete", buffers=[])
    client.call("Buffer.Delete", buffers=buffers[:2])
    assert client.failure("Buffer.Delete", buffers=buffers[:1]).code == NOT_FOUND
    failed = client.failure("Buffer.Delete", buffers=[buffers[2], buffers[0], buffers[3]])
    assert failed.code == NOT_FOUND
    assert client.download(buffers[4]) == DATA
    assert client.failure("Buffer.Delete", buffers=[buffers[4], buffers[4]]).code in (NOT_FOUND, INVALID_ARGUMENT)
    program = client.compile(case("add").text)
    client.call("Program.Release", programs=[program])
    assert client.failure("Program.Describe", program=program).code == NOT_FOUND
    assert client.failure("Program.Release", programs=[program]).code == NOT_FOUND
    client.call("Program.Release", programs=[])


@pytest.mark.parametrize("count", [1000, 100_000])
def test_deleting_thousands_of_ids_that_do_not_exist(client: RawClient, count: int) -> None:
    for failed in (client.failure("Buffer.Delete", buffers=range(1, count)), client.failure("Program.Release", programs=range(1, count))):
        assert failed.code == NOT_FOUND or (failed.code == INVALID_ARGUMENT and str(count - 1) in failed.message), failed


@pipelined
def test_closing_the_session_frees_everything(client: RawClient, daemon: Daemon) -> None:
    before = client.stats()
    buffers = [client.upload("f32", [4], DATA) for _ in range(3)]
    program = client.compile(case("add").text)
    closed = client.call("Session.Close")
    assert (closed.buffers_freed, closed.programs_freed) == (3, 1)
    for failed in (client.failure("Buffer.Download", buffer=buffers[0]), client.failure("Program.Describe", program=program),
                   client.failure("Session.Close"), client.failure("Buffer.Delete", buffers=[buffers[0]])):
        assert failed.code in (FAILED_PRECONDITION, NOT_FOUND)
    _, call = client.start_upload("f32", [4], DATA)
    assert client.failure_of(call).code == FAILED_PRECONDITION
    opened = client.call("Session.Open")
    assert len(opened.token) >= 32 and opened.server_epoch == client.hello.server_epoch
    assert client.failure("Buffer.Download", buffer=buffers[0]).code == NOT_FOUND
    fresh = client.upload("f32", [4], DATA)
    assert client.download(fresh) == DATA
    client.call("Buffer.Delete", buffers=[fresh])
    assert client.stats().sessions == before.sessions
    daemon.settled(lambda now: (now["buffers"], now["programs"]) == (before.buffers, before.programs))


@pipelined
def test_closing_the_session_while_everything_is_under_way(client: RawClient) -> None:
    """Calls in flight end, in whatever way, and none answers twice."""
    program = client.compile(case("stepped_loop").text)
    number, start = client.upload("s32", [], struct.pack("<i", 30_000_000)), client.upload("u32", [], bytes(4))
    calls = [client.start_execute(program, [number, start])[1]]
    half = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
    calls.append(half)
    calls.append(client.start_compile(case("row_sum").text)[1])
    close = client.start("Session.Close")
    client.reply(close, "Session.Close")
    client.cancel(half, "Buffer.Upload")
    codes = []
    for call in calls:
        got = client.receive_of(call)
        assert got.kind in (2, 3)
        if got.kind == 3:
            import wire_messages

            codes.append(wire_messages.message_class("Error").FromString(got.payload).code)
    assert set(codes) <= {CANCELLED, FAILED_PRECONDITION, NOT_FOUND}, codes
    client.call("Session.Sync")
    assert not client.has_input(0.1)
