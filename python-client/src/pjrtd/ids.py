"""The ids that a connection chooses for its buffers and programs, as the protobuf varints that they travel as."""

from __future__ import annotations

from ._proto.wire import varint

_MORE = tuple(bytes((low | 128,)) for low in range(128))  # seven bits of a varint that goes on

BELOW_PREFIX = (1 << 48) - 1


class IdSequence:
    """Ids with a connection's prefix in the top 16 bits, 1, 2, 3, ... below. Not thread-safe."""

    __slots__ = ("_next", "_high", "_high_bytes")

    def __init__(self, prefix: int, above: int = 0) -> None:
        """above: the first id is higher than this one, whatever that one's prefix."""
        self._next = prefix << 48 | (above & BELOW_PREFIX) + 1
        self._high = 0
        self._high_bytes = b""

    @property
    def next(self) -> int:
        """The id that `take` gives next, as a number."""
        return self._next

    @property
    def above(self) -> int:
        """The id before it, without the prefix."""
        return (self._next - 1) & BELOW_PREFIX

    def take(self) -> bytes:
        """The next id. A varint is made of groups of seven bits, lowest first; all but two rarely change."""
        value = self._next
        self._next = value + 1
        high = value >> 14
        if high != self._high:
            self._high_bytes = varint(high)
            self._high = high
        if not high:
            return varint(value)
        return _MORE[value & 127] + _MORE[value >> 7 & 127] + self._high_bytes
