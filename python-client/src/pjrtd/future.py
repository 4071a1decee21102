"""Calls that are under way: futures."""

from __future__ import annotations

from . import timeouts
from .call import NEVER
from .errors import PjrtError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any, Generic, TypeVar

    from .call import Call
    from .connection import Connection

    T = TypeVar("T")

    class _Typed(Generic[T]):
        pass
else:

    class _Typed:
        __slots__ = ()

        def __class_getitem__(cls, item):
            return cls

    T = None


class Future(_Typed[T]):
    """What a call will answer: Executable.submit(), Program.submit() and Buffer.to_host_async() give it.

    It can be waited for by result(), by any number of threads, or awaited in any asyncio loop. A call that failed raises
    the error that came first: one of what it depends on, where that failed (error.origin_call). Dropping a future drops
    the answer, not the call.
    """

    __slots__ = ("_connection", "_calls", "_finish", "_after_loss", "_value", "_error", "_settled", "_callbacks", "__weakref__")

    def __init__(
        self,
        connection: Connection,
        calls: list[Call],
        finish: Callable[[list[Call]], T],
        after_loss: Callable[[list[Call]], list[Call]] | None = None,
    ) -> None:
        """finish: makes the result of the calls, all of which ended well; it does not wait. after_loss: where the answer of
        one was lost with a connection, the calls in place of all, which ask for it again."""
        self._connection = connection
        self._calls = calls
        self._finish = finish
        self._after_loss = after_loss
        self._value: Any = None
        self._error: PjrtError | None = None
        self._settled = False
        self._callbacks: list[Callable[[Future[T]], object]] = []

    # ---- waiting ----

    def done(self) -> bool:
        """Whether result() would not wait."""
        if not self._settled and not self._settle():
            self._connection.waiter.look()
            return self._settle()
        return True

    def result(self, timeout: float | None = None) -> T:
        """Waits for the answer. Raises what the call failed with; DeadlineExceeded, which is a TimeoutError, when `timeout`
        seconds have passed first: the call goes on then, and so does the future."""
        self._wait(timeout)
        if self._error is not None:
            raise self._error.again()
        return self._value

    def exception(self, timeout: float | None = None) -> PjrtError | None:
        """Waits, and returns what result() would raise, or None."""
        self._wait(timeout)
        return self._error

    def _wait(self, timeout: float | None) -> None:
        until = timeouts.resolve(timeout)
        while not self._settle():
            for call in self._calls:
                if not call.done:
                    # The waiter gives the daemon's answer some grace; here the time is the caller's own.
                    self._connection.waiter.wait(call, None if until is None else until - timeouts.GRACE_S, NEVER)

    def cancel(self) -> bool:
        """Asks the daemon not to do it. Where that comes in time the result is errors.Cancelled, and what the call was to
        make is poisoned; what runs on a device cannot be stopped. False where it has ended already."""
        if self.done():
            return False
        for call in self._calls:
            if not call.done:
                self._connection.outbox.cancel(call)
        return True

    def cancelled(self) -> bool:
        """Whether it ended because it was cancelled."""
        from .errors import Cancelled

        return self._settled and isinstance(self._error, Cancelled)

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Calls callback(future) when it is done: from a thread of this package's, or at once where it is. The callback may
        make calls, but what it waits for, others' callbacks wait for."""
        self._callbacks.append(callback)
        if self._settled:
            self.run_callbacks()
        else:
            self._connection.watcher().watch(self)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._settle():
            from asyncio import get_running_loop

            loop = get_running_loop()
            woken: Any = loop.create_future()

            def wake() -> None:
                if not woken.done():
                    woken.set_result(None)

            def settled(_: Future[T]) -> None:
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:
                    pass  # the loop has ended

            self.add_done_callback(settled)
            try:
                yield from woken.__await__()
            except BaseException:  # the task was cancelled: nobody wants the answer
                if not self._settled:
                    self.cancel()
                raise
        return self.result()

    # ---- for the watcher ----

    @property
    def calls(self) -> list[Call]:
        """What it waits for now."""
        return self._calls

    def _settle(self) -> bool:
        """Makes the result if all calls have ended; whether they have."""
        if self._settled:
            return True
        for call in self._calls:
            if not call.done:
                return False
        calls = self._calls
        if self._after_loss is not None and any(call.answer_lost and call.error is None for call in calls):
            again, self._after_loss = self._after_loss, None
            try:
                self._calls = again(calls)
                return self._settle()
            except PjrtError as error:
                self._error = error
        else:
            failed = next((call.error for call in calls if call.error is not None), None)
            try:
                if failed is not None:
                    self._error = self._connection.told(failed)
                else:
                    self._value = self._finish(calls)
            except PjrtError as error:
                self._error = error
        self._settled = True
        return True

    def settle(self) -> bool:
        return self._settle()

    def run_callbacks(self) -> None:
        """Calls each callback once."""
        while self._callbacks:
            callback = self._callbacks.pop(0)
            try:
                callback(self)
            except Exception:  # as in concurrent.futures: nobody else hears of it
                import sys
                import traceback

                print("a callback of a pjrtd.Future failed:", file=sys.stderr)
                traceback.print_exc()

    def __repr__(self) -> str:
        if not self._settled:
            return "<pjrtd.Future pending>"
        return f"<pjrtd.Future {'done' if self._error is None else f'failed: {self._error.message}'}>"
