"""Minutes of mixed work by several clients, some of which are killed: right values throughout, and nothing that grows.

PJRTD_SOAK_SECONDS sets how long (default 300)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from daemon import PATIENCE, Daemon, clean_environment
from wire_messages import REPOSITORY

SECONDS = float(os.environ.get("PJRTD_SOAK_SECONDS", "300"))
WORKERS = 4
MIB = 1 << 20


def start_worker(daemon: Daemon, seed: int, seconds: float) -> subprocess.Popen[str]:
    """Half of them over gRPC."""
    target = daemon.grpc_target if seed % 2 else daemon.target
    environment = {"PJRTD_TARGET": target, "PYTHONPATH": str(REPOSITORY / "python-client" / "src")}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::ResourceWarning", str(REPOSITORY / "tests" / "support" / "soak_worker.py"),
         str(seed), str(seconds)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean_environment(environment))


def work(daemon: Daemon, seed: int, seconds: float) -> None:
    """All workers at once, and beside them one that is killed in the middle of its work, time and again."""
    workers = [start_worker(daemon, seed + index, seconds) for index in range(WORKERS)]
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        victim = start_worker(daemon, chance.randrange(1 << 30), 3600)
        time.sleep(chance.uniform(0.3, 1.5))
        daemon.check_alive()
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
    for worker in workers:
        output, _ = worker.communicate(timeout=60 * PATIENCE)
        assert worker.returncode == 0, output
        assert "connections=" in output
        print(output, end="")


@pytest.mark.soak
def test_mixed_and_killed_clients_leave_the_daemon_as_it_was():
    with Daemon(settings={"log_level": "warning"}, grpc=True) as daemon:
        work(daemon, 1, SECONDS / 3)  # the plugin's and the allocator's own caches fill
        before = daemon.settled()
        resident, descriptors, threads = daemon.resident_bytes(), daemon.descriptors(), daemon.threads()
        work(daemon, 1000, SECONDS * 2 / 3)
        daemon.expect_balance(before)
        assert daemon.descriptors() <= descriptors
        assert daemon.threads() <= threads
        grown = daemon.resident_bytes() - resident
        assert grown < 64 * MIB, f"resident memory grew by {grown / MIB:.0f} MiB"
