"""Starts a pjrtd of its own on the real plugin, and watches it.

Binary: PJRTD_BINARY, else build/release/bin/pjrtd. Plugin: see plugins.py. Where one is missing the tests fail: nothing
is skipped. PJRTD_TEST_PATIENCE multiplies every time limit (sanitizers).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from plugins import plugin_path
from raw_frames import RawClient
from wire_messages import REPOSITORY

GRPC_ANY_PORT = re.compile(r"grpc://.*:0")
PATIENCE = float(os.environ.get("PJRTD_TEST_PATIENCE", "1"))
READY_SECONDS = 30.0 * PATIENCE
TERMINATE = signal.SIGTERM  # Daemon has a method of the module's name

# What a sanitizer, a failed assertion or the fake plugin leaves in the log.
REPORTS = ("ERROR: AddressSanitizer", "WARNING: ThreadSanitizer", "ERROR: LeakSanitizer", "FATAL: ThreadSanitizer",
           "runtime error:", "Assertion `", "*** stack smashing", "free(): invalid", "double free", "malloc(): ",
           "fake plugin: rule broken")

# Counters of Admin.Stats that go back to where they were once a client is gone.
BALANCED = ("connections", "sessions", "buffers", "buffer_bytes", "programs", "staging_bytes", "calls_in_flight")


# Threads of gRPC's, of which it has more or fewer as it likes.
GRPC_POOLS = ("event_engine", "default-executo", "resolver-execut", "grpc_global_tim", "timer_manager")


class DaemonFailed(AssertionError):
    pass


def binary_path() -> pathlib.Path:
    path = pathlib.Path(os.environ.get("PJRTD_BINARY", REPOSITORY / "build" / "release" / "bin" / "pjrtd")).absolute()
    if not os.access(path, os.X_OK):
        raise DaemonFailed(f"no pjrtd at {path}: build it, or set PJRTD_BINARY")
    return path


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without what would configure a pjrtd or a client by surprise."""
    dropped = ("PJRTD_", "PYPJRT_", "PJRT_", "XLA_", "TPU_", "LISTEN_", "NOTIFY_SOCKET", "JAX_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return kept | dict(extra or {})


class Daemon:
    """A running pjrtd. `settings` become --set NAME=VALUE. `grpc`: it listens on a port beside its socket. Entered, it
    waits until it serves; left, it stops it and checks how it went. `over` is what `connect` uses unless it is told: where
    that is gRPC, it listens on a port, too. `wrapper`: a command that runs the daemon in its own place, such as nice."""

    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        folder: pathlib.Path | None = None,
        listen: Sequence[str] | None = None,
        grpc: bool = False,
        plugin: os.PathLike[str] | str | None = None,
        over: str = "unix",
        wrapper: Sequence[str] = (),
    ) -> None:
        self._owns_folder = folder is None
        self.folder = folder or pathlib.Path(tempfile.mkdtemp(prefix="pjrtd-"))
        self.socket_path = self.folder / "s.sock"
        self.over = over
        self.listen = list(listen) if listen is not None else [f"unix:{self.socket_path}"]
        if grpc or (over != "unix" and listen is None):
            self.listen.append("grpc://127.0.0.1:0")
        self.asked = self.listen  # with port 0 where any will do
        self.log_path = self.folder / "log"
        self.command = [*wrapper, str(binary_path()), "--plugin", str(plugin or plugin_path())]
        for address in self.listen:
            self.command += ["--listen", address]
        self.command += ["--state-dir", str(self.folder / "state"), "--cache-dir", str(self.folder / "cache")]
        for name, value in (settings or {}).items():
            self.command += ["--set", f"{name}={value}"]
        self.command += list(args)
        self.env = clean_environment(env)
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []
        self._ready = threading.Event()
        self._reader: threading.Thread | None = None

    # -- life -------------------------------------------------------------------

    def spawn(self) -> Daemon:
        """Starts the process without waiting for anything."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=self.env, cwd=self.folder, text=True)
        self._reader = threading.Thread(target=self._read_output, args=(self.process,), daemon=True)
        self._reader.start()
        return self

    def _read_output(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)
            self._ready.set()
        self._ready.set()

    def start(self) -> Daemon:
        self.spawn()
        if not self._ready.wait(READY_SECONDS) or not self.output:
            self.kill()
            raise DaemonFailed(f"pjrtd did not say that it is ready; its log:\n{self.log()}")
        assert len(self.output) == 1, self.output
        # A port 0 is told as what it became.
        pattern = "|".join(re.escape(address.removesuffix("0")) + r"\d+" for address in self.asked if GRPC_ANY_PORT.fullmatch(address))
        real = iter(re.findall(pattern, self.output[0]) if pattern else [])
        self.listen = [next(real) if GRPC_ANY_PORT.fullmatch(address) else address for address in self.asked]
        assert self.output == ["pjrtd ready " + " ".join(self.listen) + "\n"], self.output
        return self

    def restart(self) -> None:
        """Starts anew after a crash that has been reported, with an empty log."""
        self.kill()
        self.log_path.rename(self.log_path.with_suffix(".crashed"))
        self.output = []
        self._ready.clear()
        self.start()

    def __enter__(self) -> Daemon:
        try:
            return self.start()
        except BaseException:
            self.discard()
            raise

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                if self.process is not None and self.process.returncode is None:
                    self.stop()
                self.check_log()
        finally:
            self.discard()

    def discard(self) -> None:
        """Ends the process whatever it does and removes the folder."""
        self.kill()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 20.0) -> int:
        """The exit code; fails when it does not come in time."""
        assert self.process is not None
        try:
            code = self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise DaemonFailed(f"pjrtd is still there after {seconds * PATIENCE} s; its log:\n{self.log()}") from None
        if self._reader is not None:
            self._reader.join(5)
        return code

    def stop(self, number: signal.Signals = TERMINATE, seconds: float = 20.0) -> None:
        """Asks it to end and checks that it does so as it should."""
        self.check_alive()
        self.signal(number)
        code = self.wait(seconds)
        assert code == 0, f"pjrtd ended with {code} after {number.name}; its log:\n{self.log()}"
        for address in self.listen:
            assert not os.path.lexists(address.removeprefix("unix:")), f"{address} was left behind"
        assert len(self.output) == 1, f"more than the ready line on standard output: {self.output}"

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._reader is not None:
            self._reader.join(5)

    # -- looks ------------------------------------------------------------------

    @property
    def target(self) -> str:
        return self.listen[0]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def check_log(self) -> None:
        text = self.log()
        for report in REPORTS:
            assert report not in text, f"{report!r} in the log:\n{text[max(0, text.index(report) - 2000):][:12000]}"

    def check_alive(self) -> None:
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"pjrtd ended by itself with {code}; its log:\n{self.log()[-8000:]}"
        self.check_log()

    def connect(self, over: str | None = None, **options: Any) -> RawClient:
        """`over`: the local socket ("unix"), or "channel" or "unary" (grpc_bridges.py), for which the daemon must listen."""
        options.setdefault("timeout", 30.0 * PATIENCE)
        chosen = over or self.over
        from grpc_bridges import connect  # needs packages that not every user of this module has

        return connect(self.address(chosen), chosen, **options)

    def address(self, over: str) -> str:
        """Where it is reached that way."""
        return self.listen[0] if over == "unix" else self.grpc_target

    @property
    def grpc_target(self) -> str:
        return next(address for address in self.listen if address.startswith("grpc://"))

    def stats(self) -> Any:
        """Admin.Stats as a connection of its own sees it."""
        with self.connect("unix", name="observer") as client:
            return client.stats()

    def balance(self) -> dict[str, int]:
        stats = self.stats()
        return {name: getattr(stats, name) for name in BALANCED}

    def settled(self, ready: Callable[[dict[str, int]], bool] | None = None, seconds: float = 10.0) -> dict[str, int]:
        """The balance once it satisfies `ready`; without one, once there is nobody and nothing but the observer."""
        nothing = dict.fromkeys(BALANCED, 0) | {"connections": 1, "sessions": 1}
        wanted = ready or (lambda now: now | {"calls_in_flight": 0} == nothing)
        give_up = time.monotonic() + seconds * PATIENCE
        while True:
            self.check_alive()
            now = self.balance()
            if wanted(now):
                return now
            assert time.monotonic() < give_up, f"the counters do not settle: {now}"
            time.sleep(0.02)

    def expect_balance(self, before: Mapping[str, int], seconds: float = 10.0) -> None:
        """The counters return to `before`."""
        give_up = time.monotonic() + seconds * PATIENCE
        while True:
            self.check_alive()
            now = self.balance()
            if now == dict(before):
                return
            if time.monotonic() > give_up:
                raise DaemonFailed(f"not returned to the counters before: {dict(before)}, now {now}")
            time.sleep(0.02)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def steady_threads(self) -> Counter[str]:
        """How many there are of each name, without gRPC's own pools, which come and go."""
        names: Counter[str] = Counter()
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                names[(task / "comm").read_text().strip()] += 1
        return Counter({name: count for name, count in names.items() if name not in GRPC_POOLS})

    def resident_bytes(self) -> int:
        pages = pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def page_faults(self) -> int:
        """Of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[7]) + int(fields[9])

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def refuses_to_start(daemon: Daemon, *words: str) -> str:
    """The daemon ends with a code that is not 0, prints nothing, and says why with these words. Its log."""
    try:
        daemon.spawn()
        code = daemon.wait(10)
        log = daemon.log()
        daemon.check_log()
        assert code not in (0, None) and code > 0, f"ended with {code}:\n{log}"
        assert daemon.output == [], "it said that it was ready"
        for word in words:
            assert word in log, f"{word!r} is not in the log:\n{log}"
        return log
    finally:
        daemon.discard()
