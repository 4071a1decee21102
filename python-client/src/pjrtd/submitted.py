"""An execution whose answer is a future's: which of its results are buffers, and how the values of the others come."""

from __future__ import annotations

from ._proto.execute import ExecuteReply
from .buffer import Buffer, Placement
from .call import Call, read_answer
from .errors import DataLoss
from .value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .client import Client
    from .connection import Connection


class Submitted:
    """See the module. Positions are device-major.

    inline: whose values are in the answer, in this order. apart: whose values are downloaded, since they are large; the
    calls after the execution's are these. ids: of what has one, by position.
    """

    __slots__ = ("_client", "_places", "_inline", "_apart", "_ids", "_lost")

    def __init__(self, client: Client, places: Sequence[Placement], inline: Sequence[int], apart: Sequence[int]) -> None:
        self._client = client
        self._places = places
        self._inline = list(inline)
        self._apart = list(apart)
        self._ids: dict[int, bytes] = {}
        self._lost = False

    @property
    def _connection(self) -> Connection:
        return self._client._connection  # pyright: ignore[reportPrivateUsage]

    def made(self, positions: Sequence[int], ids: list[bytes]) -> None:
        """The request is sent, with these ids for the outputs at these positions."""
        self._ids = dict(zip(positions, ids))

    def download(self, at: int, until: float | None, wait: bool) -> Call:
        """Asks for a value that does not come with the answer."""
        size = self._places[at].type.nbytes
        whole = memoryview(bytearray(size)) if size > self._connection.max_inline_bytes else None
        return self._connection.start_download(self._ids[at], size, whole, until, wait)

    def downloads(self, until: float | None, wait: bool) -> list[Call]:
        return [self.download(at, until, wait) for at in self._apart]

    def after_loss(self, calls: list[Call]) -> list[Call]:
        """The answer went to a connection that was lost: what came with it is downloaded."""
        self._lost = True
        calls[0].answer_lost = False
        # Without waiting for room: this may be whoever makes room.
        again = [self.download(at, None, False) for at in self._inline]
        self._apart = self._inline + self._apart
        self._inline = []
        return [calls[0], *again, *calls[1:]]

    def finish(self, calls: list[Call]) -> list[Any]:
        """Values and buffers, by position; None for what is neither fetched nor kept."""
        results: list[Any] = [None] * len(self._places)
        data = calls[0].bulk
        offset = 0
        reply = read_answer(ExecuteReply, calls[0].payload)
        if len(reply.fetched) != len(self._inline):
            raise DataLoss(f"the daemon answers with {len(reply.fetched)} values, and was asked for {len(self._inline)}")
        for at in self._inline:
            type = self._places[at].type
            results[at] = Value(type, data[offset : offset + type.nbytes])
            offset += type.nbytes
        for at, call in zip(self._apart, calls[1:]):
            whole = call.destination
            results[at] = Value(self._places[at].type, call.bulk if whole is None else whole.obj)  # type: ignore[arg-type]
            call.destination = None
        for at in [at for at in self._ids if results[at] is None]:
            results[at] = Buffer(self._client, self._ids.pop(at), self._places[at])
        return results

    def __del__(self) -> None:
        try:
            for at, id in self._ids.items():
                self._connection.discard_buffer(id, self._places[at].type.nbytes)
        except (AttributeError, TypeError):
            pass  # __init__ did not run, or the interpreter is going down
