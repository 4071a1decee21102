"""The measures that have a bound. Each function measures one group, and returns its rows."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench_context import BENCH_DIR, Context
from bench_frames import Relay, bytes_per_call
from bench_interleave import Contestant, Series, latency_series, pooled_percentiles_us, race
from bench_process import BenchError, Daemon, Side, placed, resident_bytes
from bench_report import Bound, Row

IDLE_CONNECTIONS = 1000
BUSY_CLIENTS = 8
FRAME_CALLS = 1000


def slicer(side: Side, mode: str, duration_ms: int) -> Callable[[], Mapping[str, Any]]:
    return lambda: side.slice(mode, duration_ms)


def python_calls(context: Context) -> list[Row]:
    """`(out,) = exe(a); out.to_host()` on 8 floats."""
    ms = context.settings.slice_ms
    sleeping, polling = context.sleeping(), context.polling()
    with contextlib.ExitStack() as stack:
        sides = [
            context.python_side("pypjrt", "side_pypjrt.py", context.settings.plugin),
            context.python_side("daemon-sleeps", "side_pjrtd.py", sleeping.target),
            context.python_side("both-poll", "side_pjrtd.py", polling.target),
            context.python_side("nobody-polls", "side_pjrtd.py", sleeping.target, "--sleep"),
        ]
        for side in sides:
            stack.enter_context(side)
        results = race({side.name: slicer(side, "execute-fetch", ms) for side in sides}, context.settings.rounds)
    peer = latency_series("pypjrt", results["pypjrt"])

    def row(name: str, kind: str, title: str, polls: str, bound: Bound | None = None) -> Row:
        title = f"Python, execute 8 floats and fetch{title}"
        return Row(name, title, "us", latency_series("pjrtd", results[kind]), peer, bound=bound, polls=polls)

    return [
        row("python-sleeping", "daemon-sleeps", ", daemon sleeps", "client", Bound("<", 0.5, "under 0.5x")),
        row("python-polling", "both-poll", ", as it comes", "daemon and client", Bound("<", 0.25, "under 0.25x")),
        row("python-nobody", "nobody-polls", ", both sleep", "nobody"),
    ]


def frame_sizes(context: Context, daemon: Daemon) -> tuple[int, int]:
    """Bytes of an Execute-and-fetch request, and of its reply, as they travel."""
    relay = Relay(daemon.target, context.scratch)
    with context.c_side("bench_client sizes", "bench_client", relay.target, "--sleep") as client:
        client.count("execute-fetch", 10)
        before = relay.request_bytes, relay.reply_bytes
        client.count("execute-fetch", FRAME_CALLS)
        after = relay.request_bytes, relay.reply_bytes
    return bytes_per_call(before, after, FRAME_CALLS)


Cpus = tuple[int, int] | None


def placements() -> dict[str, Cpus]:
    """Processors of (server, client); None: as the scheduler likes. It must be the same for both contestants, or the
    ratio says nothing. Two that sleep in turn take some 7 us on one core, which never goes idle, and 50-100 us on a
    core each, which has to be woken. Two that poll on one core wait for each other's time slices."""
    cpus = sorted(os.sched_getaffinity(0))
    return {"two-cores": (cpus[0], cpus[-1]), "one-core": (cpus[0], cpus[0]), "free": None}


def placed_slicer(
    side: Side, server_pid: int, mode: str, duration_ms: int, cpus: Cpus
) -> Callable[[], Mapping[str, Any]]:
    def run() -> Mapping[str, Any]:
        with placed({} if cpus is None else {server_pid: cpus[0], side.pid: cpus[1]}):
            return side.slice(mode, duration_ms)

    return run


def c_calls(context: Context) -> list[Row]:
    """Execute 8 floats and fetch in one call, against an echo of the same bytes."""
    ms = context.settings.slice_ms
    polling, sleeping = context.polling(), context.sleeping()
    request, reply = frame_sizes(context, sleeping)
    with contextlib.ExitStack() as stack:
        echo = stack.enter_context(context.c_side("echo", "bench_echo", str(request), str(reply)))
        half = stack.enter_context(context.c_client(polling, spin=False, name="bench_client half"))
        contestants: dict[str, Contestant] = {}
        for name, cpus in placements().items():
            for kind, echo_mode, daemon in (("polling", "spin", polling), ("sleeping", "sleep", sleeping)):
                # A client for each: what it learnt about polling in one placement is wrong in the next.
                side = stack.enter_context(
                    context.c_client(daemon, spin=kind == "polling", name=f"bench_client {kind} {name}")
                )
                if (kind, name) != ("polling", "one-core"):  # each spins for all of its time slice
                    contestants[f"echo {kind} {name}"] = placed_slicer(
                        echo, echo.facts["server_pid"], echo_mode, ms, cpus
                    )
                contestants[f"pjrtd {kind} {name}"] = placed_slicer(side, daemon.pid, "execute-fetch", ms, cpus)
        contestants["echo half"] = slicer(echo, "server-spins", ms)
        contestants["pjrtd half"] = slicer(half, "execute-fetch", ms)
        results = race(contestants, context.settings.rounds)

    def row(name: str, kind: str, title: str, polls: str, bound: Bound | None = None) -> Row:
        peer = results.get(f"echo {kind}")
        return Row(
            name,
            f"C, execute 8 floats and fetch{title}",
            "us",
            latency_series("pjrtd", results[f"pjrtd {kind}"]),
            latency_series(f"socket echo {request}+{reply} B", peer) if peer else None,
            bound=bound,
            polls=polls,
            notes={"request_bytes": request, "reply_bytes": reply},
        )

    return [
        row("c-polling", "polling two-cores", ", a core each", "both sides", Bound("<", 3, "under 3x")),
        row("c-sleeping", "sleeping two-cores", ", a core each", "nobody", Bound("<", 1.5, "under 1.5x")),
        row("c-polling-free", "polling free", ", cores as they come", "both sides"),
        row("c-polling-one-core", "polling one-core", ", on one core", "both sides"),
        row("c-sleeping-free", "sleeping free", ", cores as they come", "nobody"),
        row("c-sleeping-one-core", "sleeping one-core", ", on one core", "nobody"),
        row("c-half", "half", "", "daemon and echo server; clients sleep (bimodal)"),
    ]


def dot_calls(context: Context) -> list[Row]:
    """The same with an 8x8 dot, against jax in process."""
    ms = context.settings.slice_ms
    polling = context.polling()
    with contextlib.ExitStack() as stack:
        jax = stack.enter_context(context.python_side("jax", "side_jax.py"))
        spin = stack.enter_context(context.c_client(polling, spin=True))
        results = race(
            {
                "jax-fetch": slicer(jax, "dot-fetch", ms),
                "pjrtd": placed_slicer(spin, polling.pid, "dot-fetch", ms, placements()["two-cores"]),
                "jax-block": slicer(jax, "dot-block", ms),
            },
            context.settings.rounds,
        )
    ours = latency_series("pjrtd", results["pjrtd"])
    title = "C, 8x8 dot and fetch, a core each"
    return [
        Row(
            "dot-polling",
            title,
            "us",
            ours,
            latency_series("jax, np.asarray(f(y))", results["jax-fetch"]),
            bound=Bound("<", 3, "under 3x"),
            polls="daemon and client",
        ),
        Row(
            "dot-block",
            f"{title}, jax without the fetch",
            "us",
            ours,
            latency_series("jax, block_until_ready", results["jax-block"]),
            polls="daemon and client",
        ),
    ]


def first_result_ms(context: Context, wanted: bytes, script: str, *args: str) -> float:
    """From starting the interpreter to reading its result, which is `wanted`. Its exit is not counted."""
    command = [str(context.settings.python), str(BENCH_DIR / "sides" / script), *args]
    start = time.perf_counter_ns()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=context.env) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        elapsed_ms = (time.perf_counter_ns() - start) / 1e6
        if line != wanted:
            message = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise BenchError(f"{script} printed {line!r}: {message[-1] if message else 'no error'}")
    return elapsed_ms


def first_result(context: Context) -> list[Row]:
    """A fresh process each time; the daemon is warm, the program is compiled anew by both."""
    doubled = b"result [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]\n"
    with context.start_daemon({"max_idle_programs": "0"}) as daemon:
        scripts = {
            "pjrtd": lambda: {"ms": first_result_ms(context, doubled, "first_result_pjrtd.py", daemon.target)},
            "jax": lambda: {"ms": first_result_ms(context, doubled, "first_result_jax.py")},
        }
        race(scripts, 1)  # byte code is compiled and the page cache filled
        results = race(scripts, context.settings.rounds)
    series = {name: Series(name, p50=[one["ms"] for one in slices]) for name, slices in results.items()}
    return [
        Row(
            "first-result",
            "Python, start to first result",
            "ms",
            series["pjrtd"],
            series["jax"],
            comparison="itself",
            bound=Bound("<", 120, "under 120 ms"),
            polls="daemon and client",
        )
    ]


def memory(context: Context) -> list[Row]:
    """Resident memory after one small compile, execute and fetch, in a fresh process each time."""

    def daemon() -> dict[str, int]:
        with context.start_daemon({}) as fresh:
            with context.c_side("bench_client once", "bench_client", fresh.target, "--once"):
                return resident_bytes(fresh.pid)

    def in_process() -> dict[str, int]:
        with context.c_side("bench_inprocess once", "bench_inprocess", context.settings.plugin, "--once") as side:
            return resident_bytes(side.pid)

    results = race({"pjrtd": daemon, "plugin": in_process}, context.settings.rounds)

    def series(name: str, kind: str) -> Series:
        return Series(name, p50=[one[kind] / 1e6 for one in results[name]])

    return [
        Row(
            "memory",
            "resident memory after a small call",
            "MB",
            series("pjrtd", "total"),
            series("plugin", "total"),
            comparison="difference",
            bound=Bound("<", 25, "plugin + 25 MB"),
            polls="nobody",
        ),
        Row(
            "memory-anonymous",
            "of it anonymous (not file pages)",
            "MB",
            series("pjrtd", "anonymous"),
            series("plugin", "anonymous"),
            comparison="difference",
        ),
    ]


def idle_connections(context: Context) -> list[Row]:
    """The daemon's own CPU time under 1000 connections that say nothing."""

    def cpu_percent(daemon: Daemon) -> dict[str, float]:
        time.sleep(0.5)  # what the connecting left to do
        before, start = daemon.figures(), time.monotonic_ns()
        time.sleep(context.settings.idle_s)
        after, stop = daemon.figures(), time.monotonic_ns()
        return {"percent": 100 * (after - before).cpu_ns / (stop - start)}

    windows = 1 if context.settings.quick else 2
    with context.start_daemon({}) as daemon:
        alone = [cpu_percent(daemon) for _ in range(windows)]
        empty_bytes = resident_bytes(daemon.pid)["total"]
        with context.c_side(
            "bench_client idle", "bench_client", daemon.target, "--idle", str(IDLE_CONNECTIONS)
        ) as client:
            connect_us = client.facts["connect_p50_ns"] / 1e3
            crowded = [cpu_percent(daemon) for _ in range(windows)]
            each_kb = (resident_bytes(daemon.pid)["total"] - empty_bytes) / IDLE_CONNECTIONS / 1e3
    return [
        Row(
            "idle-connections",
            f"daemon's CPU, {IDLE_CONNECTIONS} idle connections, {context.settings.idle_s:g} s",
            "% of a core",
            Series("pjrtd", p50=[one["percent"] for one in crowded]),
            Series("no connection", p50=[one["percent"] for one in alone]),
            comparison="itself",
            bound=Bound("<", 1, "under 1 %"),
            polls="nobody",
        ),
        Row("connect", "connect and Hello, C", "us", Series("pjrtd", p50=[connect_us]), comparison="itself"),
        Row("connection-memory", "daemon's memory a connection", "kB", Series("pjrtd", p50=[each_kb]), comparison="itself"),
    ]


def _together(sides: list[Side], mode: str, duration_ms: int, folder: Path) -> dict[str, Any]:
    """One slice of every side at the same time."""
    paths = [folder / f"samples-{i}" for i in range(len(sides))]
    for side, path in zip(sides, paths, strict=True):
        side.send(f"slice {mode} {duration_ms} {path}")
    answers = [side.receive() for side in sides]
    rates = [one["count"] / one["elapsed_ns"] * 1e9 for one in answers]
    p50, p99 = pooled_percentiles_us(paths)
    return {"rates": rates, "total": sum(rates), "p50_us": p50, "p99_us": p99}


def _busy_rows(
    context: Context, prefix: str, language: str, start: Callable[[int], Side], polls: str, bounded: bool
) -> list[Row]:
    ms = context.settings.slice_ms
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(start(i)) for i in range(BUSY_CLIENTS)]
        results = race(
            {
                "one": lambda: _together(sides[:1], "execute-fetch", ms, context.scratch),
                "all": lambda: _together(sides, "execute-fetch", ms, context.scratch),
            },
            context.settings.rounds,
        )
    one, everyone = results["one"], results["all"]
    per_client = [sorted(r["rates"]) for r in everyone]
    return [
        Row(
            f"{prefix}-rate",
            f"{BUSY_CLIENTS} busy {language} clients, total rate",
            "calls/s",
            Series("8 clients", p50=[r["total"] for r in everyone]),
            Series("1 client", p50=[r["total"] for r in one]),
            bound=Bound(">=", 1, "at least 1x") if bounded else None,
            polls=polls,
            notes={"per_client_rates": per_client},
        ),
        Row(
            f"{prefix}-p99",
            f"{BUSY_CLIENTS} busy {language} clients, p99 against p50",
            "us",
            Series("p99", p50=[r["p99_us"] for r in everyone]),
            Series("p50", p50=[r["p50_us"] for r in everyone]),
            bound=Bound("<", 10, "under 10x") if bounded else None,
            polls=polls,
        ),
    ]


def busy_clients(context: Context) -> list[Row]:
    """Eight processes that call as fast as they can, against one."""
    polling = context.polling()
    return [
        *_busy_rows(
            context,
            "busy-c",
            "C",
            lambda i: context.c_client(polling, spin=True, name=f"busy-c-{i}"),
            "daemon and clients",
            bounded=True,
        ),
        *_busy_rows(
            context,
            "busy-c-sleeping",
            "sleeping C",
            lambda i: context.c_client(polling, spin=False, name=f"busy-c-sleeping-{i}"),
            "daemon; clients sleep",
            bounded=False,
        ),
        *_busy_rows(
            context,
            "busy-python",
            "Python",
            lambda i: context.python_side(f"busy-python-{i}", "side_pjrtd.py", polling.target),
            "daemon and clients",
            bounded=False,
        ),
    ]
