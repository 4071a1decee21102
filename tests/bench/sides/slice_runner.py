"""What every Python side shares: operations that the driver runs in slices, by commands on standard input.

The same protocol as bench_slice.c speaks (README.md). Imports nothing that a measured start would have to pay for, and
neither pjrtd nor any peer.
"""

from __future__ import annotations

import array
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

ADD_PROGRAM = """module @add { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32>
} }
"""


def nothing() -> None:
    """The default of `Mode.begin` and `Mode.end`."""


class Mode(NamedTuple):
    """One thing to measure: `op` does it `inner` times; `begin` and `end` stand outside what is timed."""

    op: Callable[[], object]
    begin: Callable[[], object] = nothing
    end: Callable[[], object] = nothing
    inner: int = 1


def _run_for(op: Callable[[], object], duration_ns: int, samples: array.array[int]) -> None:
    clock = time.perf_counter_ns
    append = samples.append
    before = clock()
    stop = before + duration_ns
    while before < stop:
        op()
        after = clock()
        append(after - before)
        before = after


def _run_slice(mode: Mode, duration_ms: int, save_path: str) -> dict[str, float]:
    samples = array.array("Q")
    mode.begin()
    _run_for(mode.op, duration_ms * 100_000, samples)
    del samples[:]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter_ns()
    _run_for(mode.op, duration_ms * 1_000_000, samples)
    elapsed_ns = time.perf_counter_ns() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    mode.end()
    if save_path:
        with open(save_path, "wb") as file:
            samples.tofile(file)
    ordered = sorted(samples)
    return {
        "count": len(ordered) * mode.inner,
        "elapsed_ns": elapsed_ns,
        "p50_ns": ordered[len(ordered) // 2] / mode.inner,
        "p99_ns": ordered[len(ordered) * 99 // 100] / mode.inner,
        "min_ns": ordered[0] / mode.inner,
        "page_faults": after.ru_minflt + after.ru_majflt - usage.ru_minflt - usage.ru_majflt,
        "voluntary_switches": after.ru_nvcsw - usage.ru_nvcsw,
        "involuntary_switches": after.ru_nivcsw - usage.ru_nivcsw,
    }


def _run_count(mode: Mode, count: int) -> dict[str, float]:
    calls = -(-count // mode.inner)
    mode.begin()
    start = time.perf_counter_ns()
    for _ in range(calls):
        mode.op()
    elapsed_ns = time.perf_counter_ns() - start
    mode.end()
    return {"count": calls * mode.inner, "elapsed_ns": elapsed_ns}


def serve(modes: dict[str, Mode], facts: dict[str, object] | None = None) -> None:
    """Prints `ready FACTS` and answers commands until standard input ends."""
    print("ready", json.dumps(facts or {}), flush=True)
    for line in sys.stdin:
        verb, name, amount, *rest = line.rstrip("\n").split(" ", 3)
        if verb == "slice":
            answer = _run_slice(modes[name], int(amount), rest[0] if rest else "")
        elif verb == "count":
            answer = _run_count(modes[name], int(amount))
        else:
            raise SystemExit(f"not a command: {line!r}")
        print(json.dumps(answer), flush=True)
