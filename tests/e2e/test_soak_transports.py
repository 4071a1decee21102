"""100 clients at once on mixed transports for minutes: every value right, nothing left, and how long a small round took.

PJRTD_SOAK_SECONDS sets how long (default 300; below 20 not every client gets its program compiled)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import defaultdict

import pytest

from bystander import Bystander
from daemon import PATIENCE, Daemon, binary_path, clean_environment
from wire_messages import REPOSITORY

SECONDS = float(os.environ.get("PJRTD_SOAK_SECONDS", "300"))
MIB = 1 << 20

# Kind of client (mixed_worker.py), what it reaches the daemon over, how many in one process: processes of their own, since
# threads of one share its interpreter.
WORKERS = [
    *[("python", "unix", 10)] * 2,
    *[("python", "channel", 10)] * 2,
    ("unix", "unix", 10),
    *[("channel", "channel", 10)] * 2,
    *[("unary", "unary", 10)] * 2,
    ("ctl", "unix", 5),
    ("ctl", "channel", 5),
]


def start(daemon: Daemon, seed: int, kind: str, over: str, clients: int) -> subprocess.Popen[str]:
    path = ":".join(str(REPOSITORY / folder) for folder in ("python-client/src", "tests/support"))
    environment = clean_environment({"PYTHONPATH": path, "PJRTD_BINARY": str(binary_path())})
    command = [sys.executable, "-W", "ignore::ResourceWarning", str(REPOSITORY / "tests/support/mixed_worker.py"),
               kind, daemon.address(over), str(clients), str(seed), str(SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.mark.soak
def test_100_clients_on_mixed_transports(record_property) -> None:  # noqa: ANN001
    assert sum(clients for _, _, clients in WORKERS) == 100
    with Daemon(over="channel", settings={"log_level": "warning", "session_lease_seconds": 5}) as daemon:
        with Bystander(daemon) as local, Bystander(daemon, "channel") as remote:
            local.check(), remote.check()
        before = daemon.settled()
        resident = daemon.resident_bytes()
        workers = [start(daemon, seed, *worker) for seed, worker in enumerate(WORKERS)]
        outputs: list[str] = [""] * len(workers)

        def wait(place: int) -> None:
            outputs[place], _ = workers[place].communicate(timeout=SECONDS + 300 * PATIENCE)

        waiting = [threading.Thread(target=wait, args=(place,)) for place in range(len(workers))]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
        latencies: dict[str, list[int]] = defaultdict(list)
        clients: dict[str, list[dict[str, int]]] = defaultdict(list)
        for (kind, over, count), process, output in zip(WORKERS, workers, outputs, strict=True):
            assert process.returncode == 0, f"{kind} over {over}:\n{output[-8000:]}"
            found = json.loads(output.splitlines()[-1])
            assert len(found["clients"]) == count
            latencies[f"{kind} over {over}"] += found["latencies_us"]
            clients[f"{kind} over {over}"] += found["clients"]
        for name, measured in latencies.items():
            ordered = sorted(measured)
            rounds = [client.get("small", 0) for client in clients[name]]
            assert min(rounds) > 0, f"{name}: a client that got nowhere, {rounds}"
            line = (f"{name}: {len(rounds)} clients, {sum(rounds)} rounds, p50 {ordered[len(ordered) // 2] / 1e3:.2f} ms, "
                    f"p99 {ordered[len(ordered) * 99 // 100] / 1e3:.2f} ms, longest {ordered[-1] / 1e3:.0f} ms")
            print(line)
            record_property(name, line)
        daemon.settled(lambda now: now == before, seconds=60)  # sessions of RPCs end by their lease
        grown = daemon.resident_bytes() - resident
        stats = daemon.stats()
        print(f"resident memory grew by {grown / MIB:.0f} MiB; {stats.calls_total} calls, {stats.loop_stalls} turns of the loop over 5 ms")
        assert grown < 300 * MIB * PATIENCE, f"resident memory grew by {grown / MIB:.0f} MiB"
        assert not stats.wire_errors and not stats.clients_cut_off
