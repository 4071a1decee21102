"""Calls that the plugin never gives back: told in the statistics and the log, and where on_stuck is exit, the end of the
daemon, so that its supervisor starts another."""

from __future__ import annotations

import json
import re
import signal
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bystander import Bystander
from daemon import PATIENCE, Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import RESOURCE_EXHAUSTED, UNAVAILABLE, Closed, RawClient
from test_call_deadlines import endless
from test_fake_plugin_events import BIG, EXECUTE, arguments, wait_until
from test_pjrtctl import output

RUN_OVER = ["unix", "channel"]

READY = health_pb2.HealthCheckRequest(service="pjrtd.v1.Runtime")
# So much that what others do of right is never taken for stuck; a lane is given up after ten times as long.
QUICK = {"max_stuck": 2, "lane_stall_ms": 100, "drain_seconds": 2}


def stuck(daemon: Daemon) -> int:
    return sum(lane.stuck for lane in daemon.stats().lanes)


def fill(daemon: Daemon, client: RawClient) -> list[int]:
    """As many endless calls as a device may have."""
    calls = [endless(client)[1] for _ in range(QUICK["max_stuck"])]
    wait_until(lambda: stuck(daemon) == len(calls))
    return calls


def test_it_is_reported_and_nothing_else(over: str) -> None:
    with Daemon(over=over, settings=QUICK) as daemon, Bystander(daemon) as other, daemon.connect() as client:
        fill(daemon, client)
        time.sleep(1.5)
        assert [lane["stuck"] for lane in json.loads(output(daemon, "stats", "--json"))["lanes"]][0] == 2
        header, first = output(daemon, "stats").splitlines()[-len(daemon.stats().lanes) - 1 :][:2]
        assert first[: header.index("STUCK") + len("STUCK")].split()[-1] == "2", "its column in the table"
        assert daemon.log().count('takes its lane over" lane="open-0"') == 2
        other.check()
        assert client.failure_of(endless(client)[1]).code == RESOURCE_EXHAUSTED
        assert client.download(client.upload("u8", [3], b"abc")) == b"abc"


def test_it_ends_the_daemon_where_that_is_wanted(over: str) -> None:
    """What others have under way is done, new work is refused, health says so, and the exit code is not 0."""
    with Daemon(over=over, grpc=True, settings=QUICK | {"on_stuck": "exit"}) as daemon:
        with grpc.insecure_channel(daemon.grpc_target.removeprefix("grpc://")) as channel, daemon.connect() as client, \
                daemon.connect() as other:
            watch = iter(health_pb2_grpc.HealthStub(channel).Watch(READY, timeout=30 * PATIENCE))
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            kept = other.upload("u8", [3], b"abc")
            half = other.start("Buffer.Upload", buffer=other.new_buffer(), data_bytes=1 << 20, type=dict(dtype=6, dims=[1 << 20]))
            calls = fill(daemon, client)
            filled = time.monotonic()
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            assert time.monotonic() - filled > 0.5, "a long program would have had no time to come back"
            assert other.failure("Buffer.Download", buffer=kept).code == UNAVAILABLE
            other.send_items(half, "Buffer.Upload", bytes(1 << 20), other.hello.upload_credit_bytes)
            other.reply(half, "Buffer.Upload")
            assert daemon.wait(20) == 1
            with pytest.raises(Closed):
                client.answer(calls[0])
        log = daemon.log()
        assert re.search(r'a device is stuck, and on_stuck is exit" lane="open-0" stuck=2 ', log), log
        assert not daemon.socket_path.exists()


@pytest.mark.over("unix")
def test_a_long_program_that_comes_back_is_not_stuck() -> None:
    with FakeDaemon(settings=QUICK | {"on_stuck": "exit", "max_stuck": 1}) as daemon, daemon.connect() as client:
        given = arguments(client)
        made = client.compile(program(script=f"{EXECUTE}=hold", loops=True))
        for _ in range(3):
            daemon.hold()
            _, call = client.start_execute(made, given)
            wait_until(lambda: stuck(daemon) == 1)
            time.sleep(0.4)
            daemon.release()
            client.answer(call)
        assert client.download(given[0]) and stuck(daemon) == 0
        daemon.check_alive()


@pytest.mark.over("unix")
@pytest.mark.parametrize("on_stuck", ["report", "exit"])
def test_a_device_that_does_not_come_back_is_stuck_too(on_stuck: str) -> None:
    """The plugin's call returned, what it began does not end, and others wait for the device."""
    with FakeDaemon(settings=QUICK | {"on_stuck": on_stuck, "max_stuck": 1}) as daemon, daemon.connect() as client, \
            daemon.connect() as other:
        held = client.compile(program(script=f"{EXECUTE}=event_hold", loops=True))
        calls = [client.start_execute(held, arguments(client))[1] for _ in range(2)]
        wait_until(lambda: daemon.stats().lanes[0].outstanding == 2)
        quick, given = other.compile(program(loops=True)), arguments(other)
        _, call = other.start_execute(quick, given)
        assert other.failure_of(call).code == RESOURCE_EXHAUSTED
        if on_stuck == "exit":
            assert daemon.wait(20) == 1
            assert "a device is stuck, and on_stuck is exit" in daemon.log()
        else:
            wait_until(lambda: stuck(daemon) == 1)
            assert "a device does not come back" in daemon.log()
            daemon.release()
            for call in calls:
                client.answer(call)
            other.answer(other.start_execute(quick, given)[1])
            assert stuck(daemon) == 0


@pytest.mark.over("unix")
def test_copies_that_are_stuck_are_told_too() -> None:
    with FakeDaemon(platform="elsewhere", settings=QUICK) as daemon, daemon.connect() as client:
        buffer = client.upload("f32", [BIG], bytes(4 * BIG))
        daemon.script("Buffer_ToHostBuffer=hold")
        call = client.start("Buffer.Download", buffer=buffer)
        wait_until(lambda: stuck(daemon) == 1)
        daemon.release()
        assert client.finish_download(call) == bytes(4 * BIG)
        wait_until(lambda: stuck(daemon) == 0)


@pytest.mark.over("unix")
def test_what_is_to_be_done_is_reloaded() -> None:
    daemon = Daemon(settings=QUICK)
    config = daemon.folder / "pjrtd.conf"
    config.write_text("on_stuck = report\n")
    daemon.command += ["--config", str(config)]
    with daemon, daemon.connect() as client:
        fill(daemon, client)
        time.sleep(1.5)
        daemon.check_alive()
        config.write_text("on_stuck = exit\n")
        daemon.signal(signal.SIGHUP)
        assert daemon.wait(20) == 1
        assert 'name="on_stuck"' in daemon.log()


@pytest.mark.over("unix")
def test_a_stop_that_was_asked_for_stays_one() -> None:
    """A device gets stuck while the daemon drains: it ends with 0, as it was asked to."""
    with Daemon(settings=QUICK | {"on_stuck": "exit", "drain_seconds": 3}) as daemon, daemon.connect() as client:
        for _ in range(QUICK["max_stuck"]):
            endless(client)
        daemon.stop()
