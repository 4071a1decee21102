"""Named slots: buffers that a session holds by name, arguments by slot, outputs fed back without a copy to the host."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from case_programs import case
from daemon import Daemon
from raw_frames import (CANCELLED, FAILED_PRECONDITION, INVALID_ARGUMENT,
                        NOT_FOUND, RESOURCE_EXHAUSTED,
                        RawClient)

RUN_OVER = ["unix", "channel"]
DAEMON_SETTINGS = {"max_session_slots": 9000}
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

OUT_OF_RANGE = 11
READY, PENDING, FAILED, CONSUMED = 1, 2, 3, 4
DOUBLE = """module { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32> } }"""
TWO = """module { func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.multiply %a, %b : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32> } }"""


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def bind(client: RawClient, **values: bytes) -> None:
    """Uploads each and binds it to the slot of its name; the ids are deleted."""
    made = {slot: client.upload("f32", [len(value) // 4], value) for slot, value in values.items()}
    client.call("Session.Bind", bindings=[dict(slot=slot, buffer=buffer) for slot, buffer in made.items()])
    client.call("Buffer.Delete", buffers=list(made.values()))


def value(client: RawClient, slot: str) -> bytes:
    buffer = client.new_buffer()
    client.call("Session.Lookup", bindings=[dict(slot=slot, buffer=buffer)])
    try:
        return client.download(buffer)
    finally:
        client.call("Buffer.Delete", buffers=[buffer])


def states(client: RawClient) -> dict[str, int]:
    return {slot.slot: slot.state for slot in client.call("Session.Slots").slots}


def step(client: RawClient, program: int, slots: list[str], feed: dict[int, str], *, quiet: bool = False, outputs: list[int] = [],
         **fields: Any) -> int:
    return client.start("Execute.Execute", program=program, args=[0] * len(slots), outputs=outputs,
                        slot_args=[dict(position=i, slot=slot) for i, slot in enumerate(slots)],
                        feed_back=[dict(output=output, slot=slot) for output, slot in feed.items()], quiet=quiet, **fields)


def test_a_slot_holds_what_has_no_id_any_more(client: RawClient) -> None:
    bind(client, theta=floats(1, 2, 3, 4))
    (slot,) = client.call("Session.Slots").slots
    assert (slot.slot, slot.state, list(slot.type.dims), slot.device_bytes) == ("theta", READY, [4], 16)
    assert value(client, "theta") == floats(1, 2, 3, 4)
    (listed,) = [session for session in client.call("Session.List", buffers=8).sessions if session.own]
    assert (listed.slots, listed.buffers, listed.buffer_bytes) == (1, 0, 16)
    assert [(buffer.slot, buffer.buffer, buffer.bytes) for buffer in listed.largest] == [("theta", 0, 16)]
    bind(client, theta=floats(9))
    assert value(client, "theta") == floats(9)
    client.call("Session.Unbind", slots=["theta"])
    assert not client.call("Session.Slots").slots
    failed = client.failure("Session.Unbind", slots=["theta"])
    assert failed.code == NOT_FOUND and failed.message == "this session has no slot 'theta'"


def test_binding_is_all_or_nothing(client: RawClient) -> None:
    buffer = client.upload("f32", [1], floats(1))
    for wrong, code in ((dict(slot="b", buffer=12345), NOT_FOUND), (dict(slot="", buffer=buffer), INVALID_ARGUMENT),
                        (dict(slot="x" * 256, buffer=buffer), INVALID_ARGUMENT), (dict(slot="a\nb", buffer=buffer), INVALID_ARGUMENT)):
        assert client.failure("Session.Bind", bindings=[dict(slot="a", buffer=buffer), wrong]).code == code
        assert states(client) == {}
    assert client.failure("Session.Bind", bindings=[dict(slot="a", buffer=buffer)] * 8193).code == INVALID_ARGUMENT


def test_slots_are_bounded(client: RawClient) -> None:
    buffer = client.upload("f32", [1], floats(1))
    client.call("Session.Bind", bindings=[dict(slot=f"a{i}", buffer=buffer) for i in range(8000)])
    failed = client.failure("Session.Bind", bindings=[dict(slot=f"b{i}", buffer=buffer) for i in range(1001)])
    assert failed.code == RESOURCE_EXHAUSTED and failed.message == "the session has 8000 slots, and may have 9000"
    assert len(client.call("Session.Slots").slots) == 8000
    client.call("Session.Bind", bindings=[dict(slot=f"a{i}", buffer=buffer) for i in range(7000, 9000)])
    assert client.failure("Session.Slots").code == OUT_OF_RANGE
    assert client.call("Session.Slots", slots=["a8999"]).slots[0].state == READY


def test_steps_are_fed_back_without_an_answer_in_between(client: RawClient) -> None:
    """Case 16: 1000 steps of x = x + b, none of them waited for."""
    program = client.compile(case("donate_first").text)
    before = client.stats().buffers
    bind(client, x=floats(1, 2, 3, 4), b=floats(10, 20, 30, 40))
    for _ in range(1000):
        step(client, program, ["x", "b"], {0: "x"}, quiet=True)
    assert client.call("Session.Sync").failed_call == 0
    assert value(client, "x") == floats(10001, 20002, 30003, 40004)
    assert client.stats().buffers == before + 2, "x and b"


def test_an_output_can_be_kept_fetched_and_fed_back(client: RawClient) -> None:
    program = client.compile(TWO)
    bind(client, a=floats(1, 2, 3, 4), b=floats(5, 6, 7, 8))
    kept = client.new_buffer()
    answered = client.answer(step(client, program, ["a", "b"], {0: "a", 1: "product"}, outputs=[kept, 0], fetch=[0, 1]))
    assert answered.bulk == floats(6, 8, 10, 12) + floats(5, 12, 21, 32)
    assert client.download(kept) == value(client, "a") == floats(6, 8, 10, 12)
    assert value(client, "product") == floats(5, 12, 21, 32)
    client.call("Buffer.Delete", buffers=[kept])
    assert value(client, "a") == floats(6, 8, 10, 12), "the slot holds it without the id"
    client.answer(step(client, program, ["a", "a"], {1: "b"}))
    assert value(client, "b") == floats(36, 64, 100, 144)


def test_slots_ids_and_values_together(client: RawClient) -> None:
    program = client.compile(TWO)
    bind(client, a=floats(1, 2, 3, 4))
    call = client.start("Execute.Execute", floats(2, 2, 2, 2), program=program, args=[0, 0], slot_args=[dict(position=0, slot="a")],
                        inline_args=[dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)],
                        feed_back=[dict(output=0, slot="a")], fetch=[1])
    assert client.answer(call).bulk == floats(2, 4, 6, 8)
    second = client.upload("f32", [4], floats(1, 1, 1, 1))
    call = client.start("Execute.Execute", program=program, args=[second, 0], slot_args=[dict(position=1, slot="a")], fetch=[0])
    assert client.answer(call).bulk == floats(4, 5, 6, 7)


def test_a_refused_step_leaves_all_as_it_was(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    bind(client, x=floats(1, 2, 3, 4), b=floats(10, 20, 30, 40), short=floats(1, 2))
    failed = client.failure_of(step(client, program, ["x", "short"], {0: "x"}))
    assert failed.code == INVALID_ARGUMENT
    assert failed.message == "program 'donate_first': argument 1 (slot 'short') must be f32[4], not f32[2]"
    assert value(client, "x") == floats(1, 2, 3, 4)
    for slots, feed, fields, words in (
        (["x", "none"], {0: "x"}, {}, "argument 1: this session has no slot 'none'"),
        (["x", "b"], {1: "x"}, {}, "output 1 is to be fed back, it has 1"),
        (["x", "b"], {2**32 - 1: "x"}, {}, "4294967296 outputs"),
        (["x", "b"], {0: ""}, {}, "a slot's name has 1 to 255 bytes, this one 0"),
        (["x", "x"], {0: "x"}, {}, "argument 0 (slot 'x') is donated, but the same buffer is argument 1 (slot 'x') as well"),
        (["x", "b"], {0: "x"}, dict(non_donatable=[2]), "argument 2 is not to be donated, it has 2"),
        (["x", "b"], {0: "x"}, dict(non_donatable=[1, 0]), "non_donatable has 0 after 1"),
        (["x", "b"], {0: "x"}, dict(fetch=[1]), "output 1 is to be fetched, it has 1"),
    ):
        failed = client.failure_of(step(client, program, slots, feed, **fields))
        assert failed.code in (INVALID_ARGUMENT, NOT_FOUND) and words in failed.message, failed
        assert value(client, "x") == floats(1, 2, 3, 4)
        assert states(client) == dict(x=READY, b=READY, short=READY)
    client.answer(step(client, program, ["x", "b"], {0: "x"}))
    assert value(client, "x") == floats(11, 22, 33, 44)


def test_an_output_goes_to_one_slot_and_a_slot_gets_one_output(client: RawClient) -> None:
    program = client.compile(TWO)
    bind(client, a=floats(1, 2, 3, 4))
    for feed, words in (([(0, "b"), (0, "c")], "output 0 is fed back to slot 'c': it is fed back already"),
                        ([(0, "a"), (1, "a")], "output 1 is fed back to slot 'a': another output is fed back to that slot")):
        call = client.start("Execute.Execute", program=program, args=[0, 0],
                            slot_args=[dict(position=0, slot="a"), dict(position=1, slot="a")],
                            feed_back=[dict(output=output, slot=slot) for output, slot in feed])
        failed = client.failure_of(call)
        assert failed.code == INVALID_ARGUMENT and words in failed.message
        assert value(client, "a") == floats(1, 2, 3, 4)
        assert states(client).get("b") in (None, FAILED), "what never had a value is poisoned"


def test_what_is_not_to_be_donated_is_not(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    bind(client, x=floats(1, 2, 3, 4), b=floats(10, 20, 30, 40))
    for _ in range(3):
        call = client.start("Execute.Execute", program=program, args=[0, 0], fetch=[0], non_donatable=[0],
                            slot_args=[dict(position=0, slot="x"), dict(position=1, slot="b")])
        answered = client.answer(call)
        assert answered.bulk == floats(11, 22, 33, 44)
    assert value(client, "x") == floats(1, 2, 3, 4)
    call = client.start("Execute.Execute", program=program, args=[0, 0], fetch=[0], non_donatable=[0],
                        slot_args=[dict(position=0, slot="x"), dict(position=1, slot="x")])
    assert client.answer(call).bulk == floats(2, 4, 6, 8), "it may be used twice then"
    client.answer(client.start("Execute.Execute", program=program, args=[0, 0], fetch=[0],
                               slot_args=[dict(position=0, slot="x"), dict(position=1, slot="b")]))
    assert states(client) == dict(x=CONSUMED, b=READY)
    failed = client.failure_of(step(client, program, ["x", "b"], {0: "x"}))
    assert failed.code == INVALID_ARGUMENT
    assert "argument 0 (slot 'x'): buffer" in failed.message and "was donated" in failed.message


def test_a_step_that_is_cancelled_gives_the_old_value_back(client: RawClient) -> None:
    """It waits for an upload that never comes; steps behind it fail with its error, and the slot goes on from what was
    good."""
    program = client.compile(TWO)
    bind(client, a=floats(1, 2, 3, 4))
    late = client.new_buffer()
    upload = client.start("Buffer.Upload", buffer=late, type=dict(dtype=11, dims=[4]), data_bytes=16)
    # 16 bytes of data of which none came: wait for it under a name.
    client.call("Session.Bind", bindings=[dict(slot="late", buffer=late)])
    first = step(client, program, ["a", "late"], {0: "a"})
    second = step(client, program, ["a", "a"], {0: "a"})
    assert states(client)["a"] == PENDING
    client.cancel(first, "Execute.Execute")
    assert client.failure_of(first).code == CANCELLED
    failed = client.failure_of(second)
    assert (failed.code, failed.detail.origin_call) == (CANCELLED, first)
    assert value(client, "a") == floats(1, 2, 3, 4)
    client.cancel(upload, "Buffer.Upload")
    assert client.failure_of(upload).code == CANCELLED
    assert states(client) == dict(a=READY, late=FAILED)


def test_another_connection_of_the_session_sees_them(daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as first, daemon.connect(over) as second:
        token = first.call("Session.Open", ttl_ns=60 * 10**9).token
        bind(first, a=floats(1, 2, 3, 4))
        second.attach(token=token, join=True)
        program = second.compile(DOUBLE)
        second.answer(step(second, program, ["a"], {0: "a"}))
        assert value(first, "a") == floats(2, 4, 6, 8)
        first.call("Session.Close")
    with daemon.connect(over) as other:
        assert states(other) == {}


def test_closing_frees_what_only_slots_hold(daemon: Daemon, over: str) -> None:
    before = daemon.stats().buffer_bytes
    with daemon.connect(over) as client:
        bind(client, **{f"w{i}": bytes(1 << 16) for i in range(40)})
        assert client.stats().buffer_bytes == before + (40 << 16)
        client.call("Session.Close")
        assert client.failure("Session.Slots").code == FAILED_PRECONDITION
        client.call("Session.Open")
        assert states(client) == {}
        deadline = time.monotonic() + 20
        while client.stats().buffer_bytes > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.stats().buffer_bytes == before


def test_a_lookup_of_no_slot_poisons_its_id(client: RawClient) -> None:
    buffer = client.new_buffer()
    call = client.start("Session.Lookup", bindings=[dict(slot="x", buffer=buffer)])
    assert client.failure_of(call).code == NOT_FOUND
    failed = client.failure("Buffer.Download", buffer=buffer)
    assert (failed.code, failed.detail.origin_call) == (NOT_FOUND, call)


@pytest.mark.parametrize("devices", [2])
def test_each_device_has_slots_of_its_own(client: RawClient, devices: int) -> None:
    """Two replicas that each add what their device has: device-major lists, one slot a device."""
    text = DOUBLE.replace("module {", "module attributes {mhlo.num_replicas = 2 : i32} {")
    program = client.compile(text, options=dict(num_replicas=devices))
    for device in range(devices):
        buffer = client.upload("f32", [4], floats(*[device + 1] * 4), device=device)
        client.call("Session.Bind", bindings=[dict(slot=f"x/{device}", buffer=buffer)])
    names = [f"x/{device}" for device in range(devices)]
    for _ in range(3):
        client.answer(step(client, program, names, dict(enumerate(names))))
    assert [value(client, name) for name in names] == [floats(8, 8, 8, 8), floats(16, 16, 16, 16)]
    failed = client.failure_of(step(client, program, names[::-1], {}))
    assert failed.code == INVALID_ARGUMENT and "(slot 'x/1') must be on device 0, not on device 1" in failed.message
