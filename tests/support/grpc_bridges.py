"""The frames of the local socket carried over gRPC by a real gRPC library, so that every client and test that speaks
frames can be run over `Channel` and over unary RPCs.

A bridge gives its user one end of a socket pair and translates what comes and goes at the other. It believes its user:
what is wrong is for the daemon to find. Unary calls are made one after the other, since only their caller's waiting
orders them.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc

import wire_messages as wire
from raw_frames import CREDIT, ERROR, HEADER, ITEM, MAX_INLINE_BYTES, MAX_ITEM_BYTES, QUIET, REPLY, REQUEST, RawClient, header

BULK_FIELD = 15
# Of a stream's messages: under the daemon's 4 MiB.
PIECE_BYTES = 3 << 20
# That wait for the daemon to take them.
QUEUED_FRAMES = 64
# A payload and bulk.
MAX_FRAME_BYTES = (2 << 20) + 100
# What a client receives at most is gRPC's own default, 4 MiB: the daemon sends no larger message.
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def with_bulk(payload: bytes, bulk: bytes | bytearray | memoryview) -> bytes:
    """A unary message: its own fields, then the field `bulk`."""
    return payload + varint(BULK_FIELD << 3 | 2) + varint(len(bulk)) + bytes(bulk) if len(bulk) else payload


def error_of(failed: grpc.RpcError) -> bytes:
    """The packed Error of a call: the daemon's own, or one with gRPC's code and text."""
    for key, value in failed.trailing_metadata() or ():
        if key == "pjrtd-error-bin":
            return value
    return wire.make("Error", code=failed.code().value[0], message=failed.details() or "").SerializeToString()


class Bridge:
    """`socket` is the user's end; closing it ends the bridge."""

    def __init__(self, target: str) -> None:
        self.socket, self._inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.channel = grpc.insecure_channel(target.removeprefix("grpc://"), options=OPTIONS)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Bridge:
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            with self._inner.makefile("rb") as frames:
                while len(head := frames.read(HEADER.size)) == HEADER.size:
                    _, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns = HEADER.unpack(head)
                    self.on_frame(kind, method, flags, call, deadline_ns, frames.read(payload_bytes), frames.read(bulk_bytes))
        except OSError:
            pass
        finally:
            self.on_end()
            self.channel.close()
            self._inner.close()

    def give(self, kind: int, method: int, call: int, payload: bytes = b"", bulk: bytes | memoryview = b"") -> None:
        self._inner.sendall(b"".join((header(kind, method, call, len(payload), len(bulk)), payload, bulk)))

    def on_frame(self, kind: int, method: int, flags: int, call: int, deadline_ns: int, payload: bytes, bulk: bytes) -> None:
        raise NotImplementedError

    def on_end(self) -> None:
        """The user is gone."""


class ChannelBridge(Bridge):
    """One stream `Runtime.Channel`."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._out: queue.Queue[bytes | None] = queue.Queue(QUEUED_FRAMES)
        frames = wire.message_class("Frames")
        self._stream = self.channel.stream_stream("/pjrtd.v1.Runtime/Channel", None, frames.FromString)(self._messages())
        self.end: grpc.RpcError | None = None
        self._ended = threading.Event()
        self._back = threading.Thread(target=self._give_back, daemon=True)
        self._back.start()

    def _messages(self) -> Iterator[bytes]:
        """What the user sent in one go travels in one message: packed Frames after one another are one Frames."""
        while (message := self._out.get()) is not None:
            while len(message) < PIECE_BYTES - MAX_FRAME_BYTES:
                try:
                    more = self._out.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    yield message
                    return
                message += more
            yield message

    def _give_back(self) -> None:
        try:
            for message in self._stream:
                for frame in message.frames:
                    self.give(frame.kind, frame.method, frame.call, frame.payload, frame.bulk)
        except grpc.RpcError as error:
            self.end = error
        except OSError:
            self._stream.cancel()
        self._ended.set()
        try:
            self._inner.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def on_frame(self, kind: int, method: int, flags: int, call: int, deadline_ns: int, payload: bytes, bulk: bytes) -> None:
        frame = dict(kind=kind, method=method, flags=flags, call=call, deadline_ns=deadline_ns, payload=payload, bulk=bulk)
        self._put(wire.make("Frames", frames=[frame]).SerializeToString())

    def _put(self, message: bytes | None) -> None:
        """Waits while the daemon takes nothing, as the user's socket would have it wait."""
        while not self._ended.is_set():
            try:
                self._out.put(message, timeout=0.1)
                return
            except queue.Full:
                pass

    def on_end(self) -> None:
        """It gets a moment for a good end: whoever closes a socket does not wait for answers."""
        try:
            self._out.put(None, timeout=0.2)
            self._back.join(0.2)
        except queue.Full:
            pass
        self._stream.cancel()
        self._ended.set()


class UnaryBridge(Bridge):
    """Each request as an RPC of its own, all of one session."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._methods = {method.number: method for method in wire.methods().values()}
        self._arriving: dict[int, tuple[tuple[Any, ...], bytearray, int]] = {}
        opened = self._rpc("Session.Open", b"", b"", None)
        self.metadata = (("pjrtd-session", wire.message_class("SessionOpenReply").FromString(opened[0]).token),)

    metadata: tuple[tuple[str, str], ...] = ()

    def on_frame(self, kind: int, method: int, flags: int, call: int, deadline_ns: int, payload: bytes, bulk: bytes) -> None:
        if kind == REQUEST:
            request = (method, flags, call, deadline_ns, payload)
            announced = self._announced(method, payload)
            if announced > len(bulk) == 0:
                self._arriving[call] = (request, bytearray(), announced)
            else:
                self._perform(*request, bulk)
        elif kind == ITEM and call in self._arriving:
            request, data, announced = self._arriving[call]
            data += bulk
            self.give(CREDIT, method, call, wire.make("Credit", bytes=len(bulk)).SerializeToString())
            if len(data) >= announced:
                del self._arriving[call]
                self._perform(*request, data)

    def _announced(self, number: int, payload: bytes) -> int:
        method = self._methods.get(number)
        name, field = {"Buffer.Upload": ("UploadRequest", "data_bytes"),
                       "Program.Compile": ("CompileRequest", "code_bytes")}.get(method.key if method else "", ("", ""))
        return getattr(wire.message_class(name).FromString(payload), field) if name else 0

    def _rpc(self, key: str, payload: bytes, bulk: bytes | bytearray, timeout_s: float | None) -> list[bytes]:
        """The raw messages of the answer."""
        family, _, name = key.partition(".")
        # A hello of no session tells the limits and the versions.
        path, options = f"/pjrtd.v1.{family}/{name}", dict(timeout=timeout_s, metadata=() if name == "Hello" else self.metadata)
        if key in ("Buffer.Upload", "Program.Compile"):
            def pieces() -> Any:
                yield with_bulk(payload, bulk[:PIECE_BYTES])
                for at in range(PIECE_BYTES, len(bulk), PIECE_BYTES):
                    yield with_bulk(b"", bulk[at : at + PIECE_BYTES])
            return [self.channel.stream_unary(path)(pieces(), **options)]
        if key == "Buffer.Download":
            return list(self.channel.unary_stream(path)(payload, **options))
        return [self.channel.unary_unary(path)(with_bulk(payload, bulk), **options)]

    def _perform(self, number: int, flags: int, call: int, deadline_ns: int, payload: bytes, bulk: bytes | bytearray) -> None:
        method = self._methods.get(number)
        key = method.key if method else "Runtime.Unknown"
        try:
            answers = self._rpc(key, payload, bulk, deadline_ns / 1e9 if deadline_ns else None)
        except grpc.RpcError as failed:
            self.give(ERROR, number, call, error_of(failed))
            return
        if flags & QUIET:
            return
        assert method is not None
        reply = wire.message_class(method.reply).FromString(answers[0])
        data = getattr(reply, "bulk", b"")
        if data:
            reply.ClearField("bulk")
        for answer in answers[1:]:
            data += wire.message_class(method.reply).FromString(answer).bulk
        inline = len(data) <= MAX_INLINE_BYTES
        self.give(REPLY, number, call, reply.SerializeToString(), data if inline else b"")
        view = memoryview(data)
        for at in range(0, 0 if inline else len(data), MAX_ITEM_BYTES):
            self.give(ITEM, number, call, b"", view[at : at + MAX_ITEM_BYTES])

    def on_end(self) -> None:
        try:
            self._rpc("Session.Close", b"", b"", 10)
        except grpc.RpcError:
            pass  # a test has closed it, or the daemon is gone


BRIDGES = {"channel": ChannelBridge, "unary": UnaryBridge}


def connect(target: str, over: str, **options: Any) -> RawClient:
    """A client of the daemon at `target`: over its local socket ("unix"), or by the bridge of that name."""
    if over == "unix":
        return RawClient(target.removeprefix("unix:"), **options)
    return RawClient(BRIDGES[over](target).start().socket, **options)
