"""An HTTP/2 connection over a real socket: one thread receives, another sends, without a lock between the two."""

from __future__ import annotations

import random
import select
import socket
import sys
import threading
import time
from typing import Any

import pytest
from conftest import PATIENCE
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RequestReceived, SettingsAcknowledged, StreamEnded
from h2.settings import SettingCodes
from http2_peer import ANSWER, REQUEST, TRAILERS
from message_reader import MessageReader, prefix

from pjrtd.http2 import frames
from pjrtd.http2.client_connection import ClientConnection
from pjrtd.http2.http2_errors import Http2Error


class Echo(MessageReader):
    """Puts the one message that comes into `memory`, all but its first bytes straight from the socket."""

    def __init__(self, size: int) -> None:
        super().__init__(1 << 24)
        self.memory = bytearray(size)
        self.direct = 0
        self.over = threading.Event()
        self.error: Http2Error | None = None

    def on_message(self, number: int, message: memoryview) -> None:
        self.memory[:] = message

    def place(self, number: int, size: int, begun: memoryview) -> tuple[int, memoryview]:
        self.direct = size - len(begun)
        self.memory[: len(begun)] = begun
        return len(begun), memoryview(self.memory)[len(begun) :]

    def on_parts(self, number: int, head: bytes, rest: memoryview) -> None:
        assert rest.obj is self.memory

    def on_end(self, error: Http2Error | None) -> None:
        self.error = error
        self.over.set()


class EchoServer(threading.Thread):
    """Answers each request with its own body, and changes its settings all the time."""

    def __init__(self, link: socket.socket, seed: int) -> None:
        super().__init__(daemon=True)
        self.link = link
        self.rng = random.Random(seed)
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.h2.initiate_connection()
        self.bodies: dict[int, bytearray] = {}
        self.ended: list[int] = []
        self.inbox = bytearray()
        self.unacknowledged = 1
        self.stopping = False

    def run(self) -> None:
        out = bytearray()
        self.link.setblocking(False)
        while not self.stopping:
            self.serve()
            out += self.h2.data_to_send()
            readable, writable, _ = select.select([self.link], [self.link] if out else [], [], 0.02)
            if writable:
                del out[: self.link.send(out)]
            if readable:
                data = self.link.recv(1 << 18)
                if not data:
                    return
                for event in self.events(data):
                    if isinstance(event, RequestReceived):
                        self.bodies[event.stream_id] = bytearray()
                        self.h2.send_headers(event.stream_id, ANSWER)
                    elif isinstance(event, DataReceived):
                        self.bodies[event.stream_id] += event.data
                        if event.flow_controlled_length:
                            # h2's own bookkeeping stalls where a window has become negative.
                            self.h2.increment_flow_control_window(event.flow_controlled_length)
                            if event.stream_ended is None:
                                self.h2.increment_flow_control_window(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, StreamEnded):
                        self.ended.append(event.stream_id)
                    elif isinstance(event, SettingsAcknowledged):
                        self.unacknowledged -= 1
                # h2 takes the acknowledgement of its first settings for that of the next ones.
                if not self.unacknowledged and self.rng.random() < 0.3:
                    self.unacknowledged += 1
                    sizes = {SettingCodes.INITIAL_WINDOW_SIZE: self.rng.choice((20_000, 65_535, 1 << 20))}
                    sizes[SettingCodes.MAX_FRAME_SIZE] = self.rng.choice((1 << 14, 1 << 17))
                    sizes[SettingCodes.HEADER_TABLE_SIZE] = self.rng.choice((0, 200, 4096))
                    self.h2.update_settings(sizes)

    def events(self, data: bytes) -> list[Event]:
        """Gives h2 one frame at a time: it heeds an acknowledgement of its settings only in the next call."""
        self.inbox += data
        found: list[Event] = []
        while len(self.inbox) >= 9:
            preface = len(frames.PREFACE) if self.inbox.startswith(b"PRI") else 0
            size = preface or 9 + frames.unpack_header(self.inbox, 0)[0]
            if size > len(self.inbox):
                break
            found += self.h2.receive_data(bytes(self.inbox[:size]))
            del self.inbox[:size]
        return found

    def serve(self) -> None:
        for number in list(self.ended):
            body = self.bodies[number]
            for _ in range(4):
                size = min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size, len(body))
                if size:
                    self.h2.send_data(number, bytes(body[:size]))
                    del body[:size]
            if not body:
                self.h2.send_headers(number, TRAILERS, end_stream=True)
                self.ended.remove(number)


class Link:
    """Receives in a thread of its own, and sends what either thread makes."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self.link = link
        self.client = ClientConnection(stream_window_bytes=200_000, connection_window_bytes=300_000)
        self.sending = threading.Lock()
        self.queue: list[bytes | memoryview] = []
        self.stopping = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        total = 0
        try:
            while not self.stopping:
                self.flush()
                readable, _, _ = select.select([self.link], [self.link] if self.queue else [], [], 0.002)
                if readable:
                    total += self.link.recvmsg_into(self.client.receive_buffers())[0]
                    self.client.received(total)
        except BaseException as error:
            self.failure = error

    def flush(self) -> None:
        with self.sending:
            self.client.pump()
            self.client.drain(self.queue)
            try:
                while self.queue:
                    count = self.link.sendmsg(self.queue[:64])
                    while count:
                        size = len(self.queue[0])
                        if size <= count:
                            del self.queue[0]
                        else:
                            self.queue[0] = memoryview(self.queue[0])[count:]
                        count -= min(size, count)
            except BlockingIOError:
                pass


@pytest.mark.parametrize("seed", range(2))
def test_two_threads_share_a_connection(seed: int) -> None:
    rng = random.Random(seed)
    ours, theirs = socket.socketpair()
    server = EchoServer(theirs, seed)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    server.start()
    link = Link(ours)
    calls: list[tuple[Echo, bytes]] = []
    try:
        until = time.monotonic() + 60 * PATIENCE
        for number in range(60):
            body = rng.randbytes(rng.choice((0, 10, 3000, 300_000)))
            sink = Echo(len(body))
            while not link.client.can_open:
                assert link.failure is None and server.is_alive() and time.monotonic() < until
                time.sleep(0.001)
            with link.sending:
                stream: Any = link.client.open(sink, [*REQUEST, (b"x-%d" % (number % 9), b"v" * (number % 5))])
            for pos in range(0, len(body) or 1, 40_000):
                with link.sending:
                    first = [prefix(len(body))] if not pos else []
                    link.client.send_data(stream, *first, memoryview(body)[pos : pos + 40_000], end=pos + 40_000 >= len(body))
                if rng.random() < 0.5:
                    link.flush()
            calls.append((sink, body))
        for sink, body in calls:
            while not sink.over.wait(0.1):
                assert link.failure is None and server.is_alive() and time.monotonic() < until
            assert sink.error is None and sink.memory == body and sink.at_boundary()
        assert link.failure is None and link.client.open_streams == 0
        assert sum(sink.direct for sink, _ in calls) > 1_000_000
    finally:
        sys.setswitchinterval(before)
        link.stopping = server.stopping = True
        link.thread.join(10)
        server.join(10)
        ours.close()
        theirs.close()
