"""Interleaving and statistics: what makes two figures of one run comparable on a machine that drifts.

Each round runs one slice of every contestant; the order turns around from round to round, so that neither has the
better place. A ratio is taken inside a round; what is reported is the median of the rounds' ratios.
"""

from __future__ import annotations

import array
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Series:
    """One contestant's figures, a value a round, in the row's unit."""

    name: str
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)

    def add(self, p50: float, p99: float | None = None) -> None:
        self.p50.append(p50)
        if p99 is not None:
            self.p99.append(p99)

    def median_p50(self) -> float:
        return statistics.median(self.p50)

    def median_p99(self) -> float | None:
        return statistics.median(self.p99) if self.p99 else None


Contestant = Callable[[], Mapping[str, Any]]


def race(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, list[Mapping[str, Any]]]:
    """Each contestant's slices, a round at a time."""
    results: dict[str, list[Mapping[str, Any]]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        for name in order:
            results[name].append(contestants[name]())
        order.reverse()
    return results


def latency_series(name: str, slices: Iterable[Mapping[str, Any]]) -> Series:
    """p50 and p99 of each slice, in microseconds."""
    series = Series(name)
    for one in slices:
        series.add(one["p50_ns"] / 1e3, one["p99_ns"] / 1e3)
    return series


def rate_series(name: str, slices: Iterable[Mapping[str, Any]]) -> Series:
    """Operations a second of each slice."""
    series = Series(name)
    for one in slices:
        series.add(one["count"] / one["elapsed_ns"] * 1e9)
    return series


def throughput_series(name: str, slices: Iterable[Mapping[str, Any]], size_bytes: int) -> Series:
    """Gigabytes (1e9) a second by the median transfer of each slice."""
    series = Series(name)
    for one in slices:
        series.add(size_bytes / one["p50_ns"])
    return series


def pooled_percentiles_us(paths: Iterable[Path]) -> tuple[float, float]:
    """p50 and p99 over the samples (nanoseconds) that several sides saved in one slice."""
    samples = array.array("Q")
    for path in paths:
        samples.frombytes(path.read_bytes())
    ordered = sorted(samples)
    return ordered[len(ordered) // 2] / 1e3, ordered[len(ordered) * 99 // 100] / 1e3
