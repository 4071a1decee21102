"""The gRPC port against clients that speak HTTP/2 with bad intent, written frame by frame. Whatever they do, the daemon
lives, others are served, memory stays bounded, and nothing is left."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator

import hpack
import pytest

import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_http2 import (ACK, CHANNEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INFO, INITIAL_WINDOW,
                       PADDED, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, UPLOAD, WINDOW_UPDATE, connected,
                       data_frames, fields_of, frames_message, headers, hello, http2_frame, message, receive_until_over,
                       request_frame, request_headers, send_all_it_takes, setting)

MB = 1 << 20
# What an idle daemon takes is mostly the plugin.
PLUGIN_BYTES = 150 * MB
EMPTY = message(b"")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    seconds = round(2 * PATIENCE)
    settings = {"client_stall_seconds": seconds, "handshake_seconds": seconds, "max_queued_bytes": "4 MiB"}
    with Daemon(over="channel", settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def well_behaved(daemon: Daemon) -> Iterator[list[Bystander]]:
    clients: list[Bystander] = []
    yield clients
    for client in clients:
        client.close()


@pytest.fixture
def others(daemon: Daemon, well_behaved: list[Bystander]) -> list[Bystander]:
    """Well-behaved clients, one over each transport."""
    if not well_behaved or not all(client.is_well for client in well_behaved):
        for client in well_behaved:
            client.close()
        well_behaved[:] = [Bystander(daemon), Bystander(daemon, "channel")]
        for client in well_behaved:
            client.check()
    return well_behaved


@pytest.fixture(autouse=True)
def nothing_is_left(daemon: Daemon, others: list[Bystander]) -> Iterator[None]:
    before, balance = daemon.descriptors(), daemon.balance()
    yield
    for other in others:
        other.check()
    give_up = time.monotonic() + 20 * PATIENCE
    while daemon.descriptors() > before or daemon.balance() != balance:
        assert time.monotonic() < give_up, f"{daemon.descriptors()} descriptors, {before} before; {daemon.balance()}, {balance} before"
        time.sleep(0.1)


# ---- floods ----

FLOODS = {
    "ping": http2_frame(PING, payload=bytes(8)) * 50_000,
    "settings": http2_frame(SETTINGS, payload=setting(INITIAL_WINDOW, 65535)) * 50_000,
    "window updates": http2_frame(WINDOW_UPDATE, payload=struct.pack(">I", 1)) * 50_000,
    "window updates of a stream": headers(CHANNEL) + http2_frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)) * 50_000,
    "rapid reset": b"".join(
        headers(INFO, stream) + http2_frame(RST_STREAM, 0, stream, struct.pack(">I", 8)) for stream in range(1, 20_001, 2)
    ),
    "resets of streams that never were": b"".join(http2_frame(RST_STREAM, 0, stream, bytes(4)) for stream in range(1, 100_001, 2)),
    "priorities": b"".join(http2_frame(PRIORITY, 0, stream, struct.pack(">IB", 0, 9)) for stream in range(1, 100_001, 2)),
    "unknown frames": http2_frame(99, 0, 0, bytes(100)) * 20_000,
    "goaway": http2_frame(GOAWAY, payload=bytes(8)) * 50_000,
    "empty data": headers(CHANNEL) + http2_frame(DATA, 0, 1) * 50_000,
    "empty messages": headers(CHANNEL) + data_frames(EMPTY * 100_000),
    "messages of nothing but a hello, again and again": headers(CHANNEL) + data_frames(frames_message([hello()]) * 10_000),
    "streams": b"".join(headers(CHANNEL, stream) for stream in range(1, 20_001, 2)),
    "unary calls without a message": b"".join(headers(UPLOAD, stream) for stream in range(1, 20_001, 2)),
    "a megabyte of headers": http2_frame(HEADERS, 0, 1, request_headers(INFO, ("x", "y" * 1000)))
    + b"".join(http2_frame(CONTINUATION, 0, 1, hpack.Encoder().encode([(f"x-{i}", "z" * 8000)])) for i in range(128)),
    "continuations without end": http2_frame(HEADERS, 0, 1, request_headers(INFO)) + http2_frame(CONTINUATION, 0, 1) * 50_000,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood(daemon: Daemon, others: list[Bystander], flood: str) -> None:
    for ack in (True, False, False):
        with connected(daemon, ack=ack) as connection:
            send_all_it_takes(connection, FLOODS[flood])
            for other in others:
                other.check()  # while it is connected
        for other in others:
            other.check()
    # gRPC 1.51 takes some 25 KB for each stream, bounds them only for a client that acknowledges its settings, and the
    # allocator keeps what the most took: so many floods take no more than a few.
    assert daemon.resident_bytes() < PLUGIN_BYTES + 10_000 * (64 << 10) * PATIENCE


# ---- frames that break a rule ----


def block(fields: list[tuple[str, str]], flags: int = END_HEADERS | END_STREAM, stream: int = 1) -> bytes:
    return http2_frame(HEADERS, flags, stream, hpack.Encoder().encode(fields))


def without(name: str) -> list[tuple[str, str]]:
    return [field for field in fields_of(INFO) if field[0] != name]


def asking(path: str, *more: tuple[str, str], body: bytes = EMPTY) -> bytes:
    return headers(path, more=more) + data_frames(body, flags=END_STREAM)


TRAILERS = block([("x", "y")])
FULL_WINDOW = struct.pack(">I", 2**31 - 1)

# What ends a stream or a connection.
REFUSED = {
    "headers twice": headers(CHANNEL) * 2,
    "no message": headers(INFO, flags=END_HEADERS | END_STREAM),
    "trailers in the place of a message": headers(INFO) + TRAILERS,
    "a window update of 0": http2_frame(WINDOW_UPDATE, payload=bytes(4)),
    "a window update of 0 for a stream": headers(CHANNEL) + http2_frame(WINDOW_UPDATE, 0, 1, bytes(4)),
    "a window update of three bytes": http2_frame(WINDOW_UPDATE, payload=b"\0\0\1"),
    "an acknowledgement with settings": http2_frame(SETTINGS, ACK, payload=setting(INITIAL_WINDOW, 1)),
    "half a setting": http2_frame(SETTINGS, payload=bytes(5)),
    "settings of a stream": http2_frame(SETTINGS, stream=1),
    "frames of one byte": http2_frame(SETTINGS, payload=setting(5, 1)),
    "a window of 2 GiB": http2_frame(SETTINGS, payload=setting(INITIAL_WINDOW, 1 << 31)),
    "a short ping": http2_frame(PING, payload=bytes(7)),
    "a short reset": headers(CHANNEL) + http2_frame(RST_STREAM, 0, 1, bytes(3)),
    "a short goaway": http2_frame(GOAWAY, payload=bytes(3)),
    "a continuation of nothing": http2_frame(CONTINUATION, END_HEADERS, 1),
    "a ping within headers": http2_frame(HEADERS, 0, 1, request_headers(INFO)) + http2_frame(PING, payload=bytes(8)),
    "another stream's continuation": http2_frame(HEADERS, 0, 1, request_headers(INFO)) + http2_frame(CONTINUATION, END_HEADERS, 3),
    "padding beyond the frame": headers(CHANNEL) + http2_frame(DATA, PADDED, 1, b"\xff123"),
    "headers padded beyond the frame": http2_frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + request_headers(INFO)),
    "a frame of 16 MiB": headers(CHANNEL) + http2_frame(DATA, 0, 1, bytes(1000), length=(1 << 24) - 1),
    "headers of noise": http2_frame(HEADERS, END_HEADERS, 1, b"\xff" * 50),
    "header 0 of the table": http2_frame(HEADERS, END_HEADERS, 1, b"\x80"),
    "a header table of 256 MiB": http2_frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xff\xff\xff\x7f" + request_headers(INFO)),
    "a header name of 2 GiB": http2_frame(HEADERS, END_HEADERS, 1, b"\x00\x7f\xff\xff\xff\x07abc"),
    "no path": block(without(":path")),
    "no method": block(without(":method")),
    "no scheme": block(without(":scheme")),
    "no authority": block(without(":authority")),
    "GET": asking(INFO, (":method", "GET")),
    "no such path": asking("pjrtd"),
    "an empty path": asking(""),
    "a path of bytes": asking("//\x00\xff/.."),
    "two paths": block([*fields_of(INFO), (":path", "/x/y")]),
    "no time": asking(INFO, ("grpc-timeout", "0n")),
    "binary metadata that is not": asking(INFO, ("x-bin", "***")),
    "a token of bytes": asking("/pjrtd.v1.Buffer/Stat", ("pjrtd-session", "\x01\x80\xff")),
    "a length beyond the end": asking(INFO, body=message(b"", length=100)),
    "a length within the message": asking(INFO, body=message(b"abcdefgh", length=2)),
    "half a prefix": asking(INFO, body=b"\0\0"),
    "a compressed message": asking(INFO, ("grpc-encoding", "gzip"), body=message(zlib.compress(b"abc", wbits=31), flag=1)),
}
# What gRPC passes over: the connection goes on, or ends, but serves nothing wrong.
PASSED_OVER = {
    "data behind the end": headers(CHANNEL) + data_frames(b"", flags=END_STREAM) + data_frames(EMPTY),
    "trailers, and data behind them": headers(CHANNEL) + TRAILERS + data_frames(EMPTY),
    "an even stream": asking(INFO).replace(struct.pack(">I", 1), struct.pack(">I", 2)),
    "a stream that goes back": headers(INFO, 5) + data_frames(EMPTY, 5, END_STREAM) + headers(INFO, 3) + data_frames(EMPTY, 3, END_STREAM),
    "data of no stream": data_frames(EMPTY, 7),
    "data of the connection": http2_frame(DATA, payload=b"x"),
    "headers of the connection": headers(INFO, 0),
    "window updates without end": http2_frame(WINDOW_UPDATE, payload=FULL_WINDOW) * 3,
    "window updates without end for a stream": headers(INFO) + http2_frame(WINDOW_UPDATE, 0, 1, FULL_WINDOW) * 3
    + data_frames(EMPTY, flags=END_STREAM),
    "a ping of a stream": http2_frame(PING, 0, 1, bytes(8)),
    "a reset of no stream": http2_frame(RST_STREAM, 0, 9, bytes(4)),
    "a priority under itself": http2_frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 0)),
    "a push": http2_frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
    "an unknown frame": http2_frame(77, 0xFF, payload=b"hello"),
    "an unknown setting": http2_frame(SETTINGS, payload=setting(999, 2)),
    "a goaway": http2_frame(GOAWAY, payload=bytes(8)),
    "a call that is reset at once": headers(INFO) + http2_frame(RST_STREAM, 0, 1, struct.pack(">I", 8)),
    "metadata of two lines": asking(INFO, ("x", "a\r\nb: c")),
    "a timeout that is none": asking(INFO, ("grpc-timeout", "banana")),
    "two messages for one": asking(INFO, body=EMPTY * 2),
    "another content type": asking(INFO, ("content-type", "text/html")),
}
LAST = 101


@pytest.mark.parametrize("fault", REFUSED)
def test_a_broken_rule(daemon: Daemon, others: list[Bystander], fault: str) -> None:
    with connected(daemon) as connection:
        send_all_it_takes(connection, REFUSED[fault])
        seen = receive_until_over(connection, 10 * PATIENCE)
    assert seen.outcome not in ("nothing", "status 0"), seen


@pytest.mark.parametrize("fault", PASSED_OVER)
def test_a_rule_that_does_not_matter(daemon: Daemon, others: list[Bystander], fault: str) -> None:
    with connected(daemon) as connection:
        send_all_it_takes(connection, PASSED_OVER[fault] + headers(INFO, LAST) + data_frames(EMPTY, LAST, END_STREAM))
        seen = receive_until_over(connection, 10 * PATIENCE, last=LAST)
    assert seen.outcome == "connection ended" or seen.statuses.get(LAST) == "0", seen
    for stream, data in seen.data.items():
        assert not data or wire.message_class("InfoReply").FromString(data[5:]).pid == daemon.pid, stream


# ---- messages ----


def test_a_reader_that_does_not_read_is_cut_off(daemon: Daemon, others: list[Bystander]) -> None:
    """It asks for far more than max_queued_bytes of answers and reads none: what waits is bounded, and it ends."""
    cut_off = daemon.stats().clients_cut_off
    before = daemon.resident_bytes()
    with connected(daemon, setting(INITIAL_WINDOW, 0)) as connection:  # no window at all for what we are sent
        body = frames_message([hello()]) + b"".join(
            frames_message([request_frame("Runtime.Devices", call) for call in range(at, at + 100)]) for at in range(2, 30_000, 100))
        send_all_it_takes(connection, headers(CHANNEL) + data_frames(body), 3)
        assert daemon.resident_bytes() < before + 64 * MB * PATIENCE
        for other in others:
            other.check()
        expect_cut_off(daemon, cut_off)


def expect_cut_off(daemon: Daemon, before: int) -> None:
    give_up = time.monotonic() + 20 * PATIENCE
    while daemon.stats().clients_cut_off == before:
        assert time.monotonic() < give_up, "it is still served"
        time.sleep(0.2)


def test_a_call_that_says_nothing_is_cut_off(daemon: Daemon) -> None:
    """A channel without a hello, calls without their message."""
    cut_off = daemon.stats().clients_cut_off
    with connected(daemon) as connection:
        connection.sendall(headers(CHANNEL) + headers(INFO, 3) + headers("/pjrtd.v1.Session/Open", 5))
        expect_cut_off(daemon, cut_off)
        assert receive_until_over(connection, 10 * PATIENCE, streams=3).statuses == {1: "14", 3: "14", 5: "14"}
    assert daemon.stats().clients_cut_off == cut_off + 3


def test_a_message_that_comes_byte_by_byte(daemon: Daemon) -> None:
    with connected(daemon) as connection:
        connection.sendall(headers(CHANNEL))
        for byte in frames_message([hello()]):
            connection.sendall(data_frames(bytes([byte])))
        connection.sendall(data_frames(b"", flags=END_STREAM))
        seen = receive_until_over(connection, 10 * PATIENCE)
    (frame,) = wire.message_class("Frames").FromString(seen.data[1][5:]).frames
    assert wire.message_class("HelloReply").FromString(frame.payload).version == 1 and seen.statuses == {1: "0"}


@pytest.mark.parametrize("size", [(4 << 20) + 1, 1 << 31], ids=["over 4 MiB", "2 GiB"])
@pytest.mark.parametrize("path", [CHANNEL, UPLOAD])
def test_a_message_that_says_it_is_huge(daemon: Daemon, others: list[Bystander], path: str, size: int) -> None:
    """It is refused as soon as it is larger than it may be, or by the end of the stream; what it says costs nothing."""
    before = daemon.resident_bytes()
    with connected(daemon) as connection:
        connection.sendall(headers(path) + data_frames(message(bytes(1000), length=size)))
        time.sleep(0.3)
        assert daemon.resident_bytes() < before + 16 * MB * PATIENCE
        connection.sendall(data_frames(b"", flags=END_STREAM))
        seen = receive_until_over(connection, 10 * PATIENCE)
    assert path == CHANNEL or seen.outcome not in ("nothing", "status 0"), seen


def test_a_message_that_would_grow_when_unpacked(daemon: Daemon, others: list[Bystander]) -> None:
    """40 KB of gzip that are 40 MB, of which a message may have 4: not unpacked at all."""
    before = daemon.resident_bytes()
    packed = zlib.compress(bytes(40 * MB), 9, 31)
    for path in (CHANNEL, UPLOAD, INFO):
        for encoding in ("gzip", "deflate"):
            with connected(daemon) as connection:
                connection.sendall(asking(path, ("grpc-encoding", encoding), body=message(packed, flag=1)))
                seen = receive_until_over(connection, 10 * PATIENCE)
                assert seen.outcome == "status 12", seen
            assert daemon.resident_bytes() < before + 16 * MB * PATIENCE
