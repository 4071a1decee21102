"""The processes of a run: the sides that are measured, and the daemons that ours talk to.

Every process started here is stopped here. Nothing waits without a limit: a side that hangs fails its measure.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


class BenchError(Exception):
    """A measure could not be taken; the message says why and what would help."""


def _read_line(process: subprocess.Popen[bytes], what: str, timeout_s: float) -> str:
    """One line of the process's standard output. The pipe is unbuffered, so that select tells the truth."""
    assert process.stdout is not None
    line = bytearray()
    fd = process.stdout.fileno()
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise BenchError(f"{what} said nothing for {timeout_s:.0f} s")
            piece = os.read(fd, 65536)
            if not piece:
                raise BenchError(f"{what} ended (exit status {process.wait(10)})")
            line += piece
    return line.decode().rstrip("\n")


class ProcessFigures:
    """The kernel's account of a process so far; subtract two for what happened between."""

    def __init__(self, cpu_ns: int, switches: int, faults: int) -> None:
        self.cpu_ns = cpu_ns
        self.switches = switches
        self.faults = faults

    @classmethod
    def read(cls, pid: int) -> ProcessFigures:
        cpu_ns = switches = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                cpu_ns += int((task / "schedstat").read_text().split()[0])
                for line in (task / "status").read_text().splitlines():
                    if line.startswith(("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")):
                        switches += int(line.split()[1])
            except FileNotFoundError:
                continue  # the thread ended while we looked
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return cls(cpu_ns, switches, int(fields[7]) + int(fields[9]))

    def __sub__(self, other: ProcessFigures) -> ProcessFigures:
        return ProcessFigures(self.cpu_ns - other.cpu_ns, self.switches - other.switches, self.faults - other.faults)


def resident_bytes(pid: int) -> dict[str, int]:
    """`total`, and of it `anonymous`: the plugin's text is file pages, which its users share."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon"):
            found["total" if name == "VmRSS" else "anonymous"] = int(value.split()[0]) * 1024
    return found


@contextlib.contextmanager
def placed(cpus: Mapping[int, int]) -> Iterator[None]:
    """Keeps each process (pid: cpu), all of its threads, on one processor while the block runs."""
    everywhere = os.sched_getaffinity(0)
    try:
        for pid, cpu in cpus.items():
            _place(pid, {cpu})
        yield
    finally:
        for pid in cpus:
            _place(pid, everywhere)


def _place(pid: int, cpus: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cpus)


class Side:
    """A measured process that is kept alive and runs a slice when told (README.md has the protocol)."""

    def __init__(self, name: str, command: Sequence[str | Path], env: Mapping[str, str], log_dir: Path) -> None:
        self.name = name
        self._log = log_dir / f"{name}.log"
        with self._log.open("ab") as log:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(env),
                bufsize=0,
            )
        try:
            answer = self._answer(120)
            if not answer.startswith("ready "):
                raise BenchError(f"{name} printed {answer!r} instead of its ready line")
            self.facts: dict[str, Any] = json.loads(answer.removeprefix("ready "))
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answer(self, timeout_s: float) -> str:
        try:
            return _read_line(self._process, self.name, timeout_s)
        except BenchError as error:
            tail = self._log.read_text(errors="replace").strip().splitlines()[-4:]
            raise BenchError("; ".join([str(error), *tail])) from None

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            self._answer(10)
            raise BenchError(f"{self.name} takes no commands") from None

    def receive(self, timeout_s: float = 120) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._answer(timeout_s))
        return answer

    def slice(self, mode: str, duration_ms: int) -> dict[str, Any]:
        self.send(f"slice {mode} {duration_ms}")
        return self.receive()

    def count(self, mode: str, calls: int) -> dict[str, Any]:
        self.send(f"count {mode} {calls}")
        return self.receive()

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Daemon:
    """One pjrtd on a socket of its own, with folders of its own."""

    def __init__(
        self,
        binary: Path,
        plugin: Path,
        settings: Mapping[str, str],
        log_dir: Path,
        env: Mapping[str, str],
        grpc: bool = False,
    ) -> None:
        self._dir = tempfile.TemporaryDirectory(prefix="pjrtd-bench-")
        folder = Path(self._dir.name)
        self.target = f"unix:{folder}/pjrtd.sock"
        command = [str(binary), "--plugin", str(plugin), "--listen", self.target]
        if grpc:
            command += ["--listen", "grpc://127.0.0.1:0"]
        command += ["--cache-dir", str(folder / "cache"), "--state-dir", str(folder / "state")]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self._log = log_dir / "pjrtd.log"
        with self._log.open("ab") as log:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=dict(env), bufsize=0
            )
        try:
            line = _read_line(self._process, "pjrtd", 120)
            if not line.startswith("pjrtd ready "):
                raise BenchError(f"pjrtd printed {line!r} instead of its ready line")
            self.grpc_target = line.split()[-1] if grpc else ""
        except BaseException as error:
            self.stop()
            if isinstance(error, BenchError):
                tail = self._log.read_text(errors="replace").strip().splitlines()[-4:]
                raise BenchError("; ".join([str(error), *tail])) from None
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def figures(self) -> ProcessFigures:
        return ProcessFigures.read(self.pid)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._dir.cleanup()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
