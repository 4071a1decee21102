"""200 clients over gRPC that send and never read: the daemon takes what its settings say, and no more."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import hpack
import pytest

import wire_messages as wire
from bystander import Bystander
from daemon import PATIENCE, Daemon
from raw_http2 import (CHANNEL, END_STREAM, INITIAL_WINDOW, UPLOAD, data_frames, frames_message, headers, hello, message,
                       open_http2, receive_until_over, request_frame, send_all_it_takes, setting)

pytestmark = pytest.mark.usefixtures("many_descriptors")

KIB, MIB = 1 << 10, 1 << 20
CLIENTS = 200
TENSOR_BYTES = 2 * MIB
# The least that can be set.
UPLOAD_CREDIT_BYTES = 1 * MIB
MAX_QUEUED_BYTES = 4 * MIB
# Of the code: a message of a client, an answer, what gRPC takes of a stream before anybody wants it.
MESSAGE_BYTES = 4 * MIB
ANSWER_BYTES = 1 * MIB
WINDOW_BYTES = 4 * MIB
PIECE_BYTES = 256 * KIB
# Whatever else a client costs, and a call in gRPC.
CLIENT_BYTES, CALL_BYTES = 128 * KIB, 32 * KIB
U8 = wire.dtype_numbers()["u8"]
TENSOR = dict(dtype=U8, dims=[TENSOR_BYTES])


@pytest.fixture
def own_daemon() -> Iterator[Daemon]:
    settings = {"upload_credit_bytes": UPLOAD_CREDIT_BYTES, "max_queued_bytes": MAX_QUEUED_BYTES, "client_stall_seconds": 600}
    with Daemon(over="channel", settings=settings) as started:
        yield started


def highest(daemon: Daemon, seconds: float) -> int:
    """The most resident memory within that time."""
    most, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        most = max(most, daemon.resident_bytes())
        time.sleep(0.02)
    return most


def expect_within(grown: int, bound: int, formula: str) -> None:
    print(f"grew by {grown / MIB:.0f} MiB; {formula} = {bound / MIB:.0f} MiB")
    if PATIENCE == 1:  # a sanitizer's allocator has its own ideas
        assert grown <= bound, f"grew by {grown / MIB:.0f} MiB, more than {formula} = {bound / MIB:.0f} MiB"


def test_channels_that_upload_and_ask_and_never_read(own_daemon: Daemon) -> None:
    """Each sends as much of an upload as it may unasked, then asks until nobody takes more, and reads nothing at all."""
    daemon = own_daemon
    item = dict(call=2, method=wire.methods()["Buffer.Upload"].number, kind=4, bulk=bytes(256 * KIB))
    begin = (headers(CHANNEL) + data_frames(
        frames_message([hello(), request_frame("Buffer.Upload", 2, buffer=1, type=TENSOR, data_bytes=TENSOR_BYTES)])
        + frames_message([item] * (UPLOAD_CREDIT_BYTES // len(item["bulk"])))))
    questions = data_frames(b"".join(
        frames_message([request_frame("Runtime.Devices", call) for call in range(at, at + 500)]) for at in range(3, 5_000, 500)))
    with Bystander(daemon) as local, Bystander(daemon, "channel") as remote:
        local.check(), remote.check()
        before, balance = daemon.resident_bytes(), daemon.balance()
        per_client = TENSOR_BYTES + MAX_QUEUED_BYTES + ANSWER_BYTES + MESSAGE_BYTES + WINDOW_BYTES + CLIENT_BYTES
        formula = f"{CLIENTS} x (tensor + max_queued_bytes + an answer + a message + gRPC's window + 128 KiB)"
        peaks = []
        for _ in range(2):
            clients: list[socket.socket] = []
            for _ in range(CLIENTS):
                client = open_http2(daemon, setting(INITIAL_WINDOW, 0))
                send_all_it_takes(client, begin + questions, 0.5)
                clients.append(client)
            daemon.settled(lambda now: now["staging_bytes"] == CLIENTS * TENSOR_BYTES, seconds=30)  # they are all there
            peaks.append(highest(daemon, 1))
            local.check(), remote.check()
            assert daemon.balance()["sessions"] == balance["sessions"] + CLIENTS, "and all wait"
            # Something has to wait for them, or this shows nothing.
            assert peaks[-1] - before > CLIENTS * MAX_QUEUED_BYTES // 2
            expect_within(peaks[-1] - before, CLIENTS * per_client, formula)
            for client in clients:
                client.close()
            daemon.settled(lambda now: now == balance, seconds=60)
        expect_within(peaks[1] - before, int(1.25 * (peaks[0] - before)), "1.25 x what the first 200 took")


def call_and_wait(client: socket.socket, decoder: hpack.Decoder, stream: int, path: str, body: bytes, *more: tuple[str, str]) -> bytes:
    client.sendall(headers(path, stream, more=more) + data_frames(body, stream, END_STREAM))
    seen = receive_until_over(client, 30 * PATIENCE, decoder=decoder)
    assert seen.statuses == {stream: "0"}, seen
    return seen.data[stream]


def test_calls_that_upload_and_download_and_never_read(own_daemon: Daemon) -> None:
    """Each uploads in a session of its own, then has the daemon send it its tensor by ten calls, and reads none of them."""
    daemon = own_daemon
    upload = wire.make("UploadRequest", buffer=1, type=TENSOR, data_bytes=TENSOR_BYTES, bulk=bytes(TENSOR_BYTES)).SerializeToString()
    downloads = 10
    with Bystander(daemon) as local:
        local.check()
        before = daemon.resident_bytes()
        clients: list[tuple[socket.socket, tuple[str, str]]] = []
        for _ in range(CLIENTS):
            client = open_http2(daemon)
            decoder = hpack.Decoder()
            opened = call_and_wait(client, decoder, 1, "/pjrtd.v1.Session/Open", message(b""))
            session = ("pjrtd-session", wire.message_class("SessionOpenReply").FromString(opened[5:]).token)
            call_and_wait(client, decoder, 3, UPLOAD, message(upload), session)
            clients.append((client, session))
        for client, session in clients:
            client.sendall(b"".join(
                headers("/pjrtd.v1.Buffer/Download", stream, more=(session,)) + data_frames(message(b"\x08\x01"), stream, END_STREAM)
                for stream in range(5, 5 + 2 * downloads, 2)))
        most = highest(daemon, 1)
        local.check()
        stats = daemon.stats()
        assert stats.buffer_bytes == CLIENTS * TENSOR_BYTES + 16, "all that they uploaded"
        # Four queues for all unary calls together; each may have a message on its way when that is found to be full.
        per_client = TENSOR_BYTES + CLIENT_BYTES + downloads * CALL_BYTES + PIECE_BYTES
        formula = f"{CLIENTS} x (tensor + 128 KiB + {downloads} x 32 KiB + a piece) + 4 x max_queued_bytes"
        expect_within(most - before, CLIENTS * per_client + 4 * MAX_QUEUED_BYTES, formula)
        with open_http2(daemon) as another:
            another.sendall(headers("/pjrtd.v1.Session/Open") + data_frames(message(b""), flags=END_STREAM))
            assert receive_until_over(another, 30 * PATIENCE).outcome == "status 8", "new calls wait until some are read"
        for client, _ in clients:
            client.close()
        daemon.settled(lambda now: now["calls_in_flight"] == 0, seconds=30)
        with daemon.connect("unary") as another:
            assert another.call("Runtime.Info").pid == daemon.pid
        local.check()
