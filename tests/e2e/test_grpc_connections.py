"""TCP connections of the gRPC port: that say nothing, or something else; too many of them, or all that there may be
descriptors for. Beside them the daemon serves over both transports, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import time
from collections.abc import Iterator

import pytest

import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_frames import REQUEST, RawClient, deadline, frame
from raw_http2 import (CHANNEL, END_STREAM, INFO, PREFACE, SETTINGS, connected, data_frames, frames_message, headers,
                       hello, http2_frame, message, open_tcp, receive_until_over, send_all_it_takes, tcp)

pytestmark = pytest.mark.usefixtures("many_descriptors")

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(over="channel", settings={"handshake_seconds": 1}) as started:
        yield started


@pytest.fixture
def others(daemon: Daemon) -> Iterator[list[Bystander]]:
    """Well-behaved clients, one over each transport."""
    with two_bystanders(daemon) as both:
        yield both


@contextlib.contextmanager
def two_bystanders(daemon: Daemon) -> Iterator[list[Bystander]]:
    with Bystander(daemon, "unix") as local, Bystander(daemon, "channel") as remote:
        both = [local, remote]
        check(both)
        yield both
        check(both)


def check(others: list[Bystander]) -> None:
    for other in others:
        other.check()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if "daemon" not in request.fixturenames:
        yield
        return
    daemon: Daemon = request.getfixturevalue("daemon")
    request.getfixturevalue("others")
    before, balance = daemon.descriptors(), daemon.balance()
    yield
    give_up = time.monotonic() + 10 * PATIENCE
    while daemon.descriptors() > before or daemon.balance() != balance:
        assert time.monotonic() < give_up, f"{daemon.descriptors()} descriptors, {before} before; {daemon.balance()}, {balance} before"
        time.sleep(0.05)


def is_closed_within(connection: socket.socket, seconds: float) -> float:
    """After how long the daemon ended the connection; fails when it does not in that time."""
    began = time.monotonic()
    connection.settimeout(seconds)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise AssertionError(f"not closed within {seconds} s") from None
    return time.monotonic() - began


# ---- silence ----


@pytest.mark.parametrize("sent", [0, 1, 23])
def test_a_connection_that_says_nothing_is_closed(daemon: Daemon, others: list[Bystander], sent: int) -> None:
    cut_off = daemon.stats().clients_cut_off
    with tcp(daemon) as connection:
        connection.sendall(PREFACE[:sent])
        check(others)
        assert is_closed_within(connection, 4 * PATIENCE) > 0.5
    assert daemon.stats().clients_cut_off == cut_off + 1


def test_a_preface_that_comes_too_slowly(daemon: Daemon, others: list[Bystander]) -> None:
    with tcp(daemon) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for byte in PREFACE[:20]:
            connection.sendall(bytes([byte]))
            time.sleep(0.15 * PATIENCE)
        is_closed_within(connection, 1)


def test_a_preface_in_pieces_and_then_silence(daemon: Daemon, others: list[Bystander]) -> None:
    """A connection that has begun may be silent for as long as its client likes."""
    with tcp(daemon) as connection:
        for at in range(0, len(PREFACE), 5):
            connection.sendall(PREFACE[at : at + 5])
            time.sleep(0.02)
        connection.sendall(http2_frame(SETTINGS))
        time.sleep(2.5)
        connection.sendall(headers(INFO) + data_frames(message(b""), flags=END_STREAM))
        seen = receive_until_over(connection, 10 * PATIENCE)
    assert wire.message_class("InfoReply").FromString(seen.data[1][5:]).pid == daemon.pid


def test_half_closed_connections(daemon: Daemon, others: list[Bystander]) -> None:
    """The client's end is shut: at once, in the preface, behind it, within a call."""
    for sent in (b"", PREFACE[:7], PREFACE, PREFACE + http2_frame(SETTINGS) + headers(CHANNEL)):
        with tcp(daemon) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            is_closed_within(connection, 5 * PATIENCE)
        check(others)


# ---- something else ----


def tls_client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


NOT_HTTP2 = {
    "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    "HTTP/1.0 with a body": b"POST /pjrtd.v1.Runtime/Info HTTP/1.0\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000),
    "a TLS hello": tls_client_hello(),
    "zeros": bytes(1000),
    "noise": os.urandom(65_536),
    "a frame of the local socket": frame(REQUEST, "Runtime.Hello", 1, wire.make("HelloRequest", min_version=1, max_version=1)),
    "a preface with a wrong first letter": b"p" + PREFACE[1:] + http2_frame(SETTINGS),
    "a preface with a wrong last letter": PREFACE[:-1] + b"\r" + http2_frame(SETTINGS),
    "HTTP/2 without the preface": http2_frame(SETTINGS) + headers(INFO),
}


@pytest.mark.parametrize("kind", NOT_HTTP2)
def test_what_is_not_http2_is_closed_at_once(daemon: Daemon, others: list[Bystander], kind: str) -> None:
    errors = daemon.stats().wire_errors
    for _ in range(3):
        with tcp(daemon) as connection:
            send_all_it_takes(connection, NOT_HTTP2[kind], 1)
            assert is_closed_within(connection, 5 * PATIENCE) < 0.5 * PATIENCE
        check(others)
    assert daemon.stats().wire_errors == errors + 3


@pytest.mark.parametrize("behind", [b"\xff" * 100, os.urandom(65_536), PREFACE, bytes(9)], ids=["ones", "noise", "itself", "an empty data frame"])
def test_a_preface_and_something_else(daemon: Daemon, others: list[Bystander], behind: bytes) -> None:
    for _ in range(3):
        with tcp(daemon) as connection:
            send_all_it_takes(connection, PREFACE + behind, 1)
            receive_until_over(connection, 0.1)
        check(others)


# ---- many ----


def open_channel(daemon: Daemon) -> socket.socket:
    """HTTP/2 with a `Channel` that has said hello."""
    connection = open_tcp(daemon)
    connection.sendall(PREFACE + http2_frame(SETTINGS) + headers(CHANNEL) + data_frames(frames_message([hello()])))
    return connection


def test_1000_channels_cost_nothing() -> None:
    with Daemon(over="channel") as daemon, two_bystanders(daemon) as others:
        before, threads, resident = daemon.balance(), daemon.threads(), daemon.resident_bytes()
        clients = [open_channel(daemon) for _ in range(1000)]
        daemon.settled(lambda now: now["sessions"] == before["sessions"] + 1000, seconds=30)
        assert daemon.stats().connections == before["connections"] + 1000
        grown = daemon.resident_bytes() - resident
        assert grown < 1000 * 100 * KIB * PATIENCE, f"{grown / 1000 / KIB:.0f} KiB a client"
        assert daemon.threads() <= threads + 4  # gRPC's own pool
        time.sleep(0.5)
        used, began = daemon.cpu_seconds(), time.monotonic()
        time.sleep(2)
        share = (daemon.cpu_seconds() - used) / (time.monotonic() - began)
        assert share <= 0.03 * PATIENCE, f"{share:.2%} of a core for nothing"
        with deadline(2 * PATIENCE, "a call beside 1000 idle channels"):
            check(others)
        for client in clients:
            client.close()
        daemon.settled(lambda now: now == before, seconds=30)


def test_2000_connections_one_after_another_leave_nothing(daemon: Daemon, others: list[Bystander]) -> None:
    def visit(count: int) -> None:
        for number in range(count):
            with tcp(daemon) as connection:
                connection.sendall((b"", PREFACE, PREFACE + http2_frame(SETTINGS), PREFACE + http2_frame(SETTINGS) + headers(CHANNEL),
                                    PREFACE + http2_frame(SETTINGS) + headers(CHANNEL) + data_frames(frames_message([hello()])),
                                    b"GET / HTTP/1.1\r\n\r\n" + bytes(10))[number % 6])
                if number % 7 == 0:  # the end comes as a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    visit(600)
    before = daemon.settled(lambda now: now["connections"] == 3, seconds=20)
    threads, resident = daemon.threads(), daemon.resident_bytes()
    visit(2000)
    daemon.expect_balance(before, seconds=20)
    assert daemon.threads() <= threads + 2
    assert daemon.resident_bytes() < resident + 16 * MIB * PATIENCE


def test_connections_that_are_gone_before_they_are_accepted(daemon: Daemon, others: list[Bystander]) -> None:
    for linger in (False, True):
        for _ in range(5):
            burst = [open_tcp(daemon) for _ in range(100)]
            for connection in burst:
                if linger:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
        check(others)


def test_the_most_connections_are_bounded() -> None:
    with Daemon(over="channel", settings={"max_connections": 5, "handshake_seconds": 2}) as daemon, two_bystanders(daemon) as others:
        kept = [open_channel(daemon) for _ in range(2)]
        daemon.settled(lambda now: now["connections"] == 5)  # with the observer
        silent = open_tcp(daemon)
        with tcp(daemon) as extra:
            is_closed_within(extra, 5 * PATIENCE)
        check(others)
        for connection in (silent, *kept):
            connection.close()
        with daemon.connect() as again:
            assert again.call("Runtime.Info").pid == daemon.pid


def test_the_most_calls_are_bounded() -> None:
    """Streams and calls of all clients together, whichever connections they come by."""
    with Daemon(over="channel", settings={"max_connections": 10, "max_calls_in_flight": 10}) as daemon, Bystander(daemon) as local:
        with connected(daemon) as connection:
            connection.sendall(b"".join(headers(CHANNEL, stream) for stream in range(1, 81, 2)))
            seen = receive_until_over(connection, 10 * PATIENCE, streams=20)
            assert list(seen.statuses.values()) == ["8"] * 20, seen
            local.check()
            with connected(daemon) as another:
                another.sendall(headers(INFO) + data_frames(message(b""), flags=END_STREAM))
                assert receive_until_over(another, 10 * PATIENCE).outcome == "status 8"
        connect_in_time(daemon, "channel")
        local.check()


def connect_in_time(daemon: Daemon, over: str) -> None:
    """A new client is served, once descriptors are free again."""
    give_up = time.monotonic() + 20 * PATIENCE
    while True:
        try:
            with daemon.connect(over, timeout=3 * PATIENCE) as again:
                assert again.call("Runtime.Info").pid == daemon.pid
                return
        except (Exception, AssertionError) as error:  # noqa: BLE001 - a refusal has many faces
            assert time.monotonic() < give_up, f"no new client over {over}: {error!r}"
            time.sleep(0.1)


def listening_with_few_descriptors(limit: int) -> Daemon:
    daemon = Daemon(over="channel", settings={"handshake_seconds": 2})
    daemon.command = ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *daemon.command]
    return daemon


@pytest.mark.parametrize("kind", ["silent", "open", "in a call"])
def test_running_out_of_descriptors_is_survived(kind: str) -> None:
    """Twice as many connections as 64 descriptors: those that there are go on, nothing spins, and all is well again when
    the others are gone, for either listener."""
    said = {"silent": b"", "open": PREFACE + http2_frame(SETTINGS),
            "in a call": PREFACE + http2_frame(SETTINGS) + headers(CHANNEL) + data_frames(frames_message([hello()]))}[kind]
    with listening_with_few_descriptors(64) as daemon, two_bystanders(daemon) as others:
        before = daemon.balance()
        many: list[socket.socket] = []
        for _ in range(128):
            connection = open_tcp(daemon)  # the kernel completes it, whoever accepts
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(said)
            many.append(connection)
        time.sleep(0.5)
        assert daemon.descriptors() <= 64
        used = daemon.cpu_seconds()
        check(others)
        time.sleep(1)
        assert daemon.cpu_seconds() - used < 0.5 * PATIENCE, "the loop spins on accept"
        check(others)
        for connection in many:
            connection.close()
        for over in ("channel", "unix", "unary"):
            connect_in_time(daemon, over)
        daemon.settled(lambda now: now == before, seconds=20)
