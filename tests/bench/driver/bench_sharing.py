"""How sessions share a device. Not interleaved with a peer: the shares are of one run, and what a small program waits is
held against itself on the idle device."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from bench_context import Context
from bench_interleave import Series, latency_series
from bench_process import BenchError, Daemon, Side
from bench_report import Bound, Row

SHORT_MS, LONG_MS, BESIDE_MS = 1, 50, 10
SECONDS, QUICK_SECONDS = 30, 5


def device_ns(context: Context, daemon: Daemon) -> dict[int, int]:
    """What each client's session had of the device, by the client's process."""
    command = [context.binary("pjrtctl"), "--target", daemon.target, "--json", "session", "ls"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=context.env)
    if told.returncode != 0:
        raise BenchError(f"pjrtctl session ls: {told.stderr.strip()}")
    sessions = json.loads(told.stdout)["sessions"]
    return {connection["pid"]: one["device_ns"] for one in sessions for connection in one["connections"]}


def _shares(context: Context, daemon: Daemon, short: Side, long: Side, mode: str) -> dict[str, float]:
    """In percent of what both had."""
    milliseconds = (QUICK_SECONDS if context.settings.quick else SECONDS) * 1000
    before = device_ns(context, daemon)
    for side in (short, long):
        side.send(f"slice {mode} {milliseconds}")
    for side in (short, long):
        side.receive()
    after = device_ns(context, daemon)
    had = {side.pid: after[side.pid] - before[side.pid] for side in (short, long)}
    total = sum(had.values())
    # A slice is preceded by a tenth of it, which both run, too.
    return {
        "short": 100 * had[short.pid] / total,
        "long": 100 * had[long.pid] / total,
        "busy": total / (milliseconds * 1.1e6) * 100,
    }


def _side(context: Context, daemon: Daemon, milliseconds: float, name: str) -> Side:
    return context.python_side(name, "side_long_programs.py", daemon.target, str(milliseconds))


def _beside(small: Side, long: Side, slice_ms: int) -> Mapping[str, Any]:
    """A small program's slice while the other session runs its programs back to back."""
    long.send(f"slice queued {slice_ms * 2}")
    answer = small.slice("waiting", slice_ms)
    program = long.receive()
    return answer | {"program_ns": program["elapsed_ns"] / program["count"]}


def sharing(context: Context) -> list[Row]:
    """Two sessions with programs of 1 ms and of 50 ms; a small program beside programs of 10 ms."""
    rows = []
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(context.start_daemon({}))
        short = stack.enter_context(_side(context, daemon, SHORT_MS, "short programs"))
        long = stack.enter_context(_side(context, daemon, LONG_MS, "long programs"))
        for mode, how in (("queued", "always queued"), ("waiting", "each waits for its answer")):
            shares = _shares(context, daemon, short, long, mode)
            rows.append(
                Row(
                    f"shares-{mode}",
                    f"device time of a session of {SHORT_MS} ms programs beside one of {LONG_MS} ms, {how}",
                    "%",
                    Series(f"{SHORT_MS} ms", p50=[shares["short"]]),
                    Series(f"{LONG_MS} ms", p50=[shares["long"]]),
                    comparison="difference",
                    bound=Bound("within", 10, "45 to 55 % each"),
                    polls="daemon and clients",
                    notes={"device_busy_percent": shares["busy"]},
                )
            )
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(context.start_daemon({}))
        small = stack.enter_context(_side(context, daemon, 0.05, "small programs"))
        long = stack.enter_context(_side(context, daemon, BESIDE_MS, "10 ms programs"))
        # Long enough for some hundred of the small ones, each of which waits for a long one.
        slice_ms = max(1000, context.settings.slice_ms)
        rounds = min(context.settings.rounds, 3)
        idle, beside = [], []
        for _ in range(rounds):
            idle.append(small.slice("waiting", slice_ms))
            beside.append(_beside(small, long, slice_ms))
        allowed = Series("3 idle latencies and one program")
        for alone, crowded in zip(idle, beside, strict=True):
            allowed.add((3 * alone["p50_ns"] + crowded["program_ns"]) / 1e3)
        rows.append(
            Row(
                "small-beside-long",
                f"a small execute beside {BESIDE_MS} ms programs back to back",
                "us",
                latency_series("pjrtd", beside),
                allowed,
                bound=Bound("<", 1, "under that"),
                polls="daemon and clients",
                notes={"idle": idle, "beside": beside},
            )
        )
    return rows
