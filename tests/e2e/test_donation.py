"""Donated arguments by id: refused uses, refused runs, ends of what was donated, loops. (By slot: test_slots.py; failures
under way: test_fake_plugin_events.py; what is in flight: test_poisoned_ids.py.)"""

from __future__ import annotations

import struct

import pytest

from case_programs import case
from daemon import PATIENCE, Daemon
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, RawClient, deadline
from test_fake_plugin_events import wait_until
from test_slots import floats

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

MIB = 1 << 20


def two(client: RawClient) -> tuple[int, int]:
    return client.upload("f32", [4], floats(1, 2, 3, 4)), client.upload("f32", [4], floats(10, 20, 30, 40))


def live(client: RawClient) -> dict[int, int]:
    """The session's buffers by id, with their bytes, as the list of sessions has them."""
    (own,) = [each for each in client.call("Session.List", buffers=64).sessions if each.own]
    return {buffer.buffer: buffer.bytes for buffer in own.largest if buffer.bytes}


def test_a_buffer_that_is_donated_and_an_argument_beside_is_refused_at_once(client: RawClient) -> None:
    """Elsewhere such an execution hung: jax issue 9635."""
    program = client.compile(case("donate_first").text)
    a, b = two(client)
    with deadline(2 * PATIENCE, "refusing it"):
        _, call = client.start_execute(program, [a, a])
        failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT
    assert failed.message == "program 'donate_first': argument 0 is donated, but the same buffer is argument 1 as well"
    assert client.download(a) == floats(1, 2, 3, 4)
    assert client.download(client.execute(program, [a, b])[0]) == floats(11, 22, 33, 44)


def test_every_use_of_what_was_donated_says_so(client: RawClient) -> None:
    program, add = client.compile(case("donate_first").text), client.compile(case("add").text)
    a, b = two(client)
    (result,) = client.execute(program, [a, b])
    uses = [client.start("Buffer.Download", buffer=a), client.start_execute(program, [a, b])[1], client.start_execute(add, [b, a])[1],
            client.start("Session.Bind", bindings=[dict(slot="x", buffer=a)])]
    for call in uses[:3]:
        failed = client.failure_of(call)
        assert failed.code == INVALID_ARGUMENT and "was donated" in failed.message, failed
    client.receive_of(uses[3])  # bound or refused: what is run with it says so in any case
    client.call("Buffer.Delete", buffers=[a])
    for _ in range(2):
        failed = client.failure("Buffer.Delete", buffers=[a])
        assert failed.code == NOT_FOUND and str(a) in failed.message, "freed twice"
    assert client.failure("Buffer.Download", buffer=a).code == NOT_FOUND
    assert client.download(b) == floats(10, 20, 30, 40) and client.download(result) == floats(11, 22, 33, 44)


def test_a_donor_that_cannot_be_used_stays(client: RawClient) -> None:
    program = client.compile(case("donor_unusable").text)
    a, _ = two(client)
    for _ in range(3):
        outputs, call = client.start_execute(program, [a])
        assert list(client.reply(call, "Execute.Execute").consumed) == []
        assert client.download(outputs[0]) == floats(1, 2)
        assert client.download(a) == floats(1, 2, 3, 4)


def test_what_a_refused_run_would_have_consumed_is_listed_as_live(client: RawClient) -> None:
    program = client.compile(case("donate_first").text)
    a, b = two(client)
    short = client.upload("f32", [2], floats(1, 2))
    freed = client.upload("f32", [4], bytes(16))
    client.call("Buffer.Delete", buffers=[freed])
    for args, code in (([a], INVALID_ARGUMENT), ([a, short], INVALID_ARGUMENT), ([a, freed], NOT_FOUND)):
        assert client.failure_of(client.start_execute(program, args)[1]).code == code
        assert client.download(a) == floats(1, 2, 3, 4)
        assert live(client) == {a: 16, b: 16, short: 8}
    outputs, call = client.start_execute(program, [a, b])
    assert list(client.reply(call, "Execute.Execute").consumed) == [0]
    assert live(client) == {b: 16, outputs[0]: 16, short: 8}
    assert client.download(outputs[0]) == floats(11, 22, 33, 44)


@pytest.mark.parametrize("donated", [True, False])
def test_a_loop_of_the_client_s_takes_no_more_memory_with_each_step(daemon: Daemon, client: RawClient, donated: bool) -> None:
    """a = step(a, b), 1000 times, each answer waited for, no value fetched. A step that were kept would be 64 KiB."""
    count = 16 << 10
    argument = f"tensor<{count}xf32>"
    program = client.compile(f"""func.func @main(%a: {argument}{" {tf.aliasing_output = 0 : i32}" if donated else ""}, %b: {argument})
        -> {argument} {{ %0 = stablehlo.add %a, %b : {argument} return %0 : {argument} }}""")
    a = client.upload("f32", [count], struct.pack("<f", 1) * count)
    b = client.upload("f32", [count], struct.pack("<f", 10) * count)
    buffers, resident = client.stats().buffers, 0
    for step in range(1000):
        (fresh,) = client.execute(program, [a, b])
        client.call("Buffer.Delete", buffers=[a])
        a = fresh
        if step % 100 == 99:
            wait_until(lambda: client.stats().buffers == buffers)  # what was deleted is freed a turn later
        if step == 199:
            resident = daemon.resident_bytes()
    assert client.download(a) == struct.pack("<f", 10_001) * count
    assert daemon.resident_bytes() < resident + 8 * MIB
