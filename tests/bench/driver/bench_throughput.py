"""Rates for information: pipelined executes, uploads and downloads."""

from __future__ import annotations

import contextlib

from bench_context import Context
from bench_interleave import latency_series, race, rate_series, throughput_series
from bench_measures import slicer
from bench_report import Bound, Row

SIZES_MB = (1, 16, 256)


def pipelined(context: Context) -> list[Row]:
    """Small executes without waiting for each: quiet calls, then one Sync."""
    ms = context.settings.slice_ms
    with contextlib.ExitStack() as stack:
        c_client = stack.enter_context(context.c_client(context.polling(), spin=False))
        python = stack.enter_context(context.python_side("pjrtd", "side_pjrtd.py", context.polling().target))
        plugin = stack.enter_context(context.c_side("plugin", "bench_inprocess", context.settings.plugin))
        pypjrt = stack.enter_context(context.python_side("pypjrt", "side_pypjrt.py", context.settings.plugin))
        results = race(
            {
                "c": slicer(c_client, "execute-quiet", ms),
                "feedback": slicer(c_client, "feedback-quiet", ms),
                "futures": slicer(c_client, "execute-pipelined", ms),
                "plugin": slicer(plugin, "execute", ms),
                "python": slicer(python, "execute", ms),
                "pypjrt": slicer(pypjrt, "execute", ms),
            },
            context.settings.rounds,
        )
    polls = "daemon"
    return [
        Row(
            "pipelined-c",
            "C, quiet executes of 8 floats",
            "calls/s",
            rate_series("pjrtd", results["c"]),
            rate_series("plugin in process, one by one", results["plugin"]),
            polls=polls,
        ),
        Row(
            "feedback-c",
            "C, quiet steps: each output is the next argument",
            "steps/s",
            rate_series("pjrtd", results["feedback"]),
            comparison="itself",
            polls=polls,
        ),
        Row(
            "futures-c",
            "C, 64 executes in flight, each fetched",
            "calls/s",
            rate_series("pjrtd", results["futures"]),
            comparison="itself",
            polls=polls,
        ),
        Row(
            "pipelined-python",
            "Python, executes of 8 floats, result not fetched",
            "calls/s",
            rate_series("pjrtd", results["python"]),
            rate_series("pypjrt", results["pypjrt"]),
            polls=polls,
        ),
    ]


def python_steps(context: Context) -> list[Row]:
    """1000 steps from Python, each output the next one's argument, and then a wait for all of them; pypjrt one by one."""
    ms = context.settings.slice_ms
    with contextlib.ExitStack() as stack:
        python = stack.enter_context(context.python_side("pjrtd", "side_pjrtd.py", context.polling().target))
        pypjrt = stack.enter_context(context.python_side("pypjrt", "side_pypjrt.py", context.settings.plugin))
        results = race(
            {
                "advance": slicer(python, "advance-batch", ms),
                "feed-back": slicer(python, "feed-back", ms),
                "pypjrt": slicer(pypjrt, "feed-back", ms),
            },
            context.settings.rounds,
        )

    def row(name: str, title: str, ours: str, limit: float | None) -> Row:
        return Row(
            name,
            f"Python, steps of 8 floats, {title}",
            "us",
            latency_series("pjrtd", results[ours]),
            latency_series("pypjrt, feed_back(step())", results["pypjrt"]),
            bound=None if limit is None else Bound("<", limit, f"under {limit:g}x"),
            polls="daemon",
        )

    return [
        row("steps-python", "one request each: advance()", "advance", 0.2),
        row("steps-python-seed", "feed_back(step())", "feed-back", None),
    ]


def steps(context: Context) -> list[Row]:
    """1000 steps, each output the next one's argument, started together and awaited together, against the plugin's loop."""
    ms = context.settings.slice_ms
    plugin = context.settings.plugin
    with contextlib.ExitStack() as stack:
        local = stack.enter_context(context.c_client(context.polling(), spin=True))
        grpc = stack.enter_context(context.c_side("bench_client steps", "bench_client", context.over_grpc().grpc_target))
        calling = stack.enter_context(context.c_side("plugin steps", "bench_inprocess", plugin, "--calling-thread"))
        asynchronous = stack.enter_context(context.c_side("plugin steps async", "bench_inprocess", plugin))
        results = race(
            {
                "local": slicer(local, "steps", ms),
                "calling": slicer(calling, "steps", ms),
                "grpc": slicer(grpc, "steps", ms),
                "asynchronous": slicer(asynchronous, "steps", ms),
                "run": slicer(local, "run", ms),
                "ids": slicer(local, "feedback-quiet", ms),
            },
            context.settings.rounds,
        )

    def row(name: str, title: str, ours: str, peer: str, limit: float | None) -> Row:
        return Row(
            name,
            f"C, steps of 8 floats, {title}",
            "us",
            latency_series("pjrtd", results[ours]),
            latency_series("plugin in process", results[peer]),
            bound=None if limit is None else Bound("<", limit, f"under {limit:g}x"),
            polls="daemon and client",
        )

    return [
        row("steps-local", "fed back to a slot", "local", "calling", 2),
        row("steps-channel", "fed back to a slot, Channel", "grpc", "calling", 4),
        row("steps-run", "in one pjrtc_run", "run", "calling", None),
        row("steps-ids", "fed back by new ids", "ids", "calling", None),
        row("steps-async", "fed back to a slot, plugin's own threads", "local", "asynchronous", None),
    ]


def runs(context: Context) -> list[Row]:
    """100,000 steps in one call, against the plugin's own loop, and against jax's, both in their own processes."""
    ms = context.settings.slice_ms
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(context.c_client(context.polling(), spin=True))
        plugin = stack.enter_context(
            context.c_side("plugin steps", "bench_inprocess", context.settings.plugin, "--calling-thread")
        )
        jax = stack.enter_context(context.python_side("jax", "side_jax.py"))
        results = race(
            {
                "add": slicer(ours, "run-long-add", ms),
                "plugin-add": slicer(plugin, "steps", ms),
                "jax-add": slicer(jax, "steps-add", ms),
                "dot": slicer(ours, "run-long-dot", ms),
                "plugin-dot": slicer(plugin, "steps-dot", ms),
                "jax-dot": slicer(jax, "steps-dot", ms),
            },
            context.settings.rounds,
        )
    rows = []
    for name, what in (("add", "x + x of 8 floats"), ("dot", "8x8 dot")):
        for peer, title, limit in (("plugin", "plugin in process", 1.3), ("jax", "jax in process", 1.0)):
            rows.append(
                Row(
                    f"run-{name}-{peer}",
                    f"100,000 steps of {what} in one run, each",
                    "us",
                    latency_series("pjrtd", results[name]),
                    latency_series(title, results[f"{peer}-{name}"]),
                    bound=Bound("<", limit, f"under {limit:g}x"),
                    polls="daemon and client",
                )
            )
    return rows


def transfers(context: Context) -> list[Row]:
    """Uploads until the buffer is ready, downloads into touched memory."""
    rows = []
    with contextlib.ExitStack() as stack:
        sides = {
            "c": stack.enter_context(context.c_client(context.polling(), spin=False)),
            "plugin": stack.enter_context(context.c_side("plugin", "bench_inprocess", context.settings.plugin)),
            "python": stack.enter_context(context.python_side("pjrtd", "side_pjrtd.py", context.polling().target)),
            "pypjrt": stack.enter_context(context.python_side("pypjrt", "side_pypjrt.py", context.settings.plugin)),
        }
        rounds = min(context.settings.rounds, 3)
        for direction in ("upload", "download"):
            for mb in SIZES_MB:
                mode = f"{direction}-{mb}"
                results = race(
                    {name: slicer(side, mode, context.settings.slice_ms) for name, side in sides.items()}, rounds
                )
                for language, ours, peer, peer_name in (
                    ("C", "c", "plugin", "plugin in process"),
                    ("Python", "python", "pypjrt", "pypjrt"),
                ):
                    rows.append(
                        Row(
                            f"{mode}-{language.lower()}",
                            f"{language}, {direction} {mb} MB",
                            "GB/s",
                            throughput_series("pjrtd", results[ours], mb << 20),
                            throughput_series(peer_name, results[peer], mb << 20),
                            polls="daemon",
                        )
                    )
    return rows
