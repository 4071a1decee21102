"""The measures over gRPC, against gRPC itself. Each function measures one group, and returns its rows."""

from __future__ import annotations

import contextlib

from bench_context import Context
from bench_interleave import Series, latency_series, race, throughput_series
from bench_measures import placed_slicer, placements, slicer
from bench_report import Bound, Row

SIZES_MB = (1, 16, 256)


def grpc_calls(context: Context) -> list[Row]:
    """C, execute 8 floats and fetch: libpjrtc over Channel, and the method as a unary call, each against the bare echo."""
    ms = context.settings.slice_ms
    daemon = context.over_grpc()
    contestants = {}
    with contextlib.ExitStack() as stack:
        unary = stack.enter_context(context.c_side("bench_grpc unary", "bench_grpc", "pjrtd", daemon.grpc_target))
        sizes = unary.facts["request_bytes"], unary.facts["reply_bytes"]
        echo = stack.enter_context(context.c_side("bench_grpc echo", "bench_grpc", "echo", *map(str, sizes)))
        for name in ("two-cores", "free"):
            cpus = placements()[name]
            channel = stack.enter_context(context.c_side(f"bench_client grpc {name}", "bench_client", daemon.grpc_target))
            for kind in ("stream", "unary"):
                contestants[f"echo {kind} {name}"] = placed_slicer(echo, echo.facts["server_pid"], kind, ms, cpus)
            contestants[f"pjrtd stream {name}"] = placed_slicer(channel, daemon.pid, "execute-fetch", ms, cpus)
            contestants[f"pjrtd unary {name}"] = placed_slicer(unary, daemon.pid, "unary", ms, cpus)
        results = race(contestants, context.settings.rounds)

    def row(name: str, kind: str, place: str, title: str, limit: float, polls: str) -> Row:
        return Row(
            name,
            f"C, execute 8 floats and fetch, {title}",
            "us",
            latency_series("pjrtd", results[f"pjrtd {kind} {place}"]),
            latency_series(f"gRPC C core echo, {kind}", results[f"echo {kind} {place}"]),
            bound=Bound("<", limit, f"under {limit}x"),
            polls=polls,
            notes={"request_bytes": sizes[0], "reply_bytes": sizes[1]},
        )

    both, alone = "daemon and client", "daemon"
    return [
        row("grpc-channel", "stream", "two-cores", "Channel, a core each", 2.5, both),
        row("grpc-unary", "unary", "two-cores", "unary, a core each", 1.7, alone),
        row("grpc-channel-free", "stream", "free", "Channel, cores as they come", 2.5, both),
        row("grpc-unary-free", "unary", "free", "unary, cores as they come", 1.7, alone),
    ]


def grpc_python(context: Context) -> list[Row]:
    """Python, the same over Channel, against grpcio's unary call of the same method."""
    ms = context.settings.slice_ms
    daemon = context.over_grpc()
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(context.python_side("pjrtd over Channel", "side_pjrtd.py", daemon.grpc_target))
        sleeping = stack.enter_context(
            context.python_side("pjrtd over Channel, sleeping", "side_pjrtd.py", daemon.grpc_target, "--sleep")
        )
        grpcio = stack.enter_context(context.python_side("grpcio", "side_grpcio.py", daemon.grpc_target))
        results = race(
            {
                "pjrtd": slicer(ours, "execute-fetch", ms),
                "grpcio": slicer(grpcio, "unary", ms),
                "sleeping": slicer(sleeping, "execute-fetch", ms),
            },
            context.settings.rounds,
        )
    peer = latency_series("grpcio, unary", results["grpcio"])
    title = "Python, execute 8 floats and fetch, Channel"
    return [
        Row(
            "grpc-python",
            title,
            "us",
            latency_series("pjrtd", results["pjrtd"]),
            peer,
            bound=Bound("<", 0.6, "under 0.6x"),
            polls="daemon and client",
        ),
        Row(
            "grpc-python-sleeping",
            f"{title}, client sleeps",
            "us",
            latency_series("pjrtd", results["sleeping"]),
            peer,
            polls="daemon",
        ),
    ]


def grpc_batches(context: Context) -> list[Row]:
    """64 small executes started together over Channel, and one wait for all of them."""
    ms = context.settings.slice_ms
    daemon = context.over_grpc()
    with contextlib.ExitStack() as stack:
        c_side = stack.enter_context(context.c_side("bench_client batch", "bench_client", daemon.grpc_target))
        python = stack.enter_context(context.python_side("pjrtd batch", "side_pjrtd.py", daemon.grpc_target))
        results = race(
            {"c": slicer(c_side, "execute-batch", ms), "python": slicer(python, "execute-batch", ms)},
            context.settings.rounds,
        )

    def row(name: str, kind: str, language: str, limit: float) -> Row:
        return Row(
            name,
            f"{language}, 64 executes in one batch over Channel, each",
            "us",
            latency_series("pjrtd", results[kind]),
            comparison="itself",
            bound=Bound("<", limit, f"under {limit:g} us"),
            polls="daemon and client",
        )

    return [row("grpc-batch-c", "c", "C", 6), row("grpc-batch-python", "python", "Python", 15)]


def grpc_transfers(context: Context) -> list[Row]:
    """Bulk over Channel, beside the local socket."""
    ms = max(context.settings.slice_ms, 1000)
    daemon = context.over_grpc()
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, target in (("grpc", daemon.grpc_target), ("local", daemon.target)):
            sides[f"C {name}"] = stack.enter_context(context.c_side(f"bench_client {name}", "bench_client", target))
            sides[f"Python {name}"] = stack.enter_context(
                context.python_side(f"pjrtd transfers {name}", "side_pjrtd.py", target)
            )
        for way in ("upload", "download"):
            for mb in SIZES_MB:
                contestants = {name: slicer(side, f"{way}-{mb}", ms) for name, side in sides.items()}
                results = race(contestants, min(3, context.settings.rounds))

                def series(name: str, mb: int = mb) -> Series:
                    return throughput_series(name, results[name], mb << 20)

                for language in ("C", "Python"):
                    rows.append(
                        Row(
                            f"grpc-{way}-{mb}-{language.lower()}",
                            f"{language}, {way} {mb} MB over Channel",
                            "GB/s",
                            series(f"{language} grpc"),
                            series(f"{language} local"),
                        )
                    )
    return rows
