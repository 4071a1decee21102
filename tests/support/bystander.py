"""A well-behaved client that goes on working while others misbehave, and notices every wrong value."""

from __future__ import annotations

import struct
import threading
import time

from case_programs import case
from daemon import Daemon
from raw_frames import RawClient


class Bystander:
    """A session with a program and a buffer of its own: `check` uses both and verifies the values.

    With `run_in_background` a thread repeats that until `finish`, which raises what went wrong; `latencies` then has
    the seconds that each round took.
    """

    def __init__(self, daemon: Daemon, over: str = "unix") -> None:
        self.client: RawClient = daemon.connect(over, name="bystander")
        self.program = self.client.compile(case("add").text)
        self.kept = self.client.upload("f32", [4], struct.pack("<4f", 1, 2, 3, 4))
        self.rounds = 0
        self.latencies: list[float] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_well(self) -> bool:
        """A client that serves one test after another is made anew where it did not get through one."""
        try:
            self.check()
        except Exception:  # noqa: BLE001 - whatever it is, that test has told
            return False
        return True

    def check(self) -> None:
        self.rounds += 1
        step = float(self.rounds % 1000)
        fresh = self.client.upload("f32", [4], struct.pack("<4f", step, step + 1, step + 2, step + 3))
        (result,) = self.client.execute(self.program, [self.kept, fresh])
        values = struct.unpack("<4f", self.client.download(result))
        assert values == (1 + step, 3 + step, 5 + step, 7 + step), (step, values)
        assert struct.unpack("<4f", self.client.download(self.kept)) == (1, 2, 3, 4)
        self.client.call("Buffer.Delete", buffers=[fresh, result])

    def run_in_background(self) -> Bystander:
        def work() -> None:
            try:
                while not self._stop.is_set():
                    began = time.perf_counter()
                    self.check()
                    self.latencies.append(time.perf_counter() - began)
                    self._stop.wait(0.002)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        return self

    def finish(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.client.timeout + 5)
            assert not self._thread.is_alive(), "the well-behaved client got no answer"
            self._thread = None
        if self._error is not None:
            raise self._error
        assert self.rounds > 0

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self.client.timeout + 5)
        self.client.close()

    def __enter__(self) -> Bystander:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
