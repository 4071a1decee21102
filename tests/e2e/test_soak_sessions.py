"""16 sessions in mixed use for minutes: executions, slots fed back, runs that are streamed, cancelled and stopped, compiles,
megabytes up and down; connections that come, go, are cut and join. No reply is lost, no value wrong, the loop never stalls,
and nothing grows.

PJRTD_SOAK_SECONDS sets how long (default 600)."""

from __future__ import annotations

import json
import os
import pathlib
import random
import time
from collections import Counter

import pytest

from daemon import PATIENCE, Daemon
from test_fake_plugin_events import wait_until
from workers import Workers

SECONDS = float(os.environ.get("PJRTD_SOAK_SECONDS", "600"))
MIB = 1 << 20

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


@pytest.mark.soak
def test_16_sessions_in_mixed_use(tmp_path: pathlib.Path, record_property) -> None:  # noqa: ANN001
    assert sum(count for _, _, count in SESSIONS) == 16
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Daemon(over="channel", settings={"log_level": "warning"}) as daemon:
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
        if PATIENCE == 1:  # what the loop itself did or waited for (daemon/state/turn.c): a busy machine is no excuse
            assert stats.loop_stalls == 0, line + "\n" + daemon.log()
