"""HTTP/2 written frame by frame, right or wrong, and what comes back read as loosely."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import hpack

import wire_messages as wire
from daemon import PATIENCE, Daemon
from raw_frames import REQUEST

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
ACK = 1
INITIAL_WINDOW = 4  # a setting
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 16384
CHANNEL, INFO, UPLOAD = "/pjrtd.v1.Runtime/Channel", "/pjrtd.v1.Runtime/Info", "/pjrtd.v1.Buffer/Upload"


def http2_frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", length: int | None = None) -> bytes:
    """`length` is what the frame says it has, where that is not the truth."""
    said = len(payload) if length is None else length
    return struct.pack(">I", said)[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def setting(number: int, value: int) -> bytes:
    return struct.pack(">HI", number, value)


def fields_of(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The header fields of a gRPC request; `more` take the places of their like."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "te": "trailers",
              "content-type": "application/grpc"}
    return list((fields | dict(more)).items())


def request_headers(path: str, *more: tuple[str, str]) -> bytes:
    return hpack.Encoder().encode(fields_of(path, *more))


def headers(path: str, stream: int = 1, flags: int = END_HEADERS, more: tuple[tuple[str, str], ...] = ()) -> bytes:
    return http2_frame(HEADERS, flags, stream, request_headers(path, *more))


def message(body: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """A gRPC message; `flag` and `length` as its prefix says."""
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


def data_frames(body: bytes, stream: int = 1, flags: int = 0) -> bytes:
    """As many DATA frames as it takes; `flags` are the last one's."""
    pieces = [body[at : at + MAX_FRAME_BYTES] for at in range(0, len(body), MAX_FRAME_BYTES)] or [b""]
    return b"".join(http2_frame(DATA, flags if piece is pieces[-1] else 0, stream, piece) for piece in pieces)


def frames_message(frames: list[dict[str, object]]) -> bytes:
    """A message of `Channel`."""
    return message(wire.make("Frames", frames=frames).SerializeToString())


def request_frame(method: str, call: int, **fields: Any) -> dict[str, object]:
    described = wire.methods()[method]
    return dict(call=call, method=described.number, kind=REQUEST, payload=wire.make(described.request, **fields).SerializeToString())


def hello() -> dict[str, object]:
    return request_frame("Runtime.Hello", 1, min_version=1, max_version=1, download_credit_bytes=1 << 30)


@contextlib.contextmanager
def tcp(daemon: Daemon) -> Iterator[socket.socket]:
    with open_tcp(daemon) as connection:
        yield connection


def open_tcp(daemon: Daemon) -> socket.socket:
    host, port = daemon.grpc_target.removeprefix("grpc://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20 * PATIENCE)


def open_http2(daemon: Daemon, settings: bytes = b"", ack: bool = True) -> socket.socket:
    """A connection on which streams can begin. Without an acknowledgement of the daemon's settings its windows are HTTP/2's
    64 KiB, and its bound on streams does not hold."""
    connection = open_tcp(daemon)
    connection.sendall(PREFACE + http2_frame(SETTINGS, payload=settings))
    if ack:
        head = connection.recv(9, socket.MSG_WAITALL)
        assert head[3] == SETTINGS, head
        connection.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
        connection.sendall(http2_frame(SETTINGS, ACK))
    return connection


@contextlib.contextmanager
def connected(daemon: Daemon, settings: bytes = b"", ack: bool = True) -> Iterator[socket.socket]:
    with open_http2(daemon, settings, ack) as connection:
        yield connection


def send_all_it_takes(connection: socket.socket, data: bytes, seconds: float = 5.0) -> int:
    """Sends until the daemon takes no more or ends the connection; how much it took."""
    connection.settimeout(seconds)
    sent = 0
    with contextlib.suppress(OSError):
        while sent < len(data):
            sent += connection.send(data[sent : sent + (64 << 10)])
    return sent


class Seen(NamedTuple):
    """What came back: how streams ended, and whether the connection did."""

    statuses: dict[int, str]  # grpc-status, or HTTP's where there is none
    resets: dict[int, int]
    goaway: int | None  # its code
    closed: bool
    data: dict[int, bytes]

    @property
    def outcome(self) -> str:
        if self.goaway is not None or self.closed:
            return "connection ended"
        if any(self.resets.values()):  # with an error: what the daemon said beside it does not count
            return "stream reset"
        if self.statuses:
            return f"status {next(iter(self.statuses.values()))}"
        return "stream reset" if self.resets else "nothing"


def receive_until_over(connection: socket.socket, seconds: float, streams: int = 1, last: int = 0,
                       decoder: hpack.Decoder | None = None) -> Seen:
    """Reads until so many streams, the stream `last`, or the connection ended, or the time is up. Whoever goes on with the connection after
    that keeps its decoder."""
    seen = Seen({}, {}, None, False, {})
    decoder = decoder or hpack.Decoder()
    received, give_up = bytearray(), time.monotonic() + seconds
    while seen.goaway is None:
        ended = seen.statuses.keys() | seen.resets.keys()
        if last in ended if last else len(ended) >= streams:
            break
        connection.settimeout(max(0.01, give_up - time.monotonic()))
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            return seen
        except ConnectionResetError:
            piece = b""
        if not piece:
            return seen._replace(closed=True)
        received += piece
        while len(received) >= 9 and len(received) >= 9 + (length := int.from_bytes(received[:3], "big")):
            kind, _, stream = struct.unpack(">BBI", received[3:9])
            payload = bytes(received[9 : 9 + length])
            del received[: 9 + length]
            if kind == HEADERS:
                found = dict(decoder.decode(payload))
                if "grpc-status" in found or found.get(":status", "200") != "200":
                    seen.statuses[stream] = found.get("grpc-status", "HTTP " + found.get(":status", "?"))
            elif kind == DATA:
                seen.data[stream] = seen.data.get(stream, b"") + payload
            elif kind == RST_STREAM:
                seen.resets[stream] = int.from_bytes(payload, "big")
            elif kind == GOAWAY:
                seen = seen._replace(goaway=int.from_bytes(payload[4:8], "big"))
    return seen
