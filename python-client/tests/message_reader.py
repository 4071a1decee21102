"""A sink for tests of HTTP/2: gRPC's messages in a stream, five bytes (compressed or not, size), then the message.

What comes is brought to a MessageReader's methods without a copy where that can be: a message that is whole in what was
read is a slice of it, and of a larger one all that has not come yet is received straight into memory that `place` says.
"""

from __future__ import annotations

from struct import Struct

from pjrtd.http2.stream import StreamSink

PREFIX_BYTES = 5
MAX_MESSAGE_BYTES = 4 << 20  # unless told otherwise

_prefix = Struct(">BI")


def prefix(size: int) -> bytes:
    """What goes before an uncompressed message of `size` bytes."""
    return _prefix.pack(0, size)


class MessageReader(StreamSink):
    """A stream's sink that reads messages. To be derived from.

    `on_message` may see a message twice, as any call of a sink: the number tells.
    """

    __slots__ = ("max_message_bytes", "_state", "_memory", "_head")

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        super().__init__()
        self.max_message_bytes = max_message_bytes
        # Position up to which the stream was dealt with; what came of a prefix; messages that came whole. It is replaced
        # as one, after what it stands for was done.
        self._state: tuple[int, bytes, int] = (0, b"", 0)
        self._memory: memoryview | None = None  # for the rest of the message that is being received
        self._head = b""  # and what was taken of it before

    def on_message(self, number: int, message: memoryview) -> None:
        """The message of that number, counted from 0. A short one is valid during the call only, unless it is copied."""
        raise NotImplementedError

    def place(self, number: int, size: int, begun: memoryview) -> tuple[int, memoryview]:
        """For a message of `size` bytes that is not there whole; `begun` has come of it. How many bytes of that are kept
        as its head, and memory for exactly the rest of the message. With a head, `on_parts` is told of it."""
        return 0, memoryview(bytearray(size))

    def on_parts(self, number: int, head: bytes, rest: memoryview) -> None:
        """The message of that number, as `place` wanted it."""
        raise NotImplementedError

    def at_boundary(self) -> bool:
        """Whether nothing of an unfinished message has come."""
        return not self._state[1] and self._memory is None

    def on_data(self, position: int, data: memoryview) -> int:
        done, head, number = self._state
        size = len(data)
        start = done - position  # more than 0 where some of it was dealt with before
        if self._memory is not None:
            return start
        while True:
            if size - start + len(head) < PREFIX_BYTES:
                if start < size:
                    self._state = (position + size, head + bytes(data[start:]), number)
                return size
            if head:
                missing = PREFIX_BYTES - len(head)
                compressed, length = _prefix.unpack(head + bytes(data[start : start + missing]))
                body = start + missing
            else:
                compressed, length = _prefix.unpack_from(data, start)
                body = start + PREFIX_BYTES
            assert not compressed and length <= self.max_message_bytes
            after = body + length
            if after > size:
                kept, memory = self.place(number, length, data[body:])
                if len(memory) != length - kept or not 0 <= kept <= size - body:
                    raise ValueError(f"the place for {length - kept} bytes of a message has {len(memory)}")
                head = bytes(data[body : body + kept])
                body += kept
                stream = self.stream
                assert stream is not None
                stream.receive_into(memory, position + body)
                # No call from here on.
                self._memory = memory
                self._head = head
                self._state = (position + body, b"", number)
                return body
            self.on_message(number, data[body:after])
            number += 1
            start = after
            head = b""
            self._state = (position + after, b"", number)

    def on_filled(self, position: int) -> None:
        done, _, number = self._state
        memory = self._memory
        if memory is None or position != done + len(memory):
            return
        if self._head:
            self.on_parts(number, self._head, memory)
        else:
            self.on_message(number, memory)
        # No call from here on.
        self._memory = None
        self._head = b""
        self._state = (position, b"", number + 1)
