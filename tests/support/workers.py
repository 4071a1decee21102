"""Client processes of the long tests (killable_worker.py): started, killed, and asked what they found."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

from daemon import Daemon, clean_environment
from wire_messages import REPOSITORY


class Workers:
    """Client processes, by way of the one that forks them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        path = ":".join(str(REPOSITORY / part) for part in ("python-client/src", "tests/support"))
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::ResourceWarning", str(REPOSITORY / "tests/support/killable_worker.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment({"PYTHONPATH": path}))

    def _ask(self, *words: object) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, daemon: Daemon, kind: str, over: str, seed: int, name: str) -> int:
        return self._ask("start", kind, daemon.address(over), seed, self.folder, name)

    def wait(self, pid: int) -> int:
        return os.waitstatus_to_exitcode(self._ask("wait", pid))

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)  # it is not reaped before `wait`: the number is its own
        status = self.wait(pid)
        assert status == -signal.SIGKILL, f"it had ended by itself with {status}: {self.faults()}"

    def faults(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("fault-*")))

    def finish(self, pids: list[int]) -> None:
        """Those that were not killed end by themselves, without a fault."""
        (self.folder / "stop").touch()
        ended = [self.wait(pid) for pid in pids]
        assert ended == [0] * len(pids) and not self.faults(), self.faults()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)
