"""The other end of an HTTP/2 connection in memory: the `h2` package as a server, or frames by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event

from pjrtd.http2 import frames
from pjrtd.http2.client_connection import ClientConnection
from pjrtd.http2.http2_errors import Http2Error
from pjrtd.http2.stream import Stream, StreamSink

REQUEST = [
    *[(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b":authority", b"localhost:7578")],
    *[(b"te", b"trailers"), (b"content-type", b"application/grpc")],
]
ANSWER = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TRAILERS = [(b"grpc-status", b"0")]


class Recorder(StreamSink):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.headers: list[tuple[bytes, bytes]] | None = None
        self.data = bytearray()
        self.trailers: list[tuple[bytes, bytes]] | None = None
        self.ended = False
        self.error: Http2Error | None = None

    def on_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        assert self.headers is None and not self.ended
        self.headers = headers

    def on_data(self, position: int, data: memoryview) -> int:
        assert self.headers is not None and not self.ended and position == len(self.data)
        self.data += data
        return len(data)

    def on_trailers(self, headers: list[tuple[bytes, bytes]]) -> None:
        assert self.trailers is None and not self.ended
        self.trailers = headers

    def on_end(self, error: Http2Error | None) -> None:
        assert not self.ended
        self.ended = True
        self.error = error

    @property
    def opened(self) -> Stream:
        assert self.stream is not None
        return self.stream


def receive(client: ClientConnection, data: bytes, rng: random.Random | None = None, directly: bool = True) -> None:
    """Gives the client bytes the way that recvmsg_into does, or recv_into: in pieces of any size."""
    view = memoryview(data)
    while view:
        buffers = client.receive_buffers()
        if not directly or rng is not None and rng.random() < 0.3:
            buffers = buffers[:1]
        limit = len(view) if rng is None else rng.choice((1, 3, 9, 20, 500, 10_000, 1 << 20))
        count = 0
        for buffer in buffers:
            assert len(buffer)
            size = min(len(buffer), len(view), limit - count)
            buffer[:size] = view[:size]
            view = view[size:]
            count += size
        client.received(client._total + count)


def drained(client: ClientConnection) -> bytes:
    client.pump()
    queue: list[bytes | memoryview] = []
    client.drain(queue)
    return b"".join(queue)


def split(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """(type, flags, stream, payload) of each frame; the preface is left out."""
    data = data.removeprefix(frames.PREFACE)
    found: list[tuple[int, int, int, bytes]] = []
    pos = 0
    while pos < len(data):
        size, kind, flags, stream = frames.unpack_header(data, pos)
        found.append((kind, flags, stream, data[pos + 9 : pos + 9 + size]))
        pos += 9 + size
    assert pos == len(data)
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frames.pack_header(len(payload), kind, flags, stream) + payload


class H2Server:
    """An h2 server. `on_event` is called with each of its events."""

    def __init__(
        self, client: ClientConnection, on_event: Callable[[Event], None] | None = None, seed: int | None = None
    ) -> None:
        self.client = client
        self.on_event = on_event
        self.rng = None if seed is None else random.Random(seed)
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None, validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.events: list[Event] = []
        self.sent = bytearray()  # to the client

    def exchange(self) -> None:
        """Carries bytes until both have nothing to say."""
        while True:
            outward = drained(self.client)
            while outward:
                size = len(outward) if self.rng is None else self.rng.randrange(1, len(outward) + 1)
                for event in self.h2.receive_data(outward[:size]):
                    self.events.append(event)
                    if self.on_event is not None:
                        self.on_event(event)
                outward = outward[size:]
            inward = self.h2.data_to_send()
            if inward:
                self.sent += inward
                receive(self.client, inward, self.rng)
            elif not self.client.backlog:
                return

    def seen(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
