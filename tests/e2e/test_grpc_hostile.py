"""The gRPC port against clients that speak HTTP/2 with bad intent, written frame by frame. Whatever they do, the daemon
lives, others are served, memory stays bounded, and nothing is left."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator

import hpack
import pytest

import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_frames import REQUEST

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MB = 1 << 20
# What an idle daemon takes is mostly the plugin.
PLUGIN_BYTES = 150 * MB


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    folder = Daemon()
    folder.discard()
    settings = {"client_stall_seconds": 2, "handshake_seconds": 2, "max_queued_bytes": "4 MiB"}
    with Daemon(listen=[f"unix:{folder.folder}.sock", "grpc://127.0.0.1:0"], settings=settings) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_is_left(daemon: Daemon, bystander: Bystander) -> Iterator[None]:
    before = daemon.descriptors()
    yield
    give_up = time.monotonic() + 20 * PATIENCE
    while daemon.descriptors() > before or daemon.balance()["calls_in_flight"]:
        assert time.monotonic() < give_up, f"{daemon.descriptors()} descriptors, {before} before"
        time.sleep(0.1)


def http2_frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def request_headers(path: str, *more: tuple[str, str]) -> bytes:
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"),
              ("content-type", "application/grpc"), *more]
    return hpack.Encoder().encode(fields)


@contextlib.contextmanager
def connected(daemon: Daemon, settings: bytes = b"") -> Iterator[socket.socket]:
    host, port = daemon.grpc_target.removeprefix("grpc://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20 * PATIENCE) as connection:
        connection.sendall(PREFACE + http2_frame(SETTINGS, payload=settings))
        yield connection


def send_all_it_takes(connection: socket.socket, data: bytes, seconds: float = 5.0) -> int:
    """Sends until the daemon takes no more or ends the connection; how much it took."""
    connection.settimeout(seconds)
    sent = 0
    with contextlib.suppress(OSError):
        while sent < len(data):
            sent += connection.send(data[sent : sent + (64 << 10)])
    return sent


FLOODS = {
    "ping": http2_frame(PING, payload=bytes(8)) * 50_000,
    "settings": http2_frame(SETTINGS, payload=struct.pack(">HI", 4, 65535)) * 50_000,
    "window updates": http2_frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)) * 50_000,
    "rapid reset": b"".join(
        http2_frame(HEADERS, END_HEADERS, stream, request_headers("/pjrtd.v1.Runtime/Info"))
        + http2_frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
        for stream in range(1, 20_001, 2)
    ),
    "empty data": http2_frame(HEADERS, END_HEADERS, 1, request_headers("/pjrtd.v1.Runtime/Channel"))
    + http2_frame(DATA, 0, 1) * 50_000,
    "streams": b"".join(
        http2_frame(HEADERS, END_HEADERS, stream, request_headers("/pjrtd.v1.Runtime/Channel")) for stream in range(1, 20_001, 2)
    ),
    "a megabyte of headers": http2_frame(HEADERS, 0, 1, request_headers("/pjrtd.v1.Runtime/Info", ("x", "y" * 1000)))
    + b"".join(http2_frame(CONTINUATION, 0, 1, hpack.Encoder().encode([(f"x-{i}", "z" * 8000)])) for i in range(128)),
    "continuations without end": http2_frame(HEADERS, 0, 1, request_headers("/pjrtd.v1.Runtime/Info")) + http2_frame(CONTINUATION, 0, 1) * 50_000,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood(daemon: Daemon, bystander: Bystander, flood: str) -> None:
    for _ in range(3):
        with connected(daemon) as connection:
            send_all_it_takes(connection, FLOODS[flood])
            bystander.check()  # while it is connected
        bystander.check()
    # gRPC 1.51 keeps each call that was reset before it began, some kilobytes, until it has begun, and the allocator keeps
    # what that took: so many floods take no more than a few.
    assert daemon.resident_bytes() < PLUGIN_BYTES + 400 * MB * PATIENCE


def grpc_message(frames: list[dict[str, object]]) -> bytes:
    message = wire.make("Frames", frames=frames).SerializeToString()
    return b"\x00" + struct.pack(">I", len(message)) + message


def hello() -> dict[str, object]:
    return dict(call=1, method=wire.methods()["Runtime.Hello"].number, kind=REQUEST,
                payload=wire.make("HelloRequest", min_version=1, max_version=1, download_credit_bytes=1 << 30).SerializeToString())


def test_a_reader_that_does_not_read_is_cut_off(daemon: Daemon, bystander: Bystander) -> None:
    """It asks for far more than max_queued_bytes of answers and reads none: what waits is bounded, and it ends."""
    cut_off = daemon.stats().clients_cut_off
    before = daemon.resident_bytes()
    info = dict(method=wire.methods()["Runtime.Devices"].number, kind=REQUEST)
    with connected(daemon, struct.pack(">HI", 4, 0)) as connection:  # no window at all for what we are sent
        head = http2_frame(HEADERS, END_HEADERS, 1, request_headers("/pjrtd.v1.Runtime/Channel"))
        body = grpc_message([hello()]) + b"".join(grpc_message([dict(call=call, **info) for call in range(at, at + 100)]) for at in range(2, 30_000, 100))
        pieces = b"".join(http2_frame(DATA, 0, 1, body[at : at + 16384]) for at in range(0, len(body), 16384))
        send_all_it_takes(connection, head + pieces, 3)
        assert daemon.resident_bytes() < before + 64 * MB * PATIENCE
        bystander.check()
        give_up = time.monotonic() + 20 * PATIENCE
        while daemon.stats().clients_cut_off == cut_off:
            assert time.monotonic() < give_up, "it is still served"
            time.sleep(0.2)


def test_a_channel_without_a_hello_is_cut_off(daemon: Daemon) -> None:
    cut_off = daemon.stats().clients_cut_off
    with connected(daemon) as connection:
        connection.sendall(http2_frame(HEADERS, END_HEADERS, 1, request_headers("/pjrtd.v1.Runtime/Channel")))
        give_up = time.monotonic() + 20 * PATIENCE
        while daemon.stats().clients_cut_off == cut_off:
            assert time.monotonic() < give_up, "it is still there"
            time.sleep(0.2)


def test_a_message_that_comes_byte_by_byte(daemon: Daemon) -> None:
    message = grpc_message([hello()])
    with connected(daemon) as connection:
        connection.sendall(http2_frame(HEADERS, END_HEADERS, 1, request_headers("/pjrtd.v1.Runtime/Channel")))
        for byte in message:
            connection.sendall(http2_frame(DATA, 0, 1, bytes([byte])))
        connection.sendall(http2_frame(DATA, END_STREAM, 1))
        received = b""
        while b"grpc-status" not in received and wire.make("HelloReply", version=1).SerializeToString() not in received:
            piece = connection.recv(65536)
            assert piece, "the connection ended without an answer"
            received += piece


@pytest.mark.parametrize("size", [(4 << 20) + 1, 1 << 31], ids=["over 4 MiB", "2 GiB"])
def test_a_message_that_says_it_is_huge(daemon: Daemon, bystander: Bystander, size: int) -> None:
    before = daemon.resident_bytes()
    with connected(daemon) as connection:
        connection.sendall(http2_frame(HEADERS, END_HEADERS, 1, request_headers("/pjrtd.v1.Runtime/Channel"))
                           + http2_frame(DATA, 0, 1, b"\x00" + struct.pack(">I", size) + bytes(1000)))
        connection.settimeout(10 * PATIENCE)
        received = b""
        with contextlib.suppress(OSError):
            while b"grpc-status" not in received and struct.pack(">BBI", RST_STREAM, 0, 1) not in received:
                piece = connection.recv(65536)
                if not piece:
                    break
                received += piece
    assert daemon.resident_bytes() < before + 16 * MB * PATIENCE
