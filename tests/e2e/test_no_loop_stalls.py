"""Beside a well-behaved client: a program of a second, one that never ends, a slow compile and an upload of 256 MB. The
loop never stalls, and every value is right."""

from __future__ import annotations

import multiprocessing
import statistics
import struct
import time

import pytest

from bystander import Bystander
from case_programs import case, nested_ifs, stepped
from daemon import PATIENCE, Daemon
from grpc_bridges import connect
from raw_frames import DEADLINE_EXCEEDED, RawClient

RUN_OVER = ["unix", "channel"]

MIB = 1 << 20


def steps_for_a_second(client: RawClient, program: int) -> int:
    """How many steps of the counted loop take about a second here."""
    count = 10_000_000
    number, start = client.upload("s32", [], struct.pack("<i", count)), client.upload("u32", [], bytes(4))
    client.execute(program, [number, start])
    began = time.monotonic()
    client.execute(program, [number, start])
    return min(2**31 - 1, int(count / (time.monotonic() - began)))


def a_program_of_a_second(target: str, over: str) -> None:
    with connect(target, over, timeout=60 * PATIENCE) as client:
        program = client.compile(case("stepped_loop").text)
        count = steps_for_a_second(client, program)
        number, start = client.upload("s32", [], struct.pack("<i", count)), client.upload("u32", [], struct.pack("<I", 3))
        (result,) = client.execute(program, [number, start])
        assert struct.unpack("<I", client.download(result)) == (stepped(count, 3),)


def a_program_without_end(target: str, over: str) -> None:
    with connect(target, over, timeout=60 * PATIENCE) as client:
        program = client.compile(case("endless_loop").text)
        argument = client.upload("s32", [], struct.pack("<i", 3))
        _, call = client.start_execute(program, [argument], deadline_ns=2 * 10**9)
        assert client.failure_of(call).code == DEADLINE_EXCEEDED


def an_upload_of_256_megabytes(target: str, over: str) -> None:
    with connect(target, over, timeout=60 * PATIENCE) as client:
        size = 256 * MIB
        data = bytes(range(256)) * (size // 256)
        buffer = client.upload("u8", [size], data)
        assert client.download(buffer) == data
        client.call("Buffer.Delete", buffers=[buffer])


def a_slow_compile(target: str, over: str) -> None:
    with connect(target, over, timeout=120 * PATIENCE) as client:
        client.compile(nested_ifs(90))


@pytest.fixture
def own_daemon(over: str):
    with Daemon(over=over, settings={"drain_seconds": 1}) as started:
        yield started


DISTURBANCES = [a_program_of_a_second, a_program_without_end, an_upload_of_256_megabytes, a_slow_compile]


def disturb(daemon: Daemon, disturbances: list) -> tuple[int, str]:
    """Runs them beside a well-behaved client; (stalls of the loop, what that client saw). Wrong values fail."""
    with Bystander(daemon) as other:
        other.check()
        before = daemon.stats()
        other.run_in_background()
        # Processes of their own: this one's interpreter lock would delay the well-behaved client.
        context = multiprocessing.get_context("spawn")
        others = [context.Process(target=work, args=(daemon.address(daemon.over), daemon.over)) for work in disturbances]
        for process in others:
            process.start()
        for process in others:
            process.join(120 * PATIENCE)
            assert process.exitcode == 0
        other.finish()
        after = daemon.stats()
        latencies = sorted(other.latencies)
        assert len(latencies) > 20, "the well-behaved client hardly got on"
        report = (f"{len(latencies)} rounds, p50 {statistics.median(latencies) * 1e3:.2f} ms, "
                  f"p99 {latencies[len(latencies) * 99 // 100] * 1e3:.2f} ms, longest {latencies[-1] * 1e3:.1f} ms, "
                  f"longest turn {after.loop_longest_turn_ns / 1e6:.2f} ms")
        return after.loop_stalls - before.loop_stalls, report


@pytest.mark.over("unix")
@pytest.mark.parametrize("disturbances", [[one] for one in DISTURBANCES], ids=lambda one: one[0].__name__)
def test_the_loop_does_not_stall(own_daemon: Daemon, disturbances: list, record_property) -> None:  # noqa: ANN001
    expect_no_stall(own_daemon, disturbances, record_property)


def test_the_loop_does_not_stall_under_all_of_it(own_daemon: Daemon, record_property) -> None:  # noqa: ANN001
    expect_no_stall(own_daemon, DISTURBANCES, record_property)


def expect_no_stall(own_daemon: Daemon, disturbances: list, record_property) -> None:  # noqa: ANN001
    """A stall is what the loop itself did or waited for (daemon/state/turn.c): that the machine was busy is no excuse."""
    stalls, report = disturb(own_daemon, disturbances)
    record_property("bystander", f"{stalls} stalls; {report}")
    print(report)
    if PATIENCE == 1:  # a sanitizer slows the loop itself down
        assert stalls == 0, report + "\n" + own_daemon.log()
