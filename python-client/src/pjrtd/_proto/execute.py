"""Running programs."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/execute.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .common import TensorType
from .wire import (
    check_oneof,
    get_bool,
    get_bytes,
    get_size,
    get_string,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bool,
    put_bytes,
    put_string,
    put_uint32,
    put_uint64,
    skip,
)


class InlineArgument(Message):
    """An argument given by value: in increasing position. The data of all of them, in this order, is the bulk of the request."""

    __slots__ = ("position", "type", "data_bytes")

    def __init__(
        self,
        position: int = 0,
        type: TensorType | None = None,
        data_bytes: int = 0,
    ) -> None:
        self.position: int = position
        self.type: TensorType | None = type
        self.data_bytes: int = data_bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.position:
            out += b"\x08"
            put_uint32(out, self.position)
        if self.type is not None:
            out += b"\x12"
            put_bytes(out, self.type.encode())
        if self.data_bytes:
            out += b"\x18"
            put_uint64(out, self.data_bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.position, pos = get_uint32(data, pos, end)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 24:
                self.data_bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class SlotArgument(Message):
    """An argument that is what a named slot of the session holds: in increasing position."""

    __slots__ = ("position", "slot")

    def __init__(
        self,
        position: int = 0,
        slot: str = "",
    ) -> None:
        self.position: int = position
        self.slot: str = slot

    def encode(self) -> bytes:
        out = bytearray()
        if self.position:
            out += b"\x08"
            put_uint32(out, self.position)
        if self.slot:
            out += b"\x12"
            put_string(out, self.slot)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.position, pos = get_uint32(data, pos, end)
            elif tag == 18:
                self.slot, pos = get_string(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class FeedBack(Message):
    """An output that a slot holds from now on, which is made where there is none: calls that come later find it there, and
    wait for it. Where the execution fails the slot has what it had before, unless that was consumed.
    """

    __slots__ = ("output", "slot", "argument")

    def __init__(
        self,
        output: int = 0,
        slot: str = "",
        argument: int = 0,
    ) -> None:
        self.output: int = output
        self.slot: str = slot
        self.argument: int = argument

    def encode(self) -> bytes:
        out = bytearray()
        if self.output:
            out += b"\x08"
            put_uint32(out, self.output)
        if self.slot:
            out += b"\x12"
            put_string(out, self.slot)
        if self.argument:
            out += b"\x18"
            put_uint32(out, self.argument)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.output, pos = get_uint32(data, pos, end)
            elif tag == 18:
                self.slot, pos = get_string(data, pos, end)
            elif tag == 24:
                self.argument, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ExecuteRequest(Message):
    """Lists are device-major: all of the first device's arguments, then the second's."""

    __slots__ = ("program", "args", "outputs", "fetch", "inline_args", "slot_args", "feed_back", "non_donatable", "bulk")

    def __init__(
        self,
        program: int = 0,
        args: Iterable[int] = (),
        outputs: Iterable[int] = (),
        fetch: Iterable[int] = (),
        inline_args: Iterable[InlineArgument] = (),
        slot_args: Iterable[SlotArgument] = (),
        feed_back: Iterable[FeedBack] = (),
        non_donatable: Iterable[int] = (),
        bulk: bytes = b"",
    ) -> None:
        self.program: int = program
        self.args: list[int] = list(args)
        self.outputs: list[int] = list(outputs)
        self.fetch: list[int] = list(fetch)
        self.inline_args: list[InlineArgument] = list(inline_args)
        self.slot_args: list[SlotArgument] = list(slot_args)
        self.feed_back: list[FeedBack] = list(feed_back)
        self.non_donatable: list[int] = list(non_donatable)
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        if self.program:
            out += b"\x08"
            put_uint64(out, self.program)
        if self.args:
            packed = bytearray()
            for value in self.args:
                put_uint64(packed, value)
            out += b"\x12"
            put_bytes(out, packed)
        if self.outputs:
            packed = bytearray()
            for value in self.outputs:
                put_uint64(packed, value)
            out += b"\x1a"
            put_bytes(out, packed)
        if self.fetch:
            packed = bytearray()
            for value in self.fetch:
                put_uint32(packed, value)
            out += b"\x22"
            put_bytes(out, packed)
        for value in self.inline_args:
            out += b"\x2a"
            put_bytes(out, value.encode())
        for value in self.slot_args:
            out += b"\x32"
            put_bytes(out, value.encode())
        for value in self.feed_back:
            out += b"\x3a"
            put_bytes(out, value.encode())
        if self.non_donatable:
            packed = bytearray()
            for value in self.non_donatable:
                put_uint32(packed, value)
            out += b"\x42"
            put_bytes(out, packed)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.program, pos = get_uint64(data, pos, end)
            elif tag == 16:
                value, pos = get_uint64(data, pos, end)
                self.args.append(value)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint64(data, pos, stop)
                    self.args.append(value)
            elif tag == 24:
                value, pos = get_uint64(data, pos, end)
                self.outputs.append(value)
            elif tag == 26:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint64(data, pos, stop)
                    self.outputs.append(value)
            elif tag == 32:
                value, pos = get_uint32(data, pos, end)
                self.fetch.append(value)
            elif tag == 34:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint32(data, pos, stop)
                    self.fetch.append(value)
            elif tag == 42:
                size, pos = get_size(data, pos, end)
                item = InlineArgument()
                item.merge(data, pos, pos + size)
                self.inline_args.append(item)
                pos += size
            elif tag == 50:
                size, pos = get_size(data, pos, end)
                item = SlotArgument()
                item.merge(data, pos, pos + size)
                self.slot_args.append(item)
                pos += size
            elif tag == 58:
                size, pos = get_size(data, pos, end)
                item = FeedBack()
                item.merge(data, pos, pos + size)
                self.feed_back.append(item)
                pos += size
            elif tag == 64:
                value, pos = get_uint32(data, pos, end)
                self.non_donatable.append(value)
            elif tag == 66:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint32(data, pos, stop)
                    self.non_donatable.append(value)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class FetchedTensor(Message):
    __slots__ = ("position", "type", "data_bytes")

    def __init__(
        self,
        position: int = 0,
        type: TensorType | None = None,
        data_bytes: int = 0,
    ) -> None:
        self.position: int = position
        self.type: TensorType | None = type
        self.data_bytes: int = data_bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.position:
            out += b"\x08"
            put_uint32(out, self.position)
        if self.type is not None:
            out += b"\x12"
            put_bytes(out, self.type.encode())
        if self.data_bytes:
            out += b"\x18"
            put_uint64(out, self.data_bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.position, pos = get_uint32(data, pos, end)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                if self.type is None:
                    self.type = TensorType()
                self.type.merge(data, pos, pos + size)
                pos += size
            elif tag == 24:
                self.data_bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class ExecuteReply(Message):
    """The data of the fetched outputs, in this order (the request's), is the bulk of the reply."""

    __slots__ = ("fetched", "consumed", "execute_ns", "bulk")

    def __init__(
        self,
        fetched: Iterable[FetchedTensor] = (),
        consumed: Iterable[int] = (),
        execute_ns: int = 0,
        bulk: bytes = b"",
    ) -> None:
        self.fetched: list[FetchedTensor] = list(fetched)
        self.consumed: list[int] = list(consumed)
        self.execute_ns: int = execute_ns
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        for value in self.fetched:
            out += b"\x0a"
            put_bytes(out, value.encode())
        if self.consumed:
            packed = bytearray()
            for value in self.consumed:
                put_uint32(packed, value)
            out += b"\x12"
            put_bytes(out, packed)
        if self.execute_ns:
            out += b"\x18"
            put_uint64(out, self.execute_ns)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                item = FetchedTensor()
                item.merge(data, pos, pos + size)
                self.fetched.append(item)
                pos += size
            elif tag == 16:
                value, pos = get_uint32(data, pos, end)
                self.consumed.append(value)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint32(data, pos, stop)
                    self.consumed.append(value)
            elif tag == 24:
                self.execute_ns, pos = get_uint64(data, pos, end)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class RunRequest(Message):
    """Many steps of a program, each with outputs of the one before: a training loop, or a decode loop.
    
    What `step.feed_back` gives to a slot, the next step has in every argument that is that slot, and the slot holds it when
    the run has ended, however it ended: a run that fails, is cancelled or passes its deadline stops between steps, and its
    slots hold what the last whole step gave. The outputs with ids are those of the last step.
    """

    __slots__ = ("step", "steps", "stacked", "until", "every", "progress_ns", "bulk")

    def __init__(
        self,
        step: ExecuteRequest | None = None,
        steps: int = 0,
        stacked: Iterable[int] = (),
        until: int | None = None,
        every: int = 0,
        progress_ns: int = 0,
        bulk: bytes = b"",
    ) -> None:
        self.step: ExecuteRequest | None = step
        self.steps: int = steps
        self.stacked: list[int] = list(stacked)
        self.until: int | None = until
        self.every: int = every
        self.progress_ns: int = progress_ns
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        check_oneof("stop", self.until)
        if self.step is not None:
            out += b"\x0a"
            put_bytes(out, self.step.encode())
        if self.steps:
            out += b"\x10"
            put_uint64(out, self.steps)
        if self.stacked:
            packed = bytearray()
            for value in self.stacked:
                put_uint32(packed, value)
            out += b"\x1a"
            put_bytes(out, packed)
        if self.until is not None:
            out += b"\x20"
            put_uint32(out, self.until)
        if self.every:
            out += b"\x28"
            put_uint64(out, self.every)
        if self.progress_ns:
            out += b"\x30"
            put_uint64(out, self.progress_ns)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 10:
                size, pos = get_size(data, pos, end)
                if self.step is None:
                    self.step = ExecuteRequest()
                self.step.merge(data, pos, pos + size)
                pos += size
            elif tag == 16:
                self.steps, pos = get_uint64(data, pos, end)
            elif tag == 24:
                value, pos = get_uint32(data, pos, end)
                self.stacked.append(value)
            elif tag == 26:
                size, pos = get_size(data, pos, end)
                stop = pos + size
                while pos < stop:
                    value, pos = get_uint32(data, pos, stop)
                    self.stacked.append(value)
            elif tag == 32:
                self.until, pos = get_uint32(data, pos, end)
            elif tag == 40:
                self.every, pos = get_uint64(data, pos, end)
            elif tag == 48:
                self.progress_ns, pos = get_uint64(data, pos, end)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class RunReply(Message):
    """On a connection, ITEM frames of the call carry it after steps, and the REPLY at the end; over gRPC outside Channel it is
    a stream of these. Values are sent once: the last one has those of the last step unless they were sent before.
    """

    __slots__ = ("steps", "fetched", "stopped", "execute_ns", "bulk")

    def __init__(
        self,
        steps: int = 0,
        fetched: Iterable[FetchedTensor] = (),
        stopped: bool = False,
        execute_ns: int = 0,
        bulk: bytes = b"",
    ) -> None:
        self.steps: int = steps
        self.fetched: list[FetchedTensor] = list(fetched)
        self.stopped: bool = stopped
        self.execute_ns: int = execute_ns
        self.bulk: bytes = bulk

    def encode(self) -> bytes:
        out = bytearray()
        if self.steps:
            out += b"\x08"
            put_uint64(out, self.steps)
        for value in self.fetched:
            out += b"\x12"
            put_bytes(out, value.encode())
        if self.stopped:
            out += b"\x18"
            put_bool(out, self.stopped)
        if self.execute_ns:
            out += b"\x20"
            put_uint64(out, self.execute_ns)
        if self.bulk:
            out += b"\x7a"
            put_bytes(out, self.bulk)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.steps, pos = get_uint64(data, pos, end)
            elif tag == 18:
                size, pos = get_size(data, pos, end)
                item = FetchedTensor()
                item.merge(data, pos, pos + size)
                self.fetched.append(item)
                pos += size
            elif tag == 24:
                self.stopped, pos = get_bool(data, pos, end)
            elif tag == 32:
                self.execute_ns, pos = get_uint64(data, pos, end)
            elif tag == 122:
                self.bulk, pos = get_bytes(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)
