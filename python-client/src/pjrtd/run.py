"""Runs: many steps of a program in one call, next to the device."""

from __future__ import annotations

from ._proto.execute import RunReply
from .buffer import Buffer
from .call import RunCall, read_answer
from .errors import DataLoss, HandleClosed
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Any

    from .buffer import Placement
    from .client import Client
    from .progress import ProgressBar

    Values = dict[str, Value]


class Run:
    """Steps of a program that are under way: Program.run() gives it.

        for step, values in step.run(1000, fetch=["loss"], every=100):
            print(step, values["loss"].item())     # steps done so far, Values by name (of several devices: a list of dicts)

    Leaving the loop leaves the run alone until the object goes, or close(): that cancels it, between two steps. Then slots
    hold what the last whole step gave. What went wrong is raised in the loop, or by wait(). While it is under way, calls
    that name its slots wait for its end. One thread uses it at a time.

    steps: how many are done, as far as is known. stopped: whether `until` ended it. execute_s: seconds on the device.
    results: buffers of the last step's outputs that went back to arguments, and of those that `keep` named, once it has
    ended.
    """

    def __init__(
        self,
        client: Client,
        call: RunCall,
        until: float | None,
        fetch: Sequence[tuple[int, str]],
        kept: Sequence[tuple[int, str]],
        ids: list[bytes],
        places: Sequence[Placement],
        num_outputs: int,
        progress: ProgressBar | None,
    ) -> None:
        """Takes a call that was sent. fetch, kept: (device-major position, name); num_outputs: of one device."""
        self._client = client
        self._connection = client._connection  # pyright: ignore[reportPrivateUsage]
        self._call = call
        self._until = until
        self._fetch = fetch
        self._kept = kept
        self._ids = ids
        self._places = places
        self._num_outputs = num_outputs
        self._progress = progress
        self._seen: tuple[bytes, bytes] = (b"", b"")
        self._over = False
        self.steps = 0
        self.stopped = False
        self.execute_s = 0.0
        self.results: Any = {}

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return self

    def __next__(self) -> tuple[int, Any]:
        while True:
            told = self._next()
            if told is None:
                raise StopIteration
            if told[1] or self._over and not self._fetch:
                return told

    def wait(self) -> tuple[int, Any]:
        """Goes on to the end; returns what was told last: the steps done, and values."""
        last: tuple[int, Any] = (self.steps, {})
        for last in self:
            pass
        return last

    def _next(self) -> tuple[int, Any] | None:
        """What was told next: (steps, values), without values where it is but a sign of life; None after the end."""
        call = self._call
        if self._over:
            return None
        while not call.items:
            if call.done:
                return self._end()
            try:
                self._connection.waiter.wait(call, self._until, call.credit)
            except BaseException:
                self.close()
                raise
        item = call.items.popleft()
        if item == self._seen:
            return self._next()
        self._seen = item
        return self._told(*item)

    def _end(self) -> tuple[int, Any] | None:
        call = self._call
        self._over = True
        if self._progress is not None:
            if call.payload:
                self._progress.show(read_answer(RunReply, call.payload).steps)
            self._progress.close()
        if call.error is not None:
            self._discard()
            raise self._connection.told(call.error)
        if call.answer_lost:
            self._discard()
            if self._fetch or self._kept:
                raise DataLoss(
                    "the run has ended, and what it told last went to a connection that was lost",
                    hint="no step was lost: slots hold what its last step gave",
                )
            return None
        told = self._told(call.payload, bytes(call.bulk))
        rows: list[dict[str, Any]] = [{} for _ in range(max(1, len(self._places) // max(1, self._num_outputs)))]
        for (at, name), id in zip(self._kept, self._ids):
            rows[at // self._num_outputs][name] = Buffer(self._client, id, self._places[at])
        self._ids = []
        self.results = rows[0] if len(rows) == 1 else rows
        return told

    def _told(self, payload: bytes, bulk: bytes) -> tuple[int, Any]:
        reply = read_answer(RunReply, payload)
        self.steps = reply.steps
        self.stopped = reply.stopped
        self.execute_s = reply.execute_ns / 1e9
        if self._progress is not None:
            self._progress.show(self.steps)
        if not reply.fetched:
            return self.steps, {}
        rows: list[Values] = [{} for _ in range(max(1, len(self._places) // self._num_outputs))]
        offset = 0
        for at, name in self._fetch:
            type = self._places[at].type
            rows[at // self._num_outputs][name] = Value(type, bulk[offset : offset + type.nbytes])
            offset += type.nbytes
        if offset != len(bulk):
            raise DataLoss(f"a step's values have {len(bulk)} bytes, and the program says {offset}")
        return self.steps, rows[0] if len(rows) == 1 else rows

    def _discard(self) -> None:
        for id in self._ids:
            self._connection.discard_buffer(id, 0)
        self._ids = []

    # ---- its life ----

    def close(self) -> None:
        """Ends it between two steps, unless it has ended. It does not wait for that, but whatever comes next does."""
        if not self._over:
            self._over = True
            if self._progress is not None:
                self._progress.close()
            if not self._call.done:
                self._call.abandoned = True
                self._call.items.clear()
                self._connection.outbox.cancel(self._call)
            self._discard()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except (AttributeError, TypeError, HandleClosed):
            pass  # __init__ did not run, or the interpreter is going down

    def __repr__(self) -> str:
        return f"<pjrtd.Run {'over' if self._over else 'under way'} after {self.steps} step(s)>"
