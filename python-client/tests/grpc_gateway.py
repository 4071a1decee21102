"""gRPC's stream `Channel` in front of a peer on a local socket: the `h2` package as the server, the generated messages for
the frames. What it does on the HTTP/2 side is for a test to choose."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from pjrtd._proto.frame import Frame, Frames
from pjrtd._proto.wire import decode

HEADER = struct.Struct("<4sIIHBBQQ")
PREFIX = struct.Struct(">BI")
ITEM = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULTS = {SettingCodes.MAX_CONCURRENT_STREAMS: 100, SettingCodes.MAX_HEADER_LIST_SIZE: 65_536}
Headers = list[tuple[bytes, bytes]]
ANSWER: Headers = [(b":status", b"200"), (b"content-type", b"application/grpc")]


@dataclass
class Manners:
    """How a gateway speaks HTTP/2.

    settings: its own, as soon as it may have any. later: what it changes to, one after the other, in the middle of DATA.
    cut: bytes of the next DATA frame, at most. pad: padding of it, or None.
    join: frames that go into one message at most. ping_every: so many DATA frames.
    answer: heads of the answer, each with whether the stream ends with it. page: what follows instead of frames.
    trailers: how it ends a stream.
    """

    settings: dict[SettingCodes, int] = field(default_factory=dict)
    later: list[dict[SettingCodes, int]] = field(default_factory=list)
    cut: Callable[[random.Random], int] = lambda rng: 1 << 20
    pad: Callable[[random.Random], int | None] = lambda rng: None
    join: int = 16
    ping_every: int = 0
    answer: list[tuple[Headers, bool]] = field(default_factory=lambda: [(ANSWER, False)])
    page: bytes = b""
    trailers: Headers = field(default_factory=lambda: [(b"grpc-status", b"0")])
    seed: int = 0


class Connection:
    """One client, and its connection to the backend."""

    def __init__(self, gateway: Gateway, link: socket.socket) -> None:
        self.manners = gateway.manners
        self.rng = random.Random(self.manners.seed)
        self.link = link
        self.back = socket.socket(socket.AF_UNIX)
        self.back.connect(gateway.backend)
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.h2.local_settings = Settings(client=False, initial_values=DEFAULTS)
        self.settings = [self.manners.settings, *self.manners.later] if self.manners.settings else list(self.manners.later)
        self.unacknowledged = 1
        self.h2.initiate_connection()
        self.stream = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.request = bytearray()  # of the client, not yet in messages
        self.messages: list[int] = []  # their sizes
        self.frames_in_messages: list[int] = []
        self.answer = bytearray()  # of the backend, not yet in frames
        self.to_client = bytearray()  # for DATA frames
        self.to_back = bytearray()
        self.out = bytearray()  # for the client's socket
        self.inbox = bytearray()  # of the client, not yet in frames of HTTP/2
        self.owed = 0  # of the client's windows
        self.data_frames = 0
        self.errors: list[str] = []
        self.ended = False
        self.closing = False
        self.wake, self.woken = socket.socketpair()
        self.todo: list[Callable[[], None]] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def call(self, work: Callable[[], None]) -> None:
        """Has `work` done by the connection's thread."""
        self.todo.append(work)
        self.wake.send(b"x")

    def _run(self) -> None:
        try:
            self._serve()
        except OSError:
            pass
        except Exception:  # shown by the test's fixture
            self.errors.append(traceback.format_exc())
        finally:
            for each in (self.link, self.back, self.wake, self.woken):
                each.close()

    def _serve(self) -> None:
        for each in (self.link, self.back, self.woken):
            each.setblocking(False)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                self._make_frames()
            except ProtocolError:  # a test ended the stream
                self.to_client.clear()
            self.out += self.h2.data_to_send()
            poller = select.poll()
            poller.register(self.woken, select.POLLIN)
            poller.register(self.link, select.POLLIN | (select.POLLOUT if self.out else 0))
            full = len(self.to_client) + len(self.out) > 4 << 20
            if not self.ended:
                poller.register(self.back, (0 if full else select.POLLIN) | (select.POLLOUT if self.to_back else 0))
            ready = dict(poller.poll())
            if ready.get(self.woken.fileno()):
                self.woken.recv(100)
                while self.todo:
                    self.todo.pop(0)()
                self.out += self.h2.data_to_send()
            if self.closing:
                self.link.setblocking(True)
                self.link.sendall(self.out)
                return
            if ready.get(self.link.fileno(), 0) & select.POLLOUT:
                del self.out[: self.link.send(self.out)]
            if ready.get(self.link.fileno(), 0) & ~select.POLLOUT:
                data = self.link.recv(1 << 18)
                if not data:
                    return
                self.inbox += data
                if not self._take_frames():
                    return
            if not self.ended:
                self._exchange_with_back(ready.get(self.back.fileno(), 0))

    def _take_frames(self) -> bool:
        """Gives h2 one frame at a time: it heeds an acknowledgement of its settings only in the next call."""
        while len(self.inbox) >= 9:
            size = len(PREFACE) if self.inbox.startswith(PREFACE[:9]) else 9 + int.from_bytes(self.inbox[:3], "big")
            if size > len(self.inbox):
                break
            try:
                events = self.h2.receive_data(bytes(self.inbox[:size]))
            except ProtocolError as error:
                if not self.ended:
                    self.errors.append(f"the client broke HTTP/2: {error!r}")
                return False
            del self.inbox[:size]
            for event in events:
                self._on_event(event)
        return True

    def _exchange_with_back(self, ready: int) -> None:
        try:
            if ready & select.POLLOUT:
                del self.to_back[: self.back.send(self.to_back)]
                self._open_windows()
            if ready & ~select.POLLOUT:
                data = self.back.recv(1 << 18)
                if data:
                    self.answer += data
                    return
                self._end()
        except BlockingIOError:
            pass
        except OSError:
            self._end()

    def _end(self) -> None:
        self.ended = True

    def _on_event(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            assert not self.headers, "a client has one stream"
            self.stream = event.stream_id
            self.headers = list(event.headers)
            for headers, end in self.manners.answer:
                self.h2.send_headers(self.stream, headers, end_stream=end)
            if self.manners.page:
                self.h2.send_data(self.stream, self.manners.page, end_stream=True)
            if self.manners.page or self.manners.answer[-1][1]:
                self.stream = 0
                self.owed = 0
        elif isinstance(event, DataReceived):
            self.request += event.data
            self.owed += event.flow_controlled_length
            self._read_messages()
            self._open_windows()
        elif isinstance(event, SettingsAcknowledged):
            self.unacknowledged -= 1
            if self.manners.settings and len(self.settings) > len(self.manners.later):
                self._change_settings()
        elif isinstance(event, (StreamReset, ConnectionTerminated)):
            self.errors.append(f"the client gave up: {event!r}")
        elif isinstance(event, (StreamEnded, WindowUpdated)):
            pass

    def _change_settings(self) -> None:
        """h2 takes the acknowledgement of its first settings for that of the next ones, so one after the other."""
        if self.settings and not self.unacknowledged:
            self.h2.update_settings(self.settings.pop(0))
            self.unacknowledged += 1

    def _open_windows(self) -> None:
        """Unless the backend does not read."""
        if self.owed and len(self.to_back) < 1 << 20 and self.stream:
            # h2's own bookkeeping stalls where a window has become negative.
            self.h2.increment_flow_control_window(self.owed)
            self.h2.increment_flow_control_window(self.owed, self.stream)
            self.owed = 0

    def _read_messages(self) -> None:
        while len(self.request) >= PREFIX.size:
            compressed, size = PREFIX.unpack_from(self.request)
            assert not compressed and size <= 4 << 20
            if len(self.request) < PREFIX.size + size:
                return
            message = decode(Frames, bytes(self.request[PREFIX.size : PREFIX.size + size]))
            del self.request[: PREFIX.size + size]
            self.messages.append(size)
            self.frames_in_messages.append(len(message.frames))
            for frame in message.frames:
                self.to_back += HEADER.pack(
                    *(b"PJRT", len(frame.payload), len(frame.bulk), frame.method, int(frame.kind), frame.flags),
                    *(frame.call, frame.deadline_ns),
                )
                self.to_back += frame.payload
                self.to_back += frame.bulk

    def _make_frames(self) -> None:
        """Of what the backend said, as the windows allow."""
        while True:
            found: list[Frame] = []
            while len(found) < self.manners.join and len(self.answer) >= HEADER.size:
                _, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns = HEADER.unpack_from(self.answer)
                end = HEADER.size + payload_bytes + bulk_bytes
                if len(self.answer) < end:
                    break
                payload = bytes(self.answer[HEADER.size : HEADER.size + payload_bytes])
                bulk = bytes(self.answer[HEADER.size + payload_bytes : end])
                del self.answer[:end]
                # A frame of 1 MiB is one of the local socket; here bulk comes in smaller pieces.
                pieces = [bulk[at : at + (256 << 10)] for at in range(0, len(bulk), 256 << 10)] if kind == ITEM else [bulk]
                found += [Frame(call, method, kind, flags, deadline_ns, payload, piece) for piece in pieces]
            if not found:
                break
            message = Frames(found).encode()
            self.to_client += PREFIX.pack(0, len(message)) + message
        while self.to_client and self.stream:
            pad = self.manners.pad(self.rng)
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size)
            room -= 0 if pad is None else pad + 1
            size = min(room, max(1, self.manners.cut(self.rng)), len(self.to_client))
            if size <= 0:
                return
            self.h2.send_data(self.stream, bytes(self.to_client[:size]), pad_length=pad)
            del self.to_client[:size]
            self.data_frames += 1
            if self.data_frames % 3 == 0:
                self._change_settings()
            if self.manners.ping_every and self.data_frames % self.manners.ping_every == 0:
                self.h2.ping(b"gateway!")
        if self.ended and self.stream and not self.to_client and not self.closing:
            with contextlib.suppress(ProtocolError):
                self.h2.send_headers(self.stream, self.manners.trailers, end_stream=True)
            self.closing = True
            self.wake.send(b"x")


class Gateway:
    """Listens on a port of its own. `target` is grpc://127.0.0.1:PORT."""

    def __init__(self, backend: str, manners: Manners | None = None) -> None:
        """`backend` is the path of a socket."""
        self.backend = backend
        self.manners = manners or Manners()
        self.connections: list[Connection] = []
        self.daemon: Any = None  # the backend, for tests that script it
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"grpc://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            try:
                connection = Connection(self, link)
            except OSError:
                link.close()
                continue
            self.connections.append(connection)
            connection.thread.start()

    @property
    def latest(self) -> Connection:
        return self.connections[-1]

    @property
    def errors(self) -> list[str]:
        return [error for connection in self.connections for error in connection.errors]

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.link.shutdown(socket.SHUT_RDWR)
            connection.thread.join(5)
