"""Sees to futures that have callbacks, or are awaited: a thread that reads while nobody else does, and calls them.

It lives as long as there are such futures, and a moment longer. It is one for all: an asyncio loop could watch the
socket itself, but then it would compete with threads that wait, flush what is to be sent, keep a gRPC connection alive,
and follow a connection that is made anew; all of that is the waiter's, which a thread can simply wait in.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections import deque

from .call import NEVER, Call
from .errors import PjrtError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .future import Future
    from .waiting import Waiter

#: For how long the thread stays without anything to see to, in seconds.
IDLE_S = 1.0


class Watcher:
    """Any thread may use it."""

    __slots__ = ("_waiter", "_guard", "_futures", "_ready", "_pulse", "_gate", "_running")

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._guard = allocate_lock()
        self._futures: set[Future[Any]] = set()
        self._ready: deque[Future[Any]] = deque()
        self._pulse = Call(0)  # is done when something is ready
        self._gate = allocate_lock()
        self._running = False

    def watch(self, future: Future[Any]) -> None:
        """Has the future's callbacks called when it is done."""
        with self._guard:
            self._futures.add(future)
            self._hook(future)
            start = not self._running
            self._running = True
        if start:
            started = False
            try:
                start_new_thread(self._run, ())
                started = True
            finally:
                if not started:
                    self._running = False
        else:
            self._wake()

    def _hook(self, future: Future[Any]) -> None:
        def ended(_: Call) -> None:
            self._ready.append(future)
            self._wake()

        waits = False
        for call in future.calls:
            call.on_done = ended
            waits = waits or not call.done
        if not waits:
            ended(future.calls[0])

    def _wake(self) -> None:
        pulse = self._pulse
        pulse.done = True
        pulse.notify()
        try:
            self._gate.release()
        except RuntimeError:
            pass  # it does not sleep there

    def _run(self) -> None:
        while True:
            pulse = Call(0)
            pulse.patient = True
            self._pulse = pulse
            while self._ready:
                self._see_to(self._ready.popleft())
            with self._guard:
                idle = not self._futures
            if idle:
                self._gate.acquire(False)
                if not self._ready and not self._gate.acquire(True, IDLE_S):
                    with self._guard:
                        if not self._futures:
                            self._running = False
                            return
                continue
            try:
                self._waiter.wait(pulse, None, NEVER)
            except PjrtError:
                # The connection has ended, and with it every call.
                with self._guard:
                    left = tuple(self._futures)
                for future in left:
                    self._see_to(future)

    def _see_to(self, future: Future[Any]) -> None:
        if not future.settle():
            if any(call.on_done is None for call in future.calls):  # others took their place
                self._hook(future)
            return
        with self._guard:
            known = future in self._futures
            self._futures.discard(future)
        if known:
            future.run_callbacks()
