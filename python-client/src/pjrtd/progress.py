"""A line on the terminal that says how far a run is."""

from __future__ import annotations

import sys
from time import monotonic

_WIDTH = 30


class ProgressBar:
    """On standard error, where that is a terminal; else nothing is shown. `total`: steps, 0 where it is not known."""

    def __init__(self, name: str, total: int) -> None:
        self._name = name
        self._total = total
        self._began = monotonic()
        self._shown = 0
        self._stream = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None

    def show(self, steps: int) -> None:
        if self._stream is None:
            return
        rate = steps / max(1e-9, monotonic() - self._began)
        text = f"{self._name}: {steps}"
        if self._total:
            done = min(1.0, steps / self._total)
            filled = int(done * _WIDTH)
            text = f"{self._name}: [{'#' * filled}{'.' * (_WIDTH - filled)}] {steps}/{self._total} {done:4.0%}"
        text += f"  {rate:,.0f} steps/s"
        self._stream.write("\r" + text.ljust(self._shown))
        self._stream.flush()
        self._shown = len(text)

    def close(self) -> None:
        """The line is done."""
        if self._stream is not None and self._shown:
            self._stream.write("\n")
            self._stream.flush()
        self._stream = None
