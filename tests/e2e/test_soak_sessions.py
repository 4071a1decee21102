"""16 sessions in mixed use for minutes: executions, slots fed back, runs that are streamed, cancelled and stopped, compiles,
megabytes up and down; connections that come, go, are cut and join. No reply is lost, no value wrong, the loop hardly
ever stalls, and nothing grows. The 16 clients take the cores, so that a thread that holds a lock may be kept from going on, with
whoever waits for it: the daemon has the better nice value that is recommended for such a host.

PJRTD_SOAK_SECONDS sets how long (default 600)."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import time
from collections import Counter

import pytest

from daemon import PATIENCE, Daemon
from test_fake_plugin_events import wait_until
from workers import Workers

SECONDS = float(os.environ.get("PJRTD_SOAK_SECONDS", "600"))
MIB = 1 << 20
# As deploy/pjrtd.conf recommends for a host whose cores are all busy.
NICE = -10
# Of all turns, those that took over 5 ms.
MOST_STALLS = 1 / 10000

# Kind of client (killable_worker.py), what it reaches the daemon over, how many.
SESSIONS = [("long-unix", "unix", 6), ("long-channel", "channel", 6), ("python", "unix", 2), ("python", "channel", 2)]
KINDS = {"execute", "feed_back", "run_streamed", "run_until", "run_cancelled", "compile", "bulk", "refused", "attach", "take_over",
         "resume", "join"}


def work(daemon: Daemon, folder: pathlib.Path, seed: int, seconds: float) -> Counter[str]:
    """What the long sessions did, together."""
    folder.mkdir()
    workers = Workers(folder)
    try:
        pids = [workers.start(daemon, kind, over, seed + 100 * place + number, f"{kind}-{over}-{number}")
                for place, (kind, over, count) in enumerate(SESSIONS) for number in range(count)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(1.0, seconds))
            daemon.check_alive()
            assert not workers.faults(), workers.faults()
        workers.finish(pids)
    finally:
        workers.close()
    done = [Counter(json.loads(path.read_text())) for path in folder.glob("done-*")]
    assert len(done) == 12 and min(each.total() for each in done) > 0, done
    return sum(done, Counter())


def check_stalls(log: str, turns: int) -> None:
    """For what a request takes, the loop waits for no lock whose holder could lose its core but the plugin's and gRPC's own. Where
    that happens, and all cores are busy, it is for one of the kernel's ticks or two (4 ms each): seldom."""
    stalls = [(int(us), waited == "true") for us, waited in re.findall(r"a turn of the loop took long\" us=(\d+) waited=(\w+)", log)]
    print(f"{len(stalls)} turns of {turns} took over 5 ms: {stalls}")
    if PATIENCE == 1:  # a sanitizer slows the loop itself down
        assert len(stalls) <= 1 + turns * MOST_STALLS, log


@pytest.mark.soak
def test_16_sessions_in_mixed_use(tmp_path: pathlib.Path, record_property) -> None:  # noqa: ANN001
    assert sum(count for _, _, count in SESSIONS) == 16
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Daemon(over="channel", settings={"log_level": "warning"}, wrapper=["nice", "-n", str(NICE)]) as daemon:
        assert os.getpriority(os.PRIO_PROCESS, daemon.pid) == NICE, "this takes root, or CAP_SYS_NICE"
        work(daemon, tmp_path / "first", seed, SECONDS / 4)  # the plugin's and the allocator's own caches fill
        before = daemon.settled(seconds=20)
        resident, descriptors, threads = daemon.resident_bytes(), daemon.descriptors(), daemon.steady_threads()
        done = work(daemon, tmp_path / "second", seed + 10_000, SECONDS * 3 / 4)
        daemon.expect_balance(before, seconds=20)
        grown, stats = daemon.resident_bytes() - resident, daemon.stats()
        line = (f"{dict(done)}; {stats.calls_total} calls, {stats.loop_turns} turns, longest {stats.loop_longest_turn_ns / 1e6:.2f} ms; "
                f"{grown / MIB:.1f} MiB more")
        print(line)
        record_property("sessions", line)
        assert set(done) == KINDS
        assert not stats.wire_errors and not stats.clients_cut_off and not any(lane.stuck for lane in stats.lanes)
        assert grown < 32 * MIB, line
        wait_until(lambda: daemon.descriptors() <= descriptors)
        wait_until(lambda: daemon.steady_threads() <= threads)
        check_stalls(daemon.log(), stats.loop_turns)
