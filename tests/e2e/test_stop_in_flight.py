"""Signals while work is under way, over each transport: what runs ends or is told, new work is refused, nothing is left."""

from __future__ import annotations

import os
import signal
import struct
import time

import pytest

import wire_messages as wire
from case_programs import case, nested_ifs, stepped
from daemon import PATIENCE, Daemon
from raw_frames import CANCELLED, ERROR, REPLY, UNAVAILABLE, Frame, RawClient, deadline

RUN_OVER = ["unix", "channel"]

STEPS = 200_000_000  # half a second and more


def long_execute(client: RawClient) -> int:
    program = client.compile(case("stepped_loop").text)
    number, start = client.upload("s32", [], struct.pack("<i", STEPS)), client.upload("u32", [], bytes(4))
    _, call = client.start_execute(program, [number, start], outputs=[], fetch=[0])
    client.call("Runtime.Info")
    return call


def error_code(frame: Frame) -> int:
    assert frame.kind == ERROR
    return wire.message_class("Error").FromString(frame.payload).code


def nothing_is_left(daemon: Daemon) -> None:
    """No socket, and no file that was being written."""
    assert not daemon.socket_path.exists()
    files = [name for _, _, names in os.walk(daemon.folder / "cache") for name in names]
    assert not [name for name in files if "tmp" in name or name.startswith(".")], files


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_execution_ends_and_new_work_is_refused(over: str, number: signal.Signals) -> None:
    with Daemon(over=over, settings={"drain_seconds": 20}) as daemon, daemon.connect() as client, daemon.connect() as other:
        call = long_execute(client)
        daemon.signal(number)
        time.sleep(0.05)
        late = [client.start("Buffer.Upload", bytes(4), buffer=client.new_buffer(), data_bytes=4, type=dict(dtype=11, dims=[1])),
                client.start_compile(case("add").text)[1]]
        refused = other.failure("Session.Slots")
        assert refused.code == UNAVAILABLE and refused.hint, refused.detail
        with pytest.raises(Exception):  # noqa: B017 - no socket, no listener: each transport has its own error
            daemon.connect(timeout=2).close()
        answers = {got.call: got for got in client.receive_until_closed()}
        assert answers[call].kind == REPLY and answers[call].bulk == struct.pack("<I", stepped(STEPS, 0))
        assert [error_code(answers[each]) for each in late] == [UNAVAILABLE] * 2
        assert daemon.wait(20) == 0
        nothing_is_left(daemon)


def test_a_compile_ends_within_the_grace_time(over: str) -> None:
    with Daemon(over=over, settings={"drain_seconds": 60}) as daemon, daemon.connect() as client:
        _, call = client.start_compile(nested_ifs(60))
        client.call("Runtime.Info")
        daemon.signal(signal.SIGTERM)
        (answer,) = [got for got in client.receive_until_closed() if got.call == call]
        assert answer.kind == REPLY
        assert daemon.wait(60) == 0
        nothing_is_left(daemon)


@pytest.mark.parametrize("signals", [1, 2])
def test_what_does_not_end_in_time_holds_nobody_up(over: str, signals: int) -> None:
    """A compile of seconds, with a grace time of one second; or with a minute, and a second signal."""
    with Daemon(over=over, settings={"drain_seconds": 1 if signals == 1 else 60}) as daemon, daemon.connect() as client:
        _, call = client.start_compile(nested_ifs(300))
        client.call("Runtime.Info")
        with deadline(6 * PATIENCE, "the stop"):
            for _ in range(signals):
                daemon.signal(signal.SIGTERM)
                time.sleep(0.2)
            answers = [got for got in client.receive_until_closed() if got.call == call]
            assert daemon.wait(20) == 0
        assert [error_code(answer) for answer in answers] in ([], [UNAVAILABLE], [CANCELLED])
        nothing_is_left(daemon)


def test_hangup_disturbs_nothing(over: str) -> None:
    with Daemon(over=over) as daemon, daemon.connect() as client:
        call = long_execute(client)
        for _ in range(3):
            daemon.signal(signal.SIGHUP)
            time.sleep(0.02)
        assert daemon.log().count("configuration reloaded") == 3
        assert client.answer(call).bulk == struct.pack("<I", stepped(STEPS, 0))
        assert client.download(client.upload("u8", [3], b"abc")) == b"abc"
