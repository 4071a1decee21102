"""What a measure needs: the paths, the sizes of a run, and processes that end with it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench_process import BenchError, Daemon, Side

BENCH_DIR = Path(__file__).resolve().parent.parent
ROOT = BENCH_DIR.parent.parent


@dataclass(frozen=True)
class Settings:
    """`slice_ms` is what one contestant runs for in one round, beside a tenth of it for warming up."""

    build: Path
    python: Path
    plugin: Path
    rounds: int
    slice_ms: int
    idle_s: float
    quick: bool


class Context:
    """Starts sides and daemons, and stops them all at the end.

    The two daemons that most measures share are started at first use: `polling` is pjrtd as it comes, `sleeping` has
    `busy_poll_us=0`. The one that is not being measured sleeps: a daemon polls only for a moment after a request.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stack = contextlib.ExitStack()
        self._shared: dict[str, Daemon] = {}
        self.scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="pjrtd-bench-run-")))
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("PJRTD_", "XLA_FLAGS"))}
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)
        self._env["PYTHONPATH"] = str(ROOT / "python-client" / "src")

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def env(self) -> dict[str, str]:
        """A copy: the caller may add to it."""
        return dict(self._env)

    def binary(self, name: str) -> Path:
        for folder in ("bin", "lib"):
            path = self.settings.build / folder / name
            if path.exists():
                return path
        raise BenchError(f"{name} is not under {self.settings.build}: build it first")

    def start_daemon(self, settings: Mapping[str, str], extra_env: Mapping[str, str] | None = None) -> Daemon:
        """The caller stops it."""
        env = self._env | dict(extra_env or {})
        return Daemon(self.binary("pjrtd"), self.settings.plugin, settings, self.scratch, env)

    def _shared_daemon(self, name: str, settings: Mapping[str, str]) -> Daemon:
        if name not in self._shared:
            self._shared[name] = self._stack.enter_context(self.start_daemon(settings))
        return self._shared[name]

    def polling(self) -> Daemon:
        return self._shared_daemon("polling", {})

    def sleeping(self) -> Daemon:
        return self._shared_daemon("sleeping", {"busy_poll_us": "0"})

    def over_grpc(self) -> Daemon:
        """pjrtd as it comes, that also listens for gRPC."""
        if "grpc" not in self._shared:
            started = Daemon(self.binary("pjrtd"), self.settings.plugin, {}, self.scratch, self._env, grpc=True)
            self._shared["grpc"] = self._stack.enter_context(started)
        return self._shared["grpc"]

    def c_client(self, daemon: Daemon, *, spin: bool, name: str = "") -> Side:
        """`spin`: the library polls as it does by default."""
        options = () if spin else ("--sleep",)
        return self.c_side(name or " ".join(("bench_client", *options)), "bench_client", daemon.target, *options)

    def c_side(self, name: str, binary: str, *args: str | Path) -> Side:
        return Side(name, [self.binary(binary), *args], self._env, self.scratch)

    def python_side(self, name: str, script: str, *args: str | Path) -> Side:
        command = [self.settings.python, BENCH_DIR / "sides" / script, *args]
        return Side(name, command, self._env, self.scratch)
