"""Deadlines, cancels, and programs that never end or ask for more than there is."""

from __future__ import annotations

import signal
import struct
import time

import pytest

from bystander import Bystander
from case_programs import case, stepped
from daemon import PATIENCE, Daemon
from raw_frames import (CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE,
                        CallFailed, RawClient, deadline)

import pjrtd

RUN_OVER = ["unix", "channel"]

SECOND_NS = 10**9


@pytest.fixture
def own_daemon(over: str):
    """One for a test that leaves a lane stuck."""
    with Daemon(over=over, settings={"drain_seconds": 1}) as started:
        yield started


def endless(client: RawClient, **options) -> tuple[list[int], int, int]:  # noqa: ANN003
    """Starts a program that never ends: (outputs, call, argument)."""
    program = client.compile(case("endless_loop").text)
    argument = client.upload("s32", [], struct.pack("<i", 3))
    outputs, call = client.start_execute(program, [argument], **options)
    return outputs, call, argument


def test_an_endless_program_and_everybody_else(own_daemon: Daemon) -> None:
    other = Bystander(own_daemon)
    with own_daemon.connect() as client:
        began = time.monotonic()
        outputs, call, argument = endless(client, deadline_ns=SECOND_NS)
        other.check()
        assert time.monotonic() - began < 1.0 * PATIENCE, "others wait for the endless program"
        quick = other.client.compile(case("endless_loop").text)
        minus = other.client.upload("s32", [], struct.pack("<i", -1))
        (result,) = other.client.execute(quick, [minus])
        assert struct.unpack("<i", other.client.download(result)) == (-1,)
        failed = client.failure_of(call)
        took = time.monotonic() - began
        assert failed.code == DEADLINE_EXCEEDED and 0.9 < took < 2.5 * PATIENCE, (failed, took)
        later = client.failure("Buffer.Download", buffer=outputs[0])
        assert later.code == DEADLINE_EXCEEDED and later.detail.origin_call == call
        other.check()
        # The same session goes on, on the same device.
        add = client.compile(case("add").text)
        arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in case("add").args]
        assert client.download(client.execute(add, arguments)[0]) == case("add").outputs[0].data
        client.call("Buffer.Delete", buffers=[argument, *outputs])
        assert client.failure("Buffer.Download", buffer=argument).code == NOT_FOUND
    other.check()
    other.close()
    own_daemon.settled(lambda now: now["connections"] == now["sessions"] == 1)  # what the stuck call uses is left
    with deadline(15 * PATIENCE, "stopping with a stuck lane"):
        own_daemon.stop()


def test_a_client_that_dies_during_an_endless_program(own_daemon: Daemon) -> None:
    other = Bystander(own_daemon)
    baseline = own_daemon.balance()
    client = own_daemon.connect()
    endless(client)
    time.sleep(0.2)
    client.close()
    now = own_daemon.settled(lambda seen: seen["connections"] == baseline["connections"] and seen["sessions"] == baseline["sessions"])
    assert now["buffers"] <= baseline["buffers"] + 2, "at most what the stuck call uses is left"
    other.check()
    other.close()


def test_stuck_programs_are_bounded_and_named(over: str) -> None:
    with Daemon(over=over, settings={"max_stuck": 2, "lane_stall_ms": 100, "drain_seconds": 1}) as daemon:
        other = Bystander(daemon)
        clients = []
        codes = []
        for _ in range(4):
            client = daemon.connect()
            clients.append(client)
            _, call, _ = endless(client, deadline_ns=SECOND_NS // 2)
            codes.append(client.failure_of(call).code)
        assert codes[:2] == [DEADLINE_EXCEEDED] * 2, codes
        assert codes[2:] == [RESOURCE_EXHAUSTED] * 2, codes
        assert sum(lane.stuck for lane in daemon.stats().lanes) == 2
        with daemon.connect() as fresh:
            assert fresh.call("Runtime.Info").pid == daemon.pid
            with deadline(2 * PATIENCE, "an answer for a stuck device"):
                _, call = fresh.start_upload("s32", [], bytes(4))
                fresh.receive_of(call)
        for client in clients:
            client.close()
        other.close()


def test_a_loop_gives_right_values_within_its_deadline(balanced: None, client: RawClient, bystander: Bystander) -> None:
    program = client.compile(case("stepped_loop").text)
    assert not client.call("Program.Describe", program=program).straight_line
    for count in (0, 1, 1000, 2_000_000):
        number = client.upload("s32", [], struct.pack("<i", count))
        start = client.upload("u32", [], struct.pack("<I", 7))
        (result,) = client.execute(program, [number, start], deadline_ns=60 * SECOND_NS)
        assert struct.unpack("<I", client.download(result)) == (stepped(count, 7),)


@pytest.mark.parametrize("nanoseconds", [1, 1000, 100_000, 2**64 - 1, 2**63])
def test_extreme_deadlines(balanced: None, client: RawClient, bystander: Bystander, nanoseconds: int) -> None:
    """A nanosecond is too short for anything or just enough; 2**64 - 1 never comes and must not overflow into the past."""
    add = client.compile(case("add").text)
    arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in case("add").args]
    for _ in range(20):
        (output,), call = client.start_execute(add, arguments, deadline_ns=nanoseconds)
        try:
            client.reply(call, "Execute.Execute")
            assert client.download(output) == case("add").outputs[0].data
        except CallFailed as failed:
            assert failed.code == DEADLINE_EXCEEDED and nanoseconds < SECOND_NS
            assert client.failure("Buffer.Download", buffer=output).code == DEADLINE_EXCEEDED
    _, call = client.start_upload("u8", [1 << 20], bytes(1 << 20), deadline_ns=nanoseconds)
    try:
        client.reply(call, "Buffer.Upload")
    except CallFailed as failed:
        assert failed.code == DEADLINE_EXCEEDED and nanoseconds < SECOND_NS
    assert client.download(arguments[0]) == case("add").args[0].data


def test_a_deadline_while_data_is_still_missing(balanced: None, client: RawClient, bystander: Bystander) -> None:
    buffer = client.new_buffer()
    call = client.start("Buffer.Upload", buffer=buffer, data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]),
                        deadline_ns=SECOND_NS // 5)
    began = time.monotonic()
    failed = client.failure_of(call)
    assert failed.code == DEADLINE_EXCEEDED and time.monotonic() - began < 2 * PATIENCE
    client.send_control(4, call, bulk=bytes(1000), method="Buffer.Upload")  # late items are dropped
    assert client.failure("Buffer.Download", buffer=buffer).code == DEADLINE_EXCEEDED
    program = client.new_program()
    call = client.start("Program.Compile", program=program, code_bytes=1 << 20, deadline_ns=SECOND_NS // 5)
    assert client.failure_of(call).code == DEADLINE_EXCEEDED
    assert client.failure("Program.Describe", program=program).code == DEADLINE_EXCEEDED


def test_a_call_that_waits_for_another_has_its_own_deadline(balanced: None, client: RawClient, bystander: Bystander) -> None:
    """An execute waits for an upload that does not come; its deadline does not wait with it."""
    program = client.compile(case("add").text)
    slow = client.new_buffer()
    upload = client.start("Buffer.Upload", buffer=slow, data_bytes=1 << 20, type=dict(dtype=11, dims=[1 << 18]))
    _, call = client.start_execute(program, [slow, slow], deadline_ns=SECOND_NS // 5)
    download = client.start("Buffer.Download", buffer=slow, deadline_ns=SECOND_NS // 5)
    # Where types are known at admission the call may be refused at once; otherwise its time runs out.
    assert client.failure_of(call).code in (DEADLINE_EXCEEDED, INVALID_ARGUMENT)
    assert client.failure_of(download).code == DEADLINE_EXCEEDED
    client.send_items(upload, "Buffer.Upload", b"\1" * (1 << 20), client.hello.upload_credit_bytes)
    client.reply(upload, "Buffer.Upload")
    assert client.download(slow) == b"\1" * (1 << 20)


def test_cancel_ends_what_has_not_ended(own_daemon: Daemon) -> None:
    with own_daemon.connect() as client:
        outputs, call, _ = endless(client)
        assert not client.has_input(0.2)
        client.cancel(call, "Execute.Execute")
        with deadline(2 * PATIENCE, "the answer to a cancel"):
            failed = client.failure_of(call)
        assert failed.code == CANCELLED
        assert client.failure("Buffer.Download", buffer=outputs[0]).code == CANCELLED
        client.cancel(call, "Execute.Execute")
        client.cancel(call, "Execute.Execute")
        assert client.stats().calls_in_flight <= 2


def test_cancel_of_an_upload_and_a_compile_poisons_their_ids(balanced: None, client: RawClient, bystander: Bystander) -> None:
    buffer = client.new_buffer()
    call = client.start("Buffer.Upload", buffer=buffer, data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
    client.send_control(4, call, bulk=bytes(4096), method="Buffer.Upload")
    client.cancel(call, "Buffer.Upload")
    assert client.failure_of(call).code == CANCELLED
    again = client.failure("Buffer.Download", buffer=buffer)
    assert again.code == CANCELLED and again.detail.origin_call == call
    program = client.new_program()
    call = client.start("Program.Compile", program=program, code_bytes=1 << 20)
    client.cancel(call, "Program.Compile")
    assert client.failure_of(call).code == CANCELLED
    assert client.failure("Program.Describe", program=program).code == CANCELLED


def test_cancel_of_what_ended_or_never_was_changes_nothing(balanced: None, client: RawClient, bystander: Bystander) -> None:
    for _ in range(100):
        call = client.start("Runtime.Info")
        client.cancel(call, "Runtime.Info")
        try:
            client.reply(call, "Runtime.Info")
        except CallFailed as failed:
            assert failed.code == CANCELLED
    ended = client.start("Runtime.Info")
    client.reply(ended, "Runtime.Info")
    client.cancel(ended, "Runtime.Info")
    client.cancel(ended, "Buffer.Upload")
    assert client.call("Runtime.Info").pid
    assert client.stats().calls_in_flight <= 1


def test_cancel_races_never_give_two_answers(balanced: None, client: RawClient, bystander: Bystander) -> None:
    program = client.compile(case("add").text)
    arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in case("add").args]
    calls = []
    for round_number in range(300):
        outputs, call = client.start_execute(program, arguments, deadline_ns=(0, 1, 20_000, 10**9)[round_number % 4])
        client.cancel(call, "Execute.Execute")
        calls.append((outputs[0], call))
    answered = 0
    for output, call in calls:
        try:
            client.answer(call)
            assert client.download(output) == case("add").outputs[0].data
        except CallFailed as failed:
            assert failed.code in (CANCELLED, DEADLINE_EXCEEDED)
            assert client.failure("Buffer.Download", buffer=output).code in (CANCELLED, DEADLINE_EXCEEDED)
        answered += 1
    assert answered == 300
    client.call("Session.Sync")
    assert not client.has_input(0.1), "an answer too many"


def test_a_result_of_210_gigabytes(balanced: None, client: RawClient, bystander: Bystander, daemon: Daemon) -> None:
    program = client.compile(case("huge_output").text)
    for _ in range(2):
        with deadline(20 * PATIENCE, "refusing 210 GB"):
            (output,), call = client.start_execute(program, [])
            failed = client.failure_of(call)
        assert failed.code == RESOURCE_EXHAUSTED and failed.message
        assert client.failure("Buffer.Download", buffer=output).code == RESOURCE_EXHAUSTED
    add = client.compile(case("add").text)
    arguments = [client.upload(arg.dtype, arg.dims, arg.data) for arg in case("add").args]
    assert client.download(client.execute(add, arguments)[0]) == case("add").outputs[0].data
    with pjrtd.Client.create(daemon.target) as python:
        with pytest.raises(pjrtd.errors.ResourceExhausted):
            python.compile(case("huge_output").text)()[0].block_until_ready()
        assert python.compile(case("add").text)(*_values())[0].tolist() == [2, 4, 6, 8]


def _values() -> tuple:
    import numpy as np

    value = np.array([1, 2, 3, 4], np.float32)
    return value, value


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stuck_lane_does_not_hold_up_the_end(over: str, number: signal.Signals) -> None:
    with Daemon(over=over, settings={"drain_seconds": 1}) as daemon:
        with daemon.connect() as client:
            _, call, _ = endless(client)
            time.sleep(0.3)
            with deadline(10 * PATIENCE, "stopping with a stuck lane"):
                daemon.stop(number)
            frames = client.receive_until_closed()
            ours = [frame for frame in frames if frame.call == call]
            assert len(ours) <= 1
            for frame in ours:
                detail = pjrtd_error(frame.payload)
                assert detail.code in (UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED), detail


def pjrtd_error(payload: bytes):  # noqa: ANN201
    import wire_messages

    return wire_messages.message_class("Error").FromString(payload)
