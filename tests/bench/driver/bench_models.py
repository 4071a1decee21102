"""MiniLM-L6 with its real weights, against jax in process on the same plugin. Each function measures one group."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from bench_context import Context
from bench_interleave import Series, race
from bench_measures import first_result_ms, slicer
from bench_process import BenchError, Daemon, Side
from bench_report import Bound, Row

SHAPES = ((1, 32), (8, 32), (1, 128))
SLICE_MS = 1000  # a call takes 10 to 40 ms
# Of the sentence that the fresh processes embed.
VECTOR = b"result -0.061 -0.012 -0.071 0.043\n"
CLIENTS = 6
CLIENTS_MODE = "1x32"
WEIGHTS_BYTES = 90_261_504


def slice_ms(context: Context) -> int:
    return context.settings.slice_ms if context.settings.quick else max(SLICE_MS, context.settings.slice_ms)


def embeddings(name: str, slices: list[Mapping[str, Any]], rows: int) -> Series:
    """Sentences a second of each slice."""
    return Series(name, p50=[rows * one["count"] / one["elapsed_ns"] * 1e9 for one in slices])


def minilm(context: Context) -> list[Row]:
    """Embeddings a second: ids of the host in, vectors on the host out; weights on the device."""
    ms = slice_ms(context)
    with contextlib.ExitStack() as stack:

        def start(name: str, script: str, *args: str) -> Side:
            return stack.enter_context(context.python_side(name, script, *args))

        sides = {
            "polling": start("minilm polling", "side_minilm_pjrtd.py", context.polling().target),
            "sleeping": start("minilm sleeping", "side_minilm_pjrtd.py", context.sleeping().target, "--sleep"),
            "jax": start("minilm jax", "side_minilm_jax.py", str(context.settings.plugin)),
        }
        rows: list[Row] = []
        for batch, tokens in SHAPES:
            mode = f"{batch}x{tokens}"
            results = race({name: slicer(side, mode, ms) for name, side in sides.items()}, context.settings.rounds)
            for polls in ("polling", "sleeping"):
                rows.append(
                    Row(
                        f"minilm-{mode}-{polls}",
                        f"MiniLM-L6, {batch} of {tokens} tokens a call",
                        "sentences/s",
                        embeddings("pjrtd", results[polls], batch),
                        embeddings("jax in process, same plugin", results["jax"], batch),
                        bound=Bound(">=", 0.97, "at least 0.97x"),
                        polls="daemon and client" if polls == "polling" else "nobody",
                        notes={"jax": sides["jax"].facts},
                    )
                )
    return rows


def _at_once(sides: list[Side], ms: int) -> dict[str, float]:
    """Calls a second of all sides together, in one slice of each at the same time."""
    for side in sides:
        side.send(f"slice {CLIENTS_MODE} {ms}")
    return {"total": sum(one["count"] / one["elapsed_ns"] * 1e9 for one in [side.receive() for side in sides])}


def minilm_clients(context: Context) -> list[Row]:
    """Six processes that embed at once, with one copy of the weights, against one of them alone."""
    ms = slice_ms(context)

    def row(polls: str, daemon: Daemon, *options: str) -> Row:
        with contextlib.ExitStack() as stack:
            sides = [
                stack.enter_context(
                    context.python_side(f"minilm {polls} {number}", "side_minilm_pjrtd.py", daemon.target, "--shared", *options)
                )
                for number in range(CLIENTS)
            ]
            resident = max(side.facts["buffer_bytes"] for side in sides)
            if resident > 1.1 * WEIGHTS_BYTES:
                raise BenchError(f"{CLIENTS} clients have {resident} bytes on the device: not one copy of the weights")
            results = race(
                {"one": lambda: _at_once(sides[:1], ms), "all": lambda: _at_once(sides, ms)}, context.settings.rounds
            )
        return Row(
            f"minilm-clients-{polls}",
            f"MiniLM-L6, {CLIENTS} clients, total rate",
            "sentences/s",
            Series(f"{CLIENTS} clients", p50=[one["total"] for one in results["all"]]),
            Series("1 client", p50=[one["total"] for one in results["one"]]),
            bound=Bound(">=", 0.97, "at least 0.97x"),
            polls="daemon and clients" if polls == "polling" else "nobody",
            notes={"buffer_bytes": resident},
        )

    return [row("polling", context.polling()), row("sleeping", context.sleeping(), "--sleep")]


def minilm_attach(context: Context) -> list[Row]:
    """A fresh process each time; pjrtd's finds weights and program on the device."""
    with context.start_daemon({}) as daemon:
        contestants = {
            "pjrtd": lambda: {"ms": first_result_ms(context, VECTOR, "cold_minilm_pjrtd.py", daemon.target)},
            "jax": lambda: {"ms": first_result_ms(context, VECTOR, "cold_minilm_jax.py", str(context.settings.plugin))},
        }
        race(contestants, 1)  # binds the weights, compiles byte code, fills the page cache
        results = race(contestants, context.settings.rounds)
    series = {name: Series(name, p50=[one["ms"] for one in slices]) for name, slices in results.items()}
    return [
        Row(
            "minilm-attach",
            "MiniLM-L6, start to first embedding",
            "ms",
            series["pjrtd"],
            series["jax"],
            comparison="itself",
            bound=Bound("<", 150, "under 150 ms"),
            polls="daemon and client",
        )
    ]
