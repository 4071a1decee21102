"""Sends what a transport has held back, where nothing follows that would take it along: a thread that lives as long as
there is such a thing, and a moment longer."""

from __future__ import annotations

from _thread import start_new_thread
from time import sleep

from .errors import PjrtError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .outbox import Outbox

#: How long something may be held, in seconds (beside the time that other threads do not let go of the interpreter).
HOLD_S = 0.001
#: Looks in vain after which the thread ends: making one costs as much as a few system calls.
MAX_IDLE_LOOKS = 50


class LateSender:
    """running: whether the thread is there, and looks again before it goes."""

    __slots__ = ("_outbox", "running")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.running = False

    def see_to_it(self) -> None:
        """Something is held. With the outbox's lock held."""
        if self.running:
            return
        self.running = True
        started = False
        try:
            start_new_thread(self._run, ())
            started = True
        except RuntimeError:  # no more threads, or the interpreter is going down
            self._outbox.flush()
        finally:
            if not started:
                self.running = False

    def _run(self) -> None:
        outbox = self._outbox
        idle = 0
        while True:
            sleep(HOLD_S)
            if outbox.holds_something:
                idle = 0
                try:
                    outbox.flush()
                except PjrtError:
                    pass  # the connection is broken; who uses it next is told
                continue
            idle += 1
            if idle >= MAX_IDLE_LOOKS:
                self.running = False
                if not outbox.holds_something or self.running:
                    return
                self.running = True
