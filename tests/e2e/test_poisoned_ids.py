"""A call that fails poisons what it was to make; donation and deletion have words of their own."""

from __future__ import annotations

import struct
import time

import pytest

from case_programs import case, stepped
from raw_frames import (CANCELLED, INVALID_ARGUMENT, NOT_FOUND, CallFailed, RawClient)

RUN_OVER = ["unix", "channel", "unary"]
# What needs frames that are under way together, or a connection that outlives its session.
pipelined = pytest.mark.over("unix", "channel")

pytestmark = pytest.mark.usefixtures("balanced", "bystander")


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_a_failed_compile_poisons_what_builds_on_it(client: RawClient) -> None:
    """Everything is sent before the first answer is read."""
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    program, compile_call = client.start_compile("not a program")
    (first,), execute_call = client.start_execute(program, [a])
    (second,), second_call = client.start_execute(program, [first])
    download_call = client.start("Buffer.Download", buffer=second)
    describe_call = client.start("Program.Describe", program=program)
    origin = client.failure_of(compile_call)
    assert origin.code == INVALID_ARGUMENT and origin.detail.origin_call in (0, compile_call)
    for call in (execute_call, second_call, download_call, describe_call):
        failed = client.failure_of(call)
        assert (failed.code, failed.message) == (origin.code, origin.message)
        assert failed.detail.origin_call == compile_call
    for method, fields in (("Buffer.Download", dict(buffer=first)), ("Buffer.Stat", dict(buffer=second)),
                           ("Program.Describe", dict(program=program))):
        failed = client.failure(method, **fields)
        assert (failed.code, failed.message, failed.detail.origin_call) == (origin.code, origin.message, compile_call)
    client.call("Buffer.Delete", buffers=[first, second])
    client.call("Program.Release", programs=[program])
    assert client.failure("Buffer.Download", buffer=first).code == NOT_FOUND
    assert client.failure("Program.Describe", program=program).code == NOT_FOUND
    assert client.download(a) == floats(1, 2, 3, 4)


def test_a_failed_upload_poisons_its_users(client: RawClient) -> None:
    program = client.compile(case("add").text)
    buffer, call = client.start_upload("f32", [-4], b"")
    origin = client.failure_of(call)
    (output,), execute_call = client.start_execute(program, [buffer, buffer])
    failed = client.failure_of(execute_call)
    assert (failed.code, failed.message, failed.detail.origin_call) == (origin.code, origin.message, call)
    failed = client.failure("Buffer.Download", buffer=output)
    assert (failed.message, failed.detail.origin_call) == (origin.message, call)


def test_the_first_poisoned_argument_wins_and_the_others_live(client: RawClient) -> None:
    program = client.compile(case("add").text)
    good = client.upload("f32", [4], floats(1, 2, 3, 4))
    one, first_call = client.start_upload("f32", [4], bytes(15))
    two, second_call = client.start_upload("f32", [4], bytes(17))
    origin = client.failure_of(first_call)
    client.failure_of(second_call)
    _, call = client.start_execute(program, [one, two])
    failed = client.failure_of(call)
    assert failed.message == origin.message and failed.detail.origin_call == first_call
    _, call = client.start_execute(program, [good, one])
    assert client.failure_of(call).detail.origin_call == first_call
    assert client.download(good) == floats(1, 2, 3, 4)


def test_a_refused_id_is_not_poisoned_over_a_good_one(client: RawClient) -> None:
    good = client.upload("f32", [4], floats(1, 2, 3, 4))
    _, call = client.start_upload("f32", [2], floats(9, 9), buffer=good)
    assert client.failure_of(call).code == INVALID_ARGUMENT
    assert client.download(good) == floats(1, 2, 3, 4)


def test_a_whole_pipeline_without_reading(client: RawClient) -> None:
    """compile, upload, upload, execute, execute, download in one go; the answers are right and so are the ids."""
    program, _ = client.start_compile(case("add").text)
    a, _ = client.start_upload("f32", [4], floats(1, 2, 3, 4))
    (two,), _ = client.start_execute(program, [a, a])
    (four,), _ = client.start_execute(program, [two, two])
    (six,), _ = client.start_execute(program, [two, four])
    downloads = [client.start("Buffer.Download", buffer=buffer) for buffer in (a, two, four, six)]
    client.start("Buffer.Delete", buffers=[a, two, four, six])
    client.start("Program.Release", programs=[program])
    values = [struct.unpack("<4f", client.finish_download(call)) for call in downloads]
    assert values == [(1, 2, 3, 4), (2, 4, 6, 8), (4, 8, 12, 16), (6, 12, 18, 24)]


@pipelined
def test_a_call_waits_only_for_what_it_names(client: RawClient) -> None:
    """An upload that is not complete holds up nobody who does not need it."""
    slow = client.new_buffer()
    upload = client.start("Buffer.Upload", buffer=slow, data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
    waiting = client.start("Buffer.Download", buffer=slow)
    program = client.compile(case("add").text)
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    assert client.download(client.execute(program, [a, a])[0]) == floats(2, 4, 6, 8)
    client.send_items(upload, "Buffer.Upload", bytes([7]) * (1 << 20), client.hello.upload_credit_bytes)
    assert client.finish_download(waiting) == bytes([7]) * (1 << 20)


def test_a_donated_buffer_says_so(client: RawClient) -> None:
    the = case("donate_first")
    program = client.compile(the.text)
    a, b = (client.upload("f32", [4], arg.data) for arg in the.args)
    outputs, call = client.start_execute(program, [a, b])
    assert list(client.reply(call, "Execute.Execute").consumed) == [0]
    for failed in (client.failure("Buffer.Download", buffer=a), client.failure_of(client.start_execute(program, [a, b])[1]),
                   client.failure_of(client.start_execute(program, [b, a])[1])):
        assert failed.code == INVALID_ARGUMENT and "donated" in failed.message
    stat = client.call("Buffer.Stat", buffer=a)
    assert stat.is_deleted
    assert client.download(b) == the.args[1].data
    assert client.download(outputs[0]) == the.outputs[0].data
    client.call("Buffer.Delete", buffers=[a])
    assert client.failure("Buffer.Download", buffer=a).code == NOT_FOUND


def test_donating_one_buffer_twice_is_refused_at_once(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    b = client.upload("f32", [4], floats(10, 20, 30, 40))
    assert client.failure_of(client.start_execute(program, [a, a])[1]).code == INVALID_ARGUMENT
    assert client.download(a) == floats(1, 2, 3, 4)
    assert client.download(client.execute(program, [a, b])[0]) == floats(11, 22, 33, 44)


def test_refused_executes_consume_nothing(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    b = client.upload("f32", [4], floats(10, 20, 30, 40))
    short = client.upload("f32", [2], floats(1, 2))
    gone = client.upload("f32", [4], bytes(16))
    client.call("Buffer.Delete", buffers=[gone])
    for args, code in (([a], INVALID_ARGUMENT), ([a, short], INVALID_ARGUMENT), ([a, gone], NOT_FOUND), ([a, b, b], INVALID_ARGUMENT)):
        assert client.failure_of(client.start_execute(program, args)[1]).code == code
        assert client.download(a) == floats(1, 2, 3, 4)
        assert not client.call("Buffer.Stat", buffer=a).is_deleted
    assert client.download(client.execute(program, [a, b])[0]) == floats(11, 22, 33, 44)
    assert client.call("Buffer.Stat", buffer=a).is_deleted


def test_a_thousand_donated_steps_keep_two_buffers(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    b = client.upload("f32", [4], floats(10, 20, 30, 40))
    before = client.stats().buffers
    for _ in range(1000):
        (fresh,), _ = client.start_execute(program, [a, b], quiet=True)
        client.start("Buffer.Delete", buffers=[a], quiet=True)
        a = fresh
    assert client.call("Session.Sync").failed_call == 0
    assert struct.unpack("<4f", client.download(a)) == (10001, 20002, 30003, 40004)
    assert client.stats().buffers == before


def test_a_donation_in_flight_is_seen_by_later_calls(client: RawClient) -> None:
    """The second execute is admitted after the first, which will consume its argument."""
    program = client.compile(case("donate_first").text)
    a = client.upload("f32", [4], floats(1, 2, 3, 4))
    b = client.upload("f32", [4], floats(10, 20, 30, 40))
    before, = client.execute(client.compile(case("add").text), [a, a])
    read = client.start("Buffer.Download", buffer=a)
    (one,), first = client.start_execute(program, [a, b])
    (two,), second = client.start_execute(program, [a, b])
    late = client.start("Buffer.Download", buffer=a)
    assert client.finish_download(read) == floats(1, 2, 3, 4), "a read that came first sees the old value"
    client.reply(first, "Execute.Execute")
    assert "donated" in client.failure_of(second).message
    assert "donated" in client.failure_of(late).message
    assert client.download(one) == floats(11, 22, 33, 44)
    assert "donated" in client.failure("Buffer.Download", buffer=two).message
    assert client.download(before) == floats(2, 4, 6, 8)


def test_a_donation_waits_for_readers_that_came_first(client: RawClient) -> None:
    """A slow program reads the buffer; the donating one, sent right behind it, must not change what it reads."""
    slow = client.compile(SLOW_SUM)
    donate = client.compile(DONATE_BIG)
    count = 1 << 20
    data = struct.pack("<f", 1.0) * count
    a = client.upload("f32", [count], data)
    steps = client.upload("s32", [], struct.pack("<i", 40))
    (total,), slow_call = client.start_execute(slow, [a, steps])
    (replaced,), donate_call = client.start_execute(donate, [a])
    client.reply(slow_call, "Execute.Execute")
    client.reply(donate_call, "Execute.Execute")
    assert struct.unpack("<f", client.download(total)) == (40.0,)
    assert client.download(replaced) == struct.pack("<f", 0.0) * count


def test_deleting_what_is_in_use(client: RawClient) -> None:
    program = client.compile(case("stepped_loop").text)
    count = 60_000_000
    number, start = client.upload("s32", [], struct.pack("<i", count)), client.upload("u32", [], struct.pack("<I", 5))
    (output,), call = client.start_execute(program, [number, start])
    download = client.start("Buffer.Download", buffer=output)
    client.call("Buffer.Delete", buffers=[number, start, output])
    client.call("Program.Release", programs=[program])
    for buffer in (number, start, output):
        assert client.failure("Buffer.Download", buffer=buffer).code == NOT_FOUND
    client.reply(call, "Execute.Execute")
    assert struct.unpack("<I", client.finish_download(download)) == (stepped(count, 5),)


@pipelined
def test_deleting_an_upload_that_is_still_coming(client: RawClient) -> None:
    buffer = client.new_buffer()
    call = client.start("Buffer.Upload", buffer=buffer, data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
    client.call("Buffer.Delete", buffers=[buffer])
    assert client.failure("Buffer.Download", buffer=buffer).code == NOT_FOUND
    client.send_items(call, "Buffer.Upload", bytes(1 << 20), client.hello.upload_credit_bytes)
    client.receive_of(call)


@pipelined
def test_quiet_errors_and_sync(client: RawClient) -> None:
    program = client.compile(case("add").text)
    assert client.call("Session.Sync").failed_call == 0
    good, _ = client.start_upload("f32", [4], floats(1, 2, 3, 4), quiet=True)
    (fine,), _ = client.start_execute(program, [good, good], quiet=True)
    (bad,), first_bad = client.start_execute(program, [good], quiet=True)
    _, second_bad = client.start_execute(program, [bad, good], quiet=True)
    client.start("Buffer.Delete", buffers=[2**48 - 5], quiet=True)
    sync_call = client.start("Session.Sync")
    sync = client.reply(sync_call, "Session.Sync")
    assert sync.failed_call == first_bad and sync.error.code == INVALID_ARGUMENT
    assert sync.last_call in (sync_call - 1, sync_call)
    first = client.failure_of(first_bad)
    assert first.message == sync.error.message
    assert client.failure_of(second_bad).detail.origin_call == first_bad
    assert client.download(fine) == floats(2, 4, 6, 8)
    again = client.call("Session.Sync")
    assert again.failed_call == 0 and not again.HasField("error")


def test_sync_waits_for_everything_before_it(client: RawClient) -> None:
    program = client.compile(case("stepped_loop").text)
    count = 50_000_000
    number, start = client.upload("s32", [], struct.pack("<i", count)), client.upload("u32", [], bytes(4))
    began = time.monotonic()
    (output,), execute_call = client.start_execute(program, [number, start], quiet=True)
    sync_call = client.start("Session.Sync")
    small = client.start("Runtime.Info")
    client.reply(small, "Runtime.Info")
    sync = client.reply(sync_call, "Session.Sync")
    took = time.monotonic() - began
    assert sync.failed_call == 0 and sync.last_call >= execute_call
    assert struct.unpack("<I", client.download(output)) == (stepped(count, 0),)
    assert took > 0.02, "the program takes longer than that"


@pipelined
def test_two_syncs_and_a_cancelled_one(client: RawClient) -> None:
    half = client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
    first, second, third = (client.start("Session.Sync") for _ in range(3))
    client.cancel(second, "Session.Sync")
    assert client.failure_of(second).code == CANCELLED
    assert not client.has_input(0.05)
    client.cancel(half, "Buffer.Upload")
    assert client.failure_of(half).code == CANCELLED
    client.reply(first, "Session.Sync")
    client.reply(third, "Session.Sync")


def test_a_quiet_call_that_is_cancelled_answers_at_most_once(client: RawClient) -> None:
    for _ in range(100):
        a, call = client.start_upload("f32", [4], bytes(16), quiet=True)
        client.cancel(call, "Buffer.Upload")
        try:
            client.call("Buffer.Delete", buffers=[a])
        except CallFailed as failed:
            assert failed.code in (CANCELLED, NOT_FOUND)
    client.call("Session.Sync")


SLOW_SUM = """
func.func @main(%a: tensor<1048576xf32>, %n: tensor<i32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %start) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %scale = stablehlo.constant dense<9.53674316e-07> : tensor<f32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<1048576xf32>
    %t = stablehlo.add %a, %s : tensor<1048576xf32>
    %u = stablehlo.subtract %t, %s : tensor<1048576xf32>
    %r = stablehlo.reduce(%u init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1048576xf32>, tensor<f32>) -> tensor<f32>
    %m = stablehlo.multiply %r, %scale : tensor<f32>
    %total = stablehlo.add %sum, %m : tensor<f32>
    stablehlo.return %next, %total : tensor<i32>, tensor<f32>
  }
  return %0#1 : tensor<f32>
}
"""

DONATE_BIG = """
func.func public @main(%a: tensor<1048576xf32> {tf.aliasing_output = 0 : i32}) -> tensor<1048576xf32> {
  %0 = stablehlo.subtract %a, %a : tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}
"""
