"""A client of the frame protocol that checks nothing, so that the daemon has to.

It sends what a test says, right or wrong, and understands what comes back. `RawClient.call` and the helpers at the end
keep the rules (inline bulk, items under credit); everything below them is bytes.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import wire_messages as wire

HEADER = struct.Struct("<4sIIHBBQQ")
MAGIC = b"PJRT"
REQUEST, REPLY, ERROR, ITEM, END, CANCEL, CREDIT, NOTICE = range(1, 9)
QUIET = 1

MAX_PAYLOAD_BYTES = 1 << 20
MAX_INLINE_BYTES = 64 << 10
MAX_ITEM_BYTES = 1 << 20

# Codes that tests name.
CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED = 1, 2, 3, 4, 5, 6, 7
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 9, 10, 12, 13, 14


class Frame(NamedTuple):
    kind: int
    method: int
    flags: int
    call: int
    deadline_ns: int
    payload: bytes | bytearray
    bulk: bytes | bytearray


class CallFailed(Exception):
    """An ERROR frame; `detail` is its `Error` message."""

    def __init__(self, detail: Any) -> None:
        super().__init__(f"{detail.code}: {detail.message}")
        self.detail = detail
        self.code: int = detail.code
        self.message: str = detail.message
        self.hint: str = detail.hint


class Closed(Exception):
    """The daemon closed the connection; `frames` came before that and were not read yet."""


def header(
    kind: int = REQUEST,
    method: int = 0,
    call: int = 1,
    payload_bytes: int = 0,
    bulk_bytes: int = 0,
    flags: int = 0,
    deadline_ns: int = 0,
    magic: bytes = MAGIC,
) -> bytes:
    """The 32 bytes of a frame header, true or not."""
    return HEADER.pack(magic, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns)


def frame(
    kind: int = REQUEST,
    method: int | str = 0,
    call: int = 1,
    payload: Any = b"",
    bulk: bytes | memoryview = b"",
    flags: int = 0,
    deadline_ns: int = 0,
) -> bytes:
    """A whole frame with true lengths. `payload` is bytes or a message."""
    number = wire.methods()[method].number if isinstance(method, str) else method
    body = payload if isinstance(payload, bytes) else payload.SerializeToString()
    return b"".join((header(kind, number, call, len(body), len(bulk), flags, deadline_ns), body, bulk))


class RawClient:
    """One connection. `path` is the socket's, or a socket that is connected. Not for several threads."""

    def __init__(
        self,
        path: str | os.PathLike[str] | socket.socket,
        *,
        hello: bool = True,
        name: str = "raw",
        download_credit_bytes: int = 0,
        timeout: float = 30.0,
        receive_buffer_bytes: int = 0,
        last_call: int = 0,
    ) -> None:
        connected = isinstance(path, socket.socket)
        self.socket = path if connected else socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout)
        if not connected:
            self.socket.connect(os.fspath(path))
        self.timeout = timeout
        self.last_call = last_call  # of the connection that this one goes on with
        self._received = bytearray()
        self._buffer = bytearray(1 << 16)
        self._frames: dict[int, deque[Frame]] = defaultdict(deque)
        self._granted: dict[int, int] = defaultdict(int)
        self._last_id = {"buffer": 0, "program": 0}
        self.hello: Any = None
        self.download_window = download_credit_bytes
        if hello:
            self.hello = self.call(
                "Runtime.Hello",
                min_version=1,
                max_version=1,
                client_name=name,
                download_credit_bytes=download_credit_bytes,
            )

    # -- bytes ----------------------------------------------------------------

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes | bytearray | memoryview) -> None:
        self.socket.sendall(data)

    def send_with_descriptors(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Sends all of `data`, the descriptors with its first byte."""
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = self.socket.sendmsg([data], ancillary)
        self.socket.sendall(data[sent:])

    def next_call(self) -> int:
        self.last_call += 1
        return self.last_call

    def send(self, method: int | str, payload: Any = b"", bulk: bytes | memoryview = b"", *, call: int | None = None,
             flags: int = 0, deadline_ns: int = 0) -> int:
        """Sends a REQUEST and returns its call id."""
        chosen = self.next_call() if call is None else call
        self.send_bytes(frame(REQUEST, method, chosen, payload, bulk, flags, deadline_ns))
        return chosen

    def _receive_into(self, place: memoryview) -> int:
        try:
            return self.socket.recv_into(place)
        except ConnectionResetError:
            return 0

    def _read(self, count: int) -> bytes | bytearray:
        if count > 1 << 16 and len(self._received) < count:  # bulk goes where it stays
            whole = bytearray(count)
            have = len(self._received)
            whole[:have] = self._received
            self._received.clear()
            with memoryview(whole) as view:
                while have < count:
                    got = self._receive_into(view[have:])
                    if not got:
                        raise Closed(f"closed with {have} bytes of an unfinished frame")
                    have += got
            return whole
        while len(self._received) < count:
            got = self._receive_into(memoryview(self._buffer))
            if not got:
                raise Closed(f"closed with {len(self._received)} bytes of an unfinished frame")
            self._received += memoryview(self._buffer)[:got]
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    def receive(self) -> Frame:
        """The next frame in order of arrival. Closed at the end of the stream, TimeoutError after `timeout`."""
        head = self._read(HEADER.size)
        magic, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns = HEADER.unpack(head)
        assert magic == MAGIC, f"the daemon sent a frame with magic {magic!r}"
        assert payload_bytes <= MAX_PAYLOAD_BYTES and bulk_bytes <= (MAX_ITEM_BYTES if kind == ITEM else MAX_INLINE_BYTES)
        assert kind in (REPLY, ERROR, ITEM, END, CREDIT, NOTICE), f"the daemon sent a frame of kind {kind}"
        assert flags == 0 and deadline_ns == 0
        return Frame(kind, method, flags, call, deadline_ns, self._read(payload_bytes), self._read(bulk_bytes))

    def receive_until_closed(self) -> list[Frame]:
        """Every frame up to the end of the stream, which has to come within `timeout`."""
        frames: list[Frame] = [frame for queue in self._frames.values() for frame in queue]
        with contextlib.suppress(Closed):
            while True:
                frames.append(self.receive())
        assert not self._received, "the daemon closed in the middle of a frame"
        return frames

    def has_input(self, seconds: float) -> bool:
        """Whether a byte (or the end) comes within that time."""
        if self._received:
            return True
        self.socket.settimeout(seconds)
        try:
            more = self.socket.recv(1 << 18)
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(self.timeout)
        self._received += more
        return True

    def receive_of(self, call: int) -> Frame:
        """The next frame of that call; frames of others wait for their turn, credit is booked."""
        while not self._frames[call]:
            got = self.receive()
            if got.kind == CREDIT:
                self._granted[got.call] += wire.message_class("Credit").FromString(got.payload).bytes
            else:
                self._frames[got.call].append(got)
        return self._frames[call].popleft()

    # -- calls ----------------------------------------------------------------

    def answer(self, call: int) -> Frame:
        """The REPLY of the call; CallFailed where it is an ERROR."""
        got = self.receive_of(call)
        if got.kind == ERROR:
            raise CallFailed(wire.message_class("Error").FromString(got.payload))
        assert got.kind == REPLY, f"a {got.kind} frame where the answer of call {call} belongs"
        return got

    def reply(self, call: int, method: str) -> Any:
        return wire.message_class(wire.methods()[method].reply).FromString(self.answer(call).payload)

    def start(self, method: str, bulk: bytes | memoryview = b"", *, deadline_ns: int = 0, quiet: bool = False,
              **fields: Any) -> int:
        return self.send(method, wire.make(wire.methods()[method].request, **fields), bulk,
                         flags=QUIET if quiet else 0, deadline_ns=deadline_ns)

    def call(self, method: str, bulk: bytes | memoryview = b"", *, deadline_ns: int = 0, **fields: Any) -> Any:
        return self.reply(self.start(method, bulk, deadline_ns=deadline_ns, **fields), method)

    def failure(self, method: str, bulk: bytes | memoryview = b"", *, deadline_ns: int = 0, **fields: Any) -> CallFailed:
        """The call has to fail; how it did."""
        return self.failure_of(self.start(method, bulk, deadline_ns=deadline_ns, **fields))

    def failure_of(self, call: int) -> CallFailed:
        try:
            answered = self.answer(call)
        except CallFailed as failed:
            return failed
        raise AssertionError(f"call {call} succeeded: {answered}")

    def send_control(self, kind: int, call: int, payload: Any = b"", bulk: bytes | memoryview = b"",
                     method: int | str = 0) -> None:
        self.send_bytes(frame(kind, method, call, payload, bulk))

    def cancel(self, call: int, method: int | str) -> None:
        self.send_control(CANCEL, call, method=method)

    def grant(self, call: int, count: int, method: int | str = "Buffer.Download") -> None:
        self.send_control(CREDIT, call, wire.make("Credit", bytes=count), method=method)

    # -- sessions ----

    def attach(self, **fields: Any) -> Any:
        """Session.Attach; ids are of that session from then on."""
        reply = self.call("Session.Attach", **fields)
        self.hello.id_prefix = reply.id_prefix
        self._last_id = {"buffer": reply.highest_buffer & (1 << 48) - 1, "program": reply.highest_program & (1 << 48) - 1}
        return reply

    # -- ids ------------------------------------------------------------------

    def _new_id(self, kind: str) -> int:
        self._last_id[kind] += 1
        return self.hello.id_prefix << 48 | self._last_id[kind]

    def new_buffer(self) -> int:
        return self._new_id("buffer")

    def new_program(self) -> int:
        return self._new_id("program")

    # -- bulk, by the rules -----------------------------------------------------

    def send_items(self, call: int, method: str, data: bytes | memoryview, window: int, item_bytes: int = MAX_ITEM_BYTES) -> None:
        """Sends `data` as ITEM frames, never more than `window` ahead of what was granted. Stops when the call fails."""
        view = memoryview(data)
        number = wire.methods()[method].number
        sent = 0
        while sent < len(view):
            room = window + self._granted[call] - sent
            while room <= 0:
                if self._frames[call]:
                    return
                self._take_one()
                room = window + self._granted[call] - sent
            size = min(item_bytes, room, len(view) - sent)
            self.send_bytes(header(ITEM, number, call, 0, size))
            self.send_bytes(view[sent : sent + size])
            sent += size

    def _take_one(self) -> None:
        got = self.receive()
        if got.kind == CREDIT:
            self._granted[got.call] += wire.message_class("Credit").FromString(got.payload).bytes
        else:
            self._frames[got.call].append(got)

    def start_upload(self, dtype: int | str, dims: Sequence[int], data: bytes | memoryview, *, buffer: int | None = None,
                     deadline_ns: int = 0, item_bytes: int = MAX_ITEM_BYTES, quiet: bool = False, **placement: int) -> tuple[int, int]:
        """Sends an upload whole; (buffer id, call id)."""
        chosen = self.new_buffer() if buffer is None else buffer
        number = wire.dtype_numbers()[dtype] if isinstance(dtype, str) else dtype
        inline = len(data) <= MAX_INLINE_BYTES
        call = self.start("Buffer.Upload", data if inline else b"", deadline_ns=deadline_ns, quiet=quiet, buffer=chosen,
                          type=dict(dtype=number, dims=dims), data_bytes=len(data), **placement)
        if not inline:
            self.send_items(call, "Buffer.Upload", data, self.hello.upload_credit_bytes, item_bytes)
        return chosen, call

    def upload(self, dtype: int | str, dims: Sequence[int], data: bytes | memoryview, **options: Any) -> int:
        buffer, call = self.start_upload(dtype, dims, data, **options)
        self.reply(call, "Buffer.Upload")
        return buffer

    def start_compile(self, code: str | bytes, *, program: int | None = None, deadline_ns: int = 0, quiet: bool = False,
                      **fields: Any) -> tuple[int, int]:
        chosen = self.new_program() if program is None else program
        text = code.encode() if isinstance(code, str) else code
        inline = len(text) <= MAX_INLINE_BYTES
        call = self.start("Program.Compile", text if inline else b"", deadline_ns=deadline_ns, quiet=quiet,
                          **(dict(program=chosen, code_bytes=len(text)) | fields))
        if not inline:
            self.send_items(call, "Program.Compile", text, self.hello.upload_credit_bytes)
        return chosen, call

    def compile(self, code: str | bytes, **options: Any) -> int:
        program, call = self.start_compile(code, **options)
        self.reply(call, "Program.Compile")
        return program

    def download(self, buffer: int, deadline_ns: int = 0) -> bytes:
        return self.finish_download(self.start("Buffer.Download", buffer=buffer, deadline_ns=deadline_ns))

    def finish_download(self, call: int) -> bytes:
        answered = self.answer(call)
        reply = wire.message_class("DownloadReply").FromString(answered.payload)
        if answered.bulk or not reply.data_bytes:
            assert len(answered.bulk) == reply.data_bytes
            return answered.bulk
        data = bytearray()
        while len(data) < reply.data_bytes:
            item = self.receive_of(call)
            if item.kind == ERROR:
                raise CallFailed(wire.message_class("Error").FromString(item.payload))
            assert item.kind == ITEM and item.bulk, f"a {item.kind} frame among the items of a download"
            data += item.bulk
            self.grant(call, len(item.bulk))
        assert len(data) == reply.data_bytes
        return bytes(data)

    def start_execute(self, program: int, args: Sequence[int], num_outputs: int = 1, *, outputs: Sequence[int] | None = None,
                      deadline_ns: int = 0, quiet: bool = False, **fields: Any) -> tuple[list[int], int]:
        chosen = [self.new_buffer() for _ in range(num_outputs)] if outputs is None else list(outputs)
        call = self.start("Execute.Execute", program=program, args=args, outputs=chosen, deadline_ns=deadline_ns,
                          quiet=quiet, **fields)
        return chosen, call

    def execute(self, program: int, args: Sequence[int], num_outputs: int = 1, **options: Any) -> list[int]:
        outputs, call = self.start_execute(program, args, num_outputs, **options)
        self.reply(call, "Execute.Execute")
        return outputs

    def stats(self) -> Any:
        return self.call("Admin.Stats")


@contextlib.contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Fails when the block takes longer."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert took < seconds, f"{what} took {took:.2f} s, more than {seconds} s"
