"""Values: arrays that came with an answer."""

from __future__ import annotations

from .errors import InvalidArgument
from .readable import Readable, writable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor_type import TensorType


class Value(Readable):
    """An array of the host: what was fetched of a program's results. It reads like a Buffer, and waits for nothing."""

    __slots__ = ("_type", "_data")

    def __init__(self, type: TensorType, data: bytes | bytearray) -> None:
        self._type = type
        self._data = data

    @property
    def type(self) -> TensorType:
        return self._type

    def to_host(self, out: Any = None, *, timeout: float | None = None) -> Any:
        """The data: dense, row-major, little-endian. out: a writable object of `nbytes` bytes to fill and return."""
        if out is None:
            return self._data
        view, finish = writable(out)
        if view.nbytes != len(self._data):
            raise InvalidArgument(f"out has {view.nbytes} bytes, and the value, {self._type}, has {len(self._data)}")
        view[:] = self._data
        if finish is not None:
            finish()
        return out

    def __repr__(self) -> str:
        return f"<pjrtd.Value {self._type}>"
