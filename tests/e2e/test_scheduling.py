"""Sessions share a device: evenly by the time that their programs take, by priority, and a small program waits for the
running one only. Times are compared with each other, or taken from the daemon's own account."""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import struct
import time
from collections.abc import Iterator

import pytest

from case_programs import case
from daemon import PATIENCE, Daemon
from raw_frames import (CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT,
                        PERMISSION_DENIED, RawClient)

LOW, NORMAL, HIGH = 1, 2, 3


class Looper:
    """A client with a program that takes about as long as is wanted: a loop, which runs on the open lane."""

    def __init__(self, client: RawClient, milliseconds: float) -> None:
        self.client = client
        self.program = client.compile(case("stepped_loop").text)
        self.start_value = client.upload("u32", [], bytes(4))
        steps, self.steps = 200_000, 0
        quickest_ns = min(self._timed(steps) for _ in range(5))
        steps = max(1, int(steps * milliseconds * 1e6 / quickest_ns))
        self.steps = client.upload("s32", [], struct.pack("<i", steps))
        self.run()

    def _timed(self, steps: int) -> int:
        self.steps = self.client.upload("s32", [], struct.pack("<i", steps))
        return self.run()

    def start(self, **options: int) -> int:
        return self.client.start("Execute.Execute", program=self.program, args=[self.steps, self.start_value], fetch=[0],
                                 **options)

    def finish(self, call: int) -> int:
        """The nanoseconds that it took."""
        return int(self.client.reply(call, "Execute.Execute").execute_ns)

    def run(self) -> int:
        return self.finish(self.start())


# How long a client may get no core on a busy machine: it has so much under way, or it would not want its share.
AHEAD_MS = 400


def keep_running(target: str, milliseconds: float, ready, stop, longest_ns) -> None:
    """One after the other, until it is told to stop."""
    with RawClient(target, timeout=60 * PATIENCE) as client:
        looper = Looper(client, milliseconds)
        client.call("Session.Open", name=f"{milliseconds:g}ms", ttl_ns=1)
        ready.wait()
        calls = [looper.start() for _ in range(int(AHEAD_MS / milliseconds) + 2)]
        while not stop.is_set():
            longest_ns.value = max(longest_ns.value, looper.finish(calls.pop(0)))
            calls.append(looper.start())
        for call in calls:
            looper.finish(call)


@contextlib.contextmanager
def running(daemon: Daemon, *milliseconds: float) -> Iterator[list]:
    """Processes of their own that keep running programs of such a length: this one's interpreter lock would delay them.
    Gives what the longest one of each took, in nanoseconds (`value`)."""
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Barrier(len(milliseconds) + 1), context.Event()
    longest = [context.Value("Q") for _ in milliseconds]
    workers = [context.Process(target=keep_running, args=(str(daemon.socket_path), one, ready, stop, value))
               for one, value in zip(milliseconds, longest, strict=True)]
    for worker in workers:
        worker.start()
    try:
        ready.wait(60 * PATIENCE)
        yield longest
    finally:
        stop.set()
        for worker in workers:
            worker.join(60 * PATIENCE)
            assert worker.exitcode == 0


def device_times(daemon: Daemon) -> dict[str, int]:
    """By the session's name."""
    with daemon.connect() as client:
        return {one.name: one.device_ns for one in client.call("Session.List").sessions if one.name}


def shares(daemon: Daemon, seconds: float, *milliseconds: float) -> tuple[list[float], float]:
    """What part of the device's time each has, by the daemon's account; and how far that may be off, since programs count
    when they end."""
    with running(daemon, *milliseconds) as longest:
        time.sleep(0.3)
        before = device_times(daemon)
        time.sleep(seconds)
        after = device_times(daemon)
    times = [after[f"{one:g}ms"] - before[f"{one:g}ms"] for one in milliseconds]
    return [one / sum(times) for one in times], max(value.value for value in longest) / sum(times)


def test_programs_of_1_ms_and_of_50_ms_have_the_same_share(daemon: Daemon) -> None:
    (short, long), error = shares(daemon, 5, 1, 50)
    assert abs(short - long) <= 0.1 + 2 * error, (short, long, error)


def test_three_sessions_have_a_third_each(daemon: Daemon) -> None:
    all_shares, error = shares(daemon, 4, 1, 10, 40)
    assert max(all_shares) - min(all_shares) <= 0.1 + 2 * error, (all_shares, error)


@pytest.mark.parametrize("milliseconds", [0.02, 0.5])
def test_a_small_execute_waits_for_one_running_program_at_most(daemon: Daemon, milliseconds: float) -> None:
    def latencies(looper: Looper, count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            looper.run()
            seconds.append(time.perf_counter() - began)
            time.sleep(0.004)
        return seconds

    with daemon.connect() as client, daemon.connect() as other:
        small, long = Looper(client, milliseconds), Looper(other, 10)
        idle = statistics.median(latencies(small, 60))
        calls: list[int] = []
        took_ns: list[int] = []
        beside: list[float] = []
        for _ in range(40):
            while len(calls) < 8:
                calls.append(long.start())
            beside += latencies(small, 1)
            while len(calls) > 4:
                took_ns.append(long.finish(calls.pop(0)))
        for call in calls:
            long.finish(call)
    program = max(took_ns) / 1e9
    assert statistics.median(beside) <= 3 * idle + program, (idle, beside, program)


def test_a_session_of_a_higher_priority_goes_first(daemon: Daemon) -> None:
    with daemon.connect() as one, daemon.connect() as two:
        low, high = Looper(one, 20), Looper(two, 20)
        one.call("Session.Configure", priority=LOW)
        calls = [low.start() for _ in range(12)]
        urgent = [high.start() for _ in range(5)]
        for call in urgent:
            high.finish(call)
        (session,) = [s for s in two.call("Session.List").sessions if s.priority == LOW]
        assert session.calls_in_flight >= 8, "what began before, and what began while this was asked"
        two.call("Session.Configure", priority=HIGH)
        assert [s.priority for s in two.call("Session.List").sessions if s.own] == [HIGH]
        for call in calls:
            low.finish(call)


def test_a_high_priority_is_for_the_trusted(daemon: Daemon) -> None:
    with daemon.connect("channel") as client:
        assert client.failure("Session.Configure", priority=HIGH).code == PERMISSION_DENIED
        assert client.failure("Session.Open", priority=HIGH).code == PERMISSION_DENIED
        client.call("Session.Configure", priority=LOW)
        assert [s.priority for s in client.call("Session.List").sessions if s.own] == [LOW]


def test_what_waits_in_a_session_is_withdrawn_with_its_connection(balanced: None, daemon: Daemon) -> None:
    with daemon.connect() as other:
        looper = Looper(other, 5)
        with daemon.connect() as client:
            gone = Looper(client, 30)
            for _ in range(50):
                gone.start()
            time.sleep(0.1)
        looper.run()
        jobs = other.stats().lanes[0].jobs
        for _ in range(20):
            looper.run()
        assert other.stats().lanes[0].jobs - jobs <= 21, "only what ran when the connection went"
        assert other.stats().lanes[0].queued == 0


def test_a_deadline_ends_what_waits_for_its_turn(balanced: None, daemon: Daemon) -> None:
    with daemon.connect() as client, daemon.connect() as other:
        mine, theirs = Looper(client, 5), Looper(other, 200)
        call = theirs.start()
        time.sleep(0.02)
        late, fine = mine.start(deadline_ns=30_000_000), mine.start()
        assert client.failure_of(late).code == DEADLINE_EXCEEDED
        mine.finish(fine)
        theirs.finish(call)


@pytest.fixture(scope="module")
def asynchronous() -> Iterator[Daemon]:
    with Daemon(settings={"option": "asynchronous=true", "max_device_executions": 3}) as started:
        yield started


def test_a_device_that_goes_on_by_itself_has_no_more_than_it_may(asynchronous: Daemon) -> None:
    with asynchronous.connect() as client, asynchronous.connect() as other:
        looper = Looper(client, 0.05)
        most = 0
        for _ in range(20):
            calls = [looper.start() for _ in range(50)]
            most = max(most, *(lane.outstanding for lane in other.stats().lanes))
            for call in calls:
                looper.finish(call)
        assert most <= 4, "the limit, and one that was being given to it"


def test_a_device_that_goes_on_by_itself_is_shared(asynchronous: Daemon) -> None:
    (short, long), error = shares(asynchronous, 4, 1, 30)
    assert abs(short - long) <= 0.2 + 2 * error, (short, long, error)


def test_a_run_has_its_sessions_share_too(daemon: Daemon) -> None:
    with daemon.connect() as client:
        looper = Looper(client, 0.2)
        client.call("Session.Open", name="run", ttl_ns=1)
        call = client.start("Execute.Run", step={"program": looper.program, "args": [looper.steps, looper.start_value]},
                            steps=10**9)
        with running(daemon, 30) as longest:
            time.sleep(0.3)
            before = device_times(daemon)
            time.sleep(4)
            after = device_times(daemon)
        client.cancel(call, "Execute.Run")
        assert client.failure_of(call).code == CANCELLED
    run, other = (after[name] - before[name] for name in ("run", "30ms"))
    error = longest[0].value / (run + other)
    assert abs(run - other) / (run + other) <= 0.1 + 2 * error, (run, other, error)


def test_a_small_execute_does_not_wait_for_the_end_of_a_run(daemon: Daemon) -> None:
    with daemon.connect() as client, daemon.connect() as other:
        small, steps = Looper(client, 0.02), Looper(other, 0.2)
        call = other.start("Execute.Run", step={"program": steps.program, "args": [steps.steps, steps.start_value]},
                           steps=10**9)
        for _ in range(50):
            small.run()
        assert not other.has_input(0.01)
        other.cancel(call, "Execute.Run")
        assert other.failure_of(call).code == CANCELLED


def test_a_session_has_a_home(balanced: None, daemon: Daemon) -> None:
    data = struct.pack("<4f", 1, 2, 3, 4)
    with daemon.connect() as client:
        client.call("Session.Configure", device=2)
        assert [s.home_device for s in client.call("Session.List").sessions if s.own] == [2]
        program, buffer = client.compile(case("add").text), client.upload("f32", [4], data)
        (output,) = client.execute(program, [buffer, buffer])
        assert struct.unpack("<4f", client.download(output)) == (2, 4, 6, 8)
        assert [client.call("Buffer.Stat", buffer=one).device for one in (buffer, output)] == [2, 2]
        assert client.failure("Session.Configure", device=77).code == INVALID_ARGUMENT
        assert client.hello.home_device == 0, "what it was before"
        token = client.call("Session.Open", name="home", ttl_ns=10**10).token
        with daemon.connect() as second:
            assert second.call("Session.Attach", token=token, join=True).home_device == 2


def test_sessions_spread_over_the_devices_where_that_is_set() -> None:
    data = struct.pack("<4f", 1, 2, 3, 4)
    with Daemon(settings={"session_home": "least_loaded"}) as spread, contextlib.ExitStack() as stack:
        homes = []
        told = []
        for _ in range(4):
            client = stack.enter_context(spread.connect())
            told.append(client.hello.home_device)
            program, buffer = client.compile(case("add").text), client.upload("f32", [4], data)
            client.execute(program, [buffer, buffer])
            homes.append(client.call("Buffer.Stat", buffer=buffer).device)
        assert homes == told == [0, 1, 2, 3]
