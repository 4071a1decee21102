"""Execute.Run: many steps in one call, outputs fed back on the device, values streamed, stopped by an output."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wire_messages as wire
from case_programs import case
from daemon import PATIENCE, Daemon
from raw_frames import (CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, ITEM,
                        NOT_FOUND, REPLY, CallFailed, RawClient)
from test_slots import READY, bind, floats, states, value

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

COUNT = """module @count { func.func @main(%i: tensor<i32>, %end: tensor<i32>) -> (tensor<i32>, tensor<i1>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.add %i, %one : tensor<i32>
  %1 = stablehlo.compare GE, %0, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0, %1 : tensor<i32>, tensor<i1> } }"""
SUM = """module @sum { func.func @main(%total: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %total, %x : tensor<2xf32>
  return %0 : tensor<2xf32> } }"""
SWAP = """module @swap { func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.add %a, %one : tensor<f32>
  return %b, %0 : tensor<f32>, tensor<f32> } }"""
# A step of about a millisecond.
SLOW = """module @slow { func.func @main(%a: tensor<192x192xf32>) -> tensor<192x192xf32> {
  %0 = stablehlo.dot %a, %a : (tensor<192x192xf32>, tensor<192x192xf32>) -> tensor<192x192xf32>
  return %0 : tensor<192x192xf32> } }"""


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def bind_ints(client: RawClient, **values: int) -> None:
    for slot, number in values.items():
        buffer = client.upload("s32", [], ints(number))
        client.call("Session.Bind", bindings=[dict(slot=slot, buffer=buffer)])
        client.call("Buffer.Delete", buffers=[buffer])


def start(client: RawClient, program: int, slots: list[str], feed: dict[int, str], *, deadline_ns: int = 0, bulk: bytes = b"",
          run: dict[str, Any] = {}, **step: Any) -> int:
    step = dict(program=program, args=[0] * len(slots), slot_args=[dict(position=i, slot=slot) for i, slot in enumerate(slots) if slot],
                feed_back=[dict(output=output, slot=slot) for output, slot in feed.items()]) | step
    return client.start("Execute.Run", bulk, deadline_ns=deadline_ns, step=step, **run)


def replies(client: RawClient, call: int) -> Iterator[tuple[Any, bytes, bool]]:
    """The elements of the stream and then the answer: (RunReply, values, whether it is the answer)."""
    while True:
        frame = client.receive_of(call)
        if frame.kind not in (ITEM, REPLY):
            raise CallFailed(wire.message_class("Error").FromString(frame.payload))
        yield wire.message_class("RunReply").FromString(frame.payload), frame.bulk, frame.kind == REPLY
        if frame.kind == REPLY:
            return


def answer(client: RawClient, call: int) -> tuple[Any, bytes]:
    """The answer of a run that tells nothing before."""
    ((reply, bulk, is_answer),) = replies(client, call)
    assert is_answer
    return reply, bulk


def test_a_hundred_thousand_steps_in_one_call(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    bind(client, x=floats(1, 2, 3, 4), b=floats(1, 1, 1, 1))
    reply, bulk = answer(client, start(client, program, ["x", "b"], {0: "x"}, run=dict(steps=100_000), fetch=[0]))
    assert (reply.steps, reply.stopped, bulk) == (100_000, False, floats(100_001, 100_002, 100_003, 100_004))
    assert reply.execute_ns > 0 and value(client, "x") == bulk


def test_values_are_told_every_so_many_steps(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=10**9)
    got = list(replies(client, start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=1000, every=3), fetch=[0])))
    assert [(reply.steps, bulk) for reply, bulk, _ in got] == [(n, ints(n)) for n in range(3, 1000, 3)] + [(1000, ints(1000))]
    assert [last for _, _, last in got] == [False] * 333 + [True]
    got = list(replies(client, start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=4, every=2), fetch=[0, 1])))
    assert [(reply.steps, bulk, last) for reply, bulk, last in got] == [
        (2, ints(1002) + b"\0", False), (4, ints(1004) + b"\0", True)]
    assert [(each.position, each.data_bytes) for each in got[0][0].fetched] == [(0, 4), (1, 1)]


def test_it_stops_when_an_output_says_so(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=77)
    kept = client.new_buffer()
    reply, bulk = answer(client, start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**15, until=1), fetch=[0],
                                       outputs=[0, kept]))
    assert (reply.steps, reply.stopped, bulk) == (77, True, ints(77))
    assert value(client, "i") == ints(77) and client.download(kept) == b"\1"
    reply, _ = answer(client, start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=5, until=1)))
    assert (reply.steps, reply.stopped) == (1, True)
    with_first = client.start("Execute.Run", step=dict(program=program, args=[0, 0],
                                                       slot_args=[dict(position=0, slot="i"), dict(position=1, slot="end")]),
                              steps=3, until=0)
    failed = client.failure_of(with_first)
    assert failed.code == INVALID_ARGUMENT and "output 0 is to end the run: it must be pred[], not s32[]" in failed.message


def test_each_step_has_inputs_of_its_own(client: RawClient) -> None:
    program = client.compile(SUM)
    inputs = np.arange(2000, dtype=np.float32).reshape(1000, 2)
    bind(client, total=floats(0, 0))
    stacked = client.upload("f32", [1000, 2], inputs.tobytes())
    reply, bulk = answer(client, start(client, program, ["total", ""], {0: "total"}, args=[0, stacked], fetch=[0],
                                       run=dict(stacked=[1])))
    assert reply.steps == 1000 and bulk == inputs.sum(axis=0, dtype=np.float32).tobytes()
    reply, bulk = answer(client, start(client, program, ["total", ""], {0: "total"}, args=[0, stacked], fetch=[0],
                                       run=dict(stacked=[1], steps=3)))
    assert bulk == (inputs.sum(axis=0) + inputs[:3].sum(axis=0)).astype(np.float32).tobytes()
    inline = [dict(position=1, type=dict(dtype=11, dims=[3, 2]), data_bytes=24)]
    got = list(replies(client, start(client, program, ["total", ""], {}, bulk=floats(1, 2, 3, 4, 5, 6), inline_args=inline,
                                     fetch=[0], run=dict(stacked=[1], every=1))))
    before = np.frombuffer(value(client, "total"), np.float32)
    assert [bulk for _, bulk, _ in got] == [(before + pair).astype(np.float32).tobytes() for pair in ([1, 2], [3, 4], [5, 6])]
    assert client.download(stacked) == inputs.tobytes()


def test_outputs_are_fed_to_arguments_by_position(client: RawClient) -> None:
    program = client.compile(SWAP)
    first, second = client.upload("f32", [], floats(0)), client.upload("f32", [], floats(100))
    step = dict(program=program, args=[first, second], outputs=[client.new_buffer(), client.new_buffer()],
                feed_back=[dict(output=0, argument=0), dict(output=1, argument=1)])
    reply, _ = answer(client, client.start("Execute.Run", step=step, steps=5))
    a, b = 0.0, 100.0
    for _ in range(5):
        a, b = b, a + 1
    assert [client.download(each) for each in step["outputs"]] == [floats(a), floats(b)]
    assert client.download(first) == floats(0), "the arguments stay"
    assert states(client) == {}


def test_what_is_wrong_is_said_and_nothing_happens(client: RawClient) -> None:
    program, count, donates = client.compile(SUM), client.compile(COUNT), client.compile(case("donate_first").text)
    bind(client, total=floats(1, 2), x=floats(1, 2, 3, 4), b=floats(1, 1, 1, 1))
    bind_ints(client, i=0)
    short = client.upload("f32", [3, 2], bytes(24))
    both, one = ["total", "total"], ["total", ""]
    for ask, words in (
        (lambda: start(client, program, both, {0: "total"}), "no number of steps"),
        (lambda: client.start("Execute.Run", steps=3), "the run has no step"),
        (lambda: start(client, program, one, {0: "total"}, args=[0, short], run=dict(stacked=[1], steps=4)),
         "argument 1 is stacked for 3 steps, the run is to make 4"),
        (lambda: start(client, program, one, {0: "total"}, args=[0, short], run=dict(stacked=[2])), "argument 2 is to be stacked, there are 2"),
        (lambda: start(client, program, one, {0: "total"}, args=[0, short], run=dict(stacked=[1, 1])), "it must increase"),
        (lambda: start(client, program, both, {}, run=dict(stacked=[1], steps=1)),
         "argument 1 (slot 'total') must be one f32[2] for each step, stacked, not f32[2]"),
        (lambda: start(client, program, both, {0: "total"}, run=dict(stacked=[0], steps=1)), "argument 0 is stacked, and fed by output 0"),
        (lambda: start(client, program, ["total", "none"], {0: "total"}, run=dict(steps=2)), "this session has no slot 'none'"),
        (lambda: start(client, program, both, {1: "total"}, run=dict(steps=2)), "output 1 is to be fed back, it has 1"),
        (lambda: start(client, program, both, {0: "total"}, run=dict(steps=2), fetch=[1]), "output 1 is to be fetched, it has 1"),
        (lambda: start(client, program, both, {}, run=dict(steps=2), feed_back=[dict(output=0, argument=2)]), "argument 2, there are 2"),
        (lambda: start(client, program, both, {}, run=dict(steps=2), feed_back=[dict(output=0, argument=1), dict(output=1, argument=1)]),
         "argument 1 is fed by output 0 and by output 1"),
        (lambda: start(client, count, ["i", "i"], {1: "i"}, run=dict(steps=2)),
         "output 1 is pred[] and is fed back to argument 0, which is s32[]"),
        (lambda: start(client, count, ["i", "i"], {}, run=dict(steps=2, until=2)), "output 2 is to end the run, it has 2"),
        (lambda: start(client, donates, ["x", "b"], {}, run=dict(steps=2)), "argument 0 is donated and nothing is fed back to it"),
        (lambda: start(client, donates, ["x", "b"], {}, run=dict(steps=2),
               feed_back=[dict(output=0, slot="x"), dict(output=0, argument=1)]), "is fed back to others as well"),
    ):
        failed = client.failure_of(ask())
        assert failed.code in (INVALID_ARGUMENT, NOT_FOUND) and words in failed.message, (failed.message, words)
        assert states(client) == dict(total=READY, x=READY, b=READY, i=READY)
        assert value(client, "total") == floats(1, 2) and value(client, "x") == floats(1, 2, 3, 4)
    reply, _ = answer(client, start(client, donates, ["x", "b"], {}, run=dict(steps=3), non_donatable=[0]))
    assert reply.steps == 3 and value(client, "x") == floats(1, 2, 3, 4)
    reply, bulk = answer(client, start(client, donates, ["x", "b"], {}, run=dict(steps=1), fetch=[0]))
    assert bulk == floats(2, 3, 4, 5), "one step may consume what nothing is fed back to"


def test_cancelling_stops_between_steps(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=2**31 - 1)
    kept = client.new_buffer()
    call = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18, every=1000), outputs=[0, kept], fetch=[0])
    elements = replies(client, call)
    for _ in range(5):
        told, _, _ = next(elements)
    client.cancel(call, "Execute.Run")
    with pytest.raises(CallFailed) as caught:
        for told, _, _ in elements:
            pass
    assert caught.value.code == CANCELLED
    (reached,) = struct.unpack("<i", value(client, "i"))
    assert reached >= told.steps, "the slot has what the last whole step gave"
    failed = client.failure("Buffer.Download", buffer=kept)
    assert (failed.code, failed.detail.origin_call) == (CANCELLED, call)
    reply, bulk = answer(client, start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10), fetch=[0]))
    assert bulk == ints(reached + 10)


def test_a_deadline_stops_it(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=2**31 - 1)
    failed = client.failure_of(start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18), deadline_ns=int(300_000_000 * PATIENCE)))
    assert failed.code == DEADLINE_EXCEEDED
    (reached,) = struct.unpack("<i", value(client, "i"))
    assert reached > 0
    time.sleep(0.01)
    assert value(client, "i") == ints(reached)


def test_progress_is_told_though_no_value_is_asked_for(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=2**31 - 1)
    call = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18, progress_ns=1_000_000))
    elements = replies(client, call)
    steps = [next(elements)[0].steps for _ in range(10)]
    assert steps == sorted(steps) and steps[-1] > steps[0]
    client.cancel(call, "Execute.Run")
    with pytest.raises(CallFailed):
        list(elements)


def test_others_get_their_turn(daemon: Daemon, client: RawClient, over: str) -> None:
    """A run of a billion steps and a program that takes the same lane: both go on."""
    program = client.compile(SLOW)
    buffer = client.upload("f32", [192, 192], bytes(192 * 192 * 4))
    client.call("Session.Bind", bindings=[dict(slot="a", buffer=buffer)])
    call = start(client, program, ["a"], {0: "a"}, run=dict(steps=10**9))
    with daemon.connect(over) as other:
        theirs = other.compile(SLOW)
        argument = other.upload("f32", [192, 192], bytes(192 * 192 * 4))
        for _ in range(50):
            (output,) = other.execute(theirs, [argument])
            other.call("Buffer.Delete", buffers=[output])
        second = start(other, theirs, [""], {}, args=[argument], run=dict(steps=100))
        assert answer(other, second)[0].steps == 100
    assert client.call("Execute.Execute", program=program, args=[buffer]).execute_ns > 0, "of the same session, too"
    client.cancel(call, "Execute.Run")
    assert client.failure_of(call).code == CANCELLED


def test_it_waits_for_what_it_names_and_others_for_what_it_makes(client: RawClient) -> None:
    """All sent at once: compile, uploads, a run, a run that goes on from there, a download."""
    program, compiling = client.start_compile(COUNT)
    i, _ = client.start_upload("s32", [], ints(5), quiet=True)
    end, _ = client.start_upload("s32", [], ints(10**6), quiet=True)
    client.start("Session.Bind", bindings=[dict(slot="i", buffer=i), dict(slot="end", buffer=end)], quiet=True)
    first = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=1000))
    second = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=500))
    buffer = client.new_buffer()
    client.start("Session.Lookup", bindings=[dict(slot="i", buffer=buffer)], quiet=True)
    down = client.start("Buffer.Download", buffer=buffer)
    client.reply(compiling, "Program.Compile")
    assert [answer(client, call)[0].steps for call in (first, second)] == [1000, 500]
    assert client.finish_download(down) == ints(1505)


def test_its_session_ends_and_so_does_it(daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as client:
        program = client.compile(COUNT)
        bind_ints(client, i=0, end=2**31 - 1)
        call = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18))
        client.call("Session.Close")
        assert client.failure_of(call).code == CANCELLED
    with daemon.connect(over) as client:
        program = client.compile(COUNT)
        bind_ints(client, i=0, end=2**31 - 1)
        start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18, every=1), fetch=[0])
    # The connection went without a word: `balanced` sees that all is freed.


def test_who_does_not_read_holds_only_the_own_run_up(daemon: Daemon, client: RawClient, over: str) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=2**31 - 1)
    big = client.compile("""module { func.func @main(%a: tensor<16000xf32>) -> tensor<16000xf32> {
      %0 = stablehlo.add %a, %a : tensor<16000xf32> return %0 : tensor<16000xf32> } }""")
    buffer = client.upload("f32", [16000], bytes(64000))
    call = start(client, big, [""], {}, args=[buffer], run=dict(steps=10**12, every=1), fetch=[0])
    before = daemon.stats().resident_bytes
    with daemon.connect(over) as other:
        theirs = other.compile(COUNT)
        bind_ints(other, i=0, end=2**31 - 1)
        for _ in range(20):
            answer(other, start(other, theirs, ["i", "end"], {0: "i"}, run=dict(steps=1000)))
            time.sleep(0.02)
    assert daemon.stats().resident_bytes < before + (64 << 20)
    elements = replies(client, call)
    assert [next(elements)[0].steps for _ in range(1000)] == list(range(1, 1001)), "none is lost"
    client.cancel(call, "Execute.Run")
    with pytest.raises(CallFailed):
        list(elements)


def test_two_devices_step_together(client: RawClient) -> None:
    text = """module attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %b : tensor<2xf32>
      %1 = "stablehlo.all_reduce"(%0) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.maximum %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32> } }"""
    program = client.compile(text, options=dict(num_replicas=2))
    for device in range(2):
        for slot, data in (("a", floats(device, 10 * device)), ("b", floats(device + 1, 1))):
            buffer = client.upload("f32", [2], data, device=device)
            client.call("Session.Bind", bindings=[dict(slot=f"{slot}/{device}", buffer=buffer)])
    reply, bulk = answer(client, start(client, program, ["a/0", "b/0", "a/1", "b/1"], {0: "a/0", 1: "a/1"}, run=dict(steps=10),
                                       fetch=[0, 1]))
    assert reply.steps == 10 and bulk == floats(21, 20, 21, 20)


def test_a_run_goes_on_where_its_connection_was_lost(daemon: Daemon, over: str) -> None:
    """While nobody is there to be told it waits; then the other connection hears the rest."""
    with daemon.connect(over) as client:
        token, prefix = client.call("Session.Open", ttl_ns=60 * 10**9).token, client.hello.id_prefix
        program = client.compile(COUNT)
        bind_ints(client, i=0, end=2**31 - 1)
        call = start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18, every=1), fetch=[0])
        told, _, _ = next(replies(client, call))
        assert told.steps == 1
    with daemon.connect(over, last_call=call) as client:
        attached = client.attach(token=token, resume=True, id_prefix=prefix)
        assert [pending.call for pending in attached.pending] == [call]
        elements = replies(client, call)
        (first, _, _), (second, _, _) = next(elements), next(elements)
        assert second.steps == first.steps + 1
        client.cancel(call, "Execute.Run")
        with pytest.raises(CallFailed) as caught:
            list(elements)
        assert caught.value.code == CANCELLED
        client.call("Session.Close")


def test_who_takes_the_session_over_finds_it_stopped(daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as client, daemon.connect(over) as other:
        token = client.call("Session.Open", ttl_ns=60 * 10**9).token
        program = client.compile(COUNT)
        bind_ints(client, i=0, end=2**31 - 1)
        start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18))
        other.attach(token=token)
        reached = value(other, "i")
        time.sleep(0.02)
        assert value(other, "i") == reached
        other.call("Session.Close")


@pytest.mark.over("unix")
def test_sigterm_ends_it_in_time() -> None:
    with Daemon(settings={"drain_seconds": 1}) as own:
        with own.connect() as client:
            program = client.compile(COUNT)
            bind_ints(client, i=0, end=2**31 - 1)
            start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=10**18))
            began = time.monotonic()
            own.stop()
            assert time.monotonic() - began < 1 + 5 * PATIENCE


EMPTY = """module @empty { func.func @main(%a: tensor<0x3xf32>, %i: tensor<i32>) -> (tensor<0x3xf32>, tensor<i32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.add %i, %one : tensor<i32>
  return %a, %0 : tensor<0x3xf32>, tensor<i32> } }"""
NOTHING = "module @nothing { func.func @main(%a: tensor<f32>) { return } }"
NIBBLES = """module @nibbles { func.func @main(%total: tensor<3xi32>, %x: tensor<3xi4>) -> tensor<3xi32> {
  %0 = stablehlo.convert %x : (tensor<3xi4>) -> tensor<3xi32>
  %1 = stablehlo.add %total, %0 : tensor<3xi32>
  return %1 : tensor<3xi32> } }"""
MOST = 2**64 - 1


def test_the_largest_numbers_are_numbers_as_others(client: RawClient) -> None:
    program = client.compile(COUNT)
    bind_ints(client, i=0, end=1000)
    run = dict(steps=MOST, every=MOST, progress_ns=MOST, until=1)
    reply, bulk = answer(client, start(client, program, ["i", "end"], {0: "i"}, run=run, fetch=[0] * 7))
    assert (reply.steps, reply.stopped, bulk) == (1000, True, ints(1000) * 7)
    failed = client.failure_of(start(client, program, ["i", "end"], {0: "i"}, run=dict(steps=1, until=2**32 - 1)))
    assert failed.code == INVALID_ARGUMENT and "output 4294967295 is to end the run, it has 2" in failed.message
    failed = client.failure_of(start(client, program, ["i", "end"], {0: "i"}, run=dict(stacked=[2**32 - 1])))
    assert failed.code == INVALID_ARGUMENT and "argument 4294967295 is to be stacked, there are 2" in failed.message
    assert value(client, "i") == ints(1000)


def test_tensors_without_elements_are_fed_stacked_and_fetched(client: RawClient) -> None:
    program = client.compile(EMPTY)
    bind_ints(client, i=0)
    stacked, without_steps = client.upload("f32", [5, 0, 3], b""), client.upload("f32", [0, 0, 3], b"")
    got = list(replies(client, start(client, program, ["", "i"], {1: "i"}, args=[stacked, 0], run=dict(stacked=[0], every=2), fetch=[0, 1])))
    assert [(reply.steps, bulk) for reply, bulk, _ in got] == [(2, ints(2)), (4, ints(4)), (5, ints(5))]
    inline = [dict(position=0, type=dict(dtype=11, dims=[4, 0, 3]), data_bytes=0)]
    reply, bulk = answer(client, start(client, program, ["", "i"], {1: "i"}, inline_args=inline, run=dict(stacked=[0]), fetch=[1, 0]))
    assert (reply.steps, bulk) == (4, ints(9)) and [part.data_bytes for part in reply.fetched] == [4, 0]
    one = client.upload("f32", [0, 3], b"")
    reply, bulk = answer(client, start(client, program, ["", "i"], {1: "i"}, args=[one, 0], run=dict(steps=3), fetch=[0],
                                       feed_back=[dict(output=0, argument=0), dict(output=1, slot="i")]))
    assert (reply.steps, bulk, value(client, "i")) == (3, b"", ints(12))
    failed = client.failure_of(start(client, program, ["", "i"], {1: "i"}, args=[without_steps, 0], run=dict(stacked=[0])))
    assert failed.code == INVALID_ARGUMENT and "a run makes one step at least" in failed.message


def test_a_program_without_outputs_steps_too(client: RawClient) -> None:
    program = client.compile(NOTHING)
    bind(client)
    one = client.upload("f32", [], floats(1))
    got = list(replies(client, client.start("Execute.Run", step=dict(program=program, args=[one]), steps=10, every=3)))
    assert [(reply.steps, bulk) for reply, bulk, _ in got] == [(3, b""), (6, b""), (9, b""), (10, b"")]
    failed = client.failure_of(client.start("Execute.Run", step=dict(program=program, args=[one]), steps=10, until=0))
    assert failed.code == INVALID_ARGUMENT and "output 0 is to end the run, it has 0" in failed.message


def test_stacked_elements_of_four_bits_take_a_byte_each_on_the_way(client: RawClient) -> None:
    program = client.compile(NIBBLES)
    rows = np.array([[-8, 7, 1], [3, -1, 0], [-8, 7, -5], [2, 2, 2], [1, 0, -1]], np.int8)
    made = client.upload("s32", [3], ints(0, 0, 0))
    client.call("Session.Bind", bindings=[dict(slot="total", buffer=made)])
    stacked = client.upload("s4", [5, 3], rows.tobytes())
    inline = [dict(position=1, type=dict(dtype=wire.dtype_numbers()["s4"], dims=[5, 3]), data_bytes=15)]
    for step, bulk in ((dict(args=[0, stacked]), b""), (dict(inline_args=inline), rows.tobytes())):
        got = list(replies(client, start(client, program, ["total", ""], {}, bulk=bulk, fetch=[0], run=dict(stacked=[1], every=1), **step)))
        assert [bulk for _, bulk, _ in got] == [ints(*(int(x) for x in row)) for row in rows]
    reply, bulk = answer(client, start(client, program, ["total", ""], {0: "total"}, args=[0, stacked], fetch=[0], run=dict(stacked=[1])))
    assert bulk == rows.sum(axis=0, dtype=np.int32).tobytes()
