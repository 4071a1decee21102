"""What one call costs beside its time: system calls, context switches, page faults, CPU time, allocations.

No bound hangs on these; they say where the time of the bounded measures goes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench_context import Context
from bench_interleave import Series
from bench_process import BenchError, Daemon, ProcessFigures, Side
from bench_report import Row

CALLS = 10_000
TRACED_CALLS = 2_000

_COUNTERS = struct.Struct("=5Q")  # malloc_counters of bench_malloc_count.c


def _per_call(name: str, title: str, unit: str, value: float, polls: str, notes: dict[str, object] | None = None) -> Row:
    return Row(name, title, unit, Series("pjrtd", p50=[value]), comparison="itself", polls=polls, notes=notes or {})


@contextlib.contextmanager
def _traced(pid: int, report: Path) -> Iterator[None]:
    """Counts the system calls of every thread of `pid` while the block runs."""
    strace = shutil.which("strace")
    if strace is None:
        raise BenchError("strace is not installed")
    tracer = subprocess.Popen(
        [strace, "-c", "-f", "-q", "-p", str(pid), "-o", str(report)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 10
        while any(
            re.search(r"^TracerPid:\t0$", (task / "status").read_text(), re.MULTILINE)
            for task in Path(f"/proc/{pid}/task").iterdir()
        ):
            if tracer.poll() is not None:
                assert tracer.stderr is not None
                raise BenchError(f"strace: {tracer.stderr.read().decode().strip()}")
            if time.monotonic() > deadline:
                raise BenchError("strace did not attach")
            time.sleep(0.01)
        yield
    finally:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=20)


def _parse_strace(report: Path) -> dict[str, int]:
    """Calls by name, of the table that strace -c writes."""
    calls = {}
    for line in report.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[0][0].isdigit() and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = int(fields[3])
    return calls


def _system_calls(context: Context, name: str, pid: int, side: Side, mode: str, polls: str, who: str) -> Row:
    report = context.scratch / f"strace-{name}"
    side.count(mode, 100)
    with _traced(pid, report):
        calls = side.count(mode, TRACED_CALLS)["count"]
    by_name = {call: round(count / calls, 3) for call, count in _parse_strace(report).items()}
    often = {call: each for call, each in sorted(by_name.items(), key=lambda item: -item[1]) if each >= 0.01}
    listed = ", ".join(f"{call} {each:g}" for call, each in often.items())
    return _per_call(
        f"syscalls-{name}", f"system calls a call, {who}: {listed or 'none'}", "", sum(by_name.values()), polls, {"by_name": by_name}
    )


def _kernel_rows(name: str, polls: str, daemon: Daemon, side: Side, mode: str) -> list[Row]:
    side.count(mode, 200)
    before_daemon, before_client = daemon.figures(), ProcessFigures.read(side.pid)
    calls = side.count(mode, CALLS)["count"]
    daemon_spent = daemon.figures() - before_daemon
    client_spent = ProcessFigures.read(side.pid) - before_client
    rows = []
    for who, spent in (("daemon", daemon_spent), ("client", client_spent)):
        rows += [
            _per_call(f"cpu-{name}-{who}", f"CPU time a call, {who}", "us", spent.cpu_ns / calls / 1e3, polls),
            _per_call(f"switches-{name}-{who}", f"context switches a call, {who}", "", spent.switches / calls, polls),
            _per_call(f"faults-{name}-{who}", f"page faults a call, {who}", "", spent.faults / calls, polls),
        ]
    return rows


def kernel_costs(context: Context) -> list[Row]:
    """System calls, context switches, page faults and CPU time of one Execute-and-fetch, C and Python."""
    rows = []
    cases = (
        ("c-polling", context.polling, True, "both"),
        ("c-sleeping", context.sleeping, False, "nobody"),
    )
    for name, daemon_of, spin, polls in cases:
        daemon = daemon_of()
        with context.c_client(daemon, spin=spin) as side:
            rows += _kernel_rows(name, polls, daemon, side, "execute-fetch")
            rows.append(_system_calls(context, f"{name}-daemon", daemon.pid, side, "execute-fetch", polls, "daemon"))
            rows.append(_system_calls(context, f"{name}-client", side.pid, side, "execute-fetch", polls, "client"))
    daemon = context.sleeping()
    with context.python_side("pjrtd-costs", "side_pjrtd.py", daemon.target, "--sleep") as side:
        rows += _kernel_rows("python-sleeping", "nobody", daemon, side, "execute-fetch")
        rows.append(
            _system_calls(context, "python-sleeping-daemon", daemon.pid, side, "execute-fetch", "nobody", "daemon")
        )
        rows.append(_system_calls(context, "python-sleeping-client", side.pid, side, "execute-fetch", "nobody", "client"))
    return rows


def _read_counters(path: Path) -> tuple[int, ...]:
    return _COUNTERS.unpack(path.read_bytes()[: _COUNTERS.size])


def _allocations(name: str, title: str, counters: Path, side: Side, mode: str) -> list[Row]:
    side.count(mode, 2000)
    before = _read_counters(counters)
    calls = side.count(mode, CALLS)["count"]
    program, program_bytes, other, other_bytes, frees = (
        (b - a) / calls for a, b in zip(before, _read_counters(counters), strict=True)
    )
    notes: dict[str, object] = {"program_bytes": program_bytes, "other_bytes": other_bytes, "frees": frees}
    return [
        _per_call(f"allocations-{name}", f"allocations a call, {title}: pjrtd's own code", "", program, "", notes),
        _per_call(f"allocations-{name}-other", f"allocations a call, {title}: plugin and libraries", "", other, "", notes),
    ]


def allocations(context: Context) -> list[Row]:
    """malloc and its kin, counted in the daemon, and in the plugin in process for comparison."""
    preload = context.binary("bench_malloc_count.so")

    def counted(name: str) -> tuple[Path, dict[str, str]]:
        path = context.scratch / f"malloc-{name}"
        return path, {"LD_PRELOAD": str(preload), "PJRTD_BENCH_MALLOC_FILE": str(path)}

    rows = []
    path, env = counted("daemon")
    with context.start_daemon({}, env) as daemon, context.c_client(daemon, spin=False) as side:
        rows += _allocations("execute-fetch", "Execute and fetch", path, side, "execute-fetch")
        rows += _allocations("quiet", "quiet Execute", path, side, "execute-quiet")
    path, env = counted("plugin")
    with Side(
        "bench_inprocess counted",
        [context.binary("bench_inprocess"), context.settings.plugin, "--calling-thread"],
        context.env | env,
        context.scratch,
    ) as side:
        side.count("execute", 2000)
        before = _read_counters(path)
        calls = side.count("execute", CALLS)["count"]
        each = (_read_counters(path)[2] - before[2]) / calls
    rows.append(_per_call("allocations-plugin", "allocations a call, plugin in process, execute only", "", each, ""))
    return rows
