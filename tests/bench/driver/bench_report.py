"""Rows, the verdict on each, the table and the JSON."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from bench_interleave import Series

Comparison = Literal["ratio", "difference", "itself"]


@dataclass
class Bound:
    """`limit` in the unit of the comparison: a plain number for a ratio. `within`: so far from 0, to either side."""

    relation: Literal["<", ">=", "within"]
    limit: float
    text: str

    def is_met(self, value: float) -> bool:
        if self.relation == "within":
            return abs(value) <= self.limit
        compare: Callable[[float, float], bool] = operator.lt if self.relation == "<" else operator.ge
        return compare(value, self.limit)


@dataclass
class Row:
    """One measure. `bound` None: for information."""

    name: str
    title: str
    unit: str
    ours: Series
    peer: Series | None = None
    comparison: Comparison = "ratio"
    bound: Bound | None = None
    polls: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    def compared(self) -> list[float]:
        """A value a round."""
        if self.peer is None or self.comparison == "itself":
            return self.ours.p50
        pairs = zip(self.ours.p50, self.peer.p50, strict=True)
        if self.comparison == "ratio":
            return [ours / peer for ours, peer in pairs]
        return [ours - peer for ours, peer in pairs]

    def value(self) -> float:
        return statistics.median(self.compared())

    def met(self) -> bool | None:
        return None if self.bound is None else self.bound.is_met(self.value())

    def as_json(self) -> dict[str, Any]:
        compared = self.compared()

        def side(series: Series | None) -> dict[str, Any] | None:
            if series is None:
                return None
            return {
                "name": series.name,
                "p50": series.median_p50(),
                "p99": series.median_p99(),
                "rounds_p50": series.p50,
                "rounds_p99": series.p99,
            }

        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "ours": side(self.ours),
            "peer": side(self.peer),
            "comparison": self.comparison,
            "value": self.value(),
            "min": min(compared),
            "max": max(compared),
            "bound": None if self.bound is None else {"relation": self.bound.relation, "limit": self.bound.limit},
            "met": self.met(),
            "polls": self.polls,
            "notes": self.notes,
        }


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude >= 100:
        return f"{value:.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.1 or magnitude == 0 else f"{value:.3f}"


def _side(series: Series | None) -> str:
    if series is None:
        return "-"
    p99 = series.median_p99()
    return _number(series.median_p50()) + (f" / {_number(p99)}" if p99 is not None else "")


def _cells(row: Row) -> list[str]:
    compared = row.compared()
    value = f"{_number(row.value())} ({_number(min(compared))}-{_number(max(compared))})"
    if row.peer is None or row.comparison == "itself":
        value = "-"
    met = {True: "yes", False: "NO", None: ""}[row.met()]
    peer = row.peer.name if row.peer is not None else ""
    cells = [row.name, row.title, row.unit, _side(row.ours), _side(row.peer), peer, value]
    return cells + [row.bound.text if row.bound else "", met, row.polls]


_HEADS = ["name", "measure", "unit", "ours p50/p99", "peer p50/p99", "peer", "ours:peer (min-max)", "bound", "met", "who polls"]


def _table(rows: list[Row], heads: list[str], keep: list[int]) -> list[str]:
    lines = [heads] + [_cells(row) for row in rows]
    lines = [[line[i] for i in keep] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(keep))]
    rendered = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return [rendered[0], "-" * max(map(len, rendered)), *rendered[1:]]


def render(machine: dict[str, Any], rows: list[Row], failures: dict[str, str]) -> str:
    """The whole report as text."""
    bounded = [row for row in rows if row.bound is not None]
    information = [row for row in rows if row.bound is None]
    out = [
        f"{machine['cores']} cores, {machine['model']}{' (virtual machine)' if machine['virtual_machine'] else ''}, "
        f"{machine['memory_gb']} GB, {machine['system']}, Linux {machine['kernel']}, "
        f"load average {machine['load_average']:.2f} before"
    ]
    if machine["load_average"] > 0.5:
        out.append("Other work was running: compare within a row only, and measure again on an idle machine.")
    if bounded:
        out += ["", *_table(bounded, _HEADS, list(range(len(_HEADS))))]
    if information:
        out += ["", "For information:", "", *_table(information, _HEADS, [0, 1, 2, 3, 4, 5, 6, 9])]
    if bounded:
        missed = [row.name for row in bounded if not row.met()]
        out += ["", f"{len(bounded) - len(missed)} of {len(bounded)} bounds met" + (f"; missed: {', '.join(missed)}" if missed else "")]
    for name, reason in failures.items():
        out.append(f"NOT MEASURED {name}: {reason}")
    return "\n".join(out)
