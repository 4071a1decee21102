"""The whole gRPC transport against bytes that no server should send: it never hangs, never raises anything but a PjrtError,
and does not grow."""

from __future__ import annotations

import random
import resource
import socket
import struct
import threading
import time

import hpack as oracle
import pytest
from http2_peer import ANSWER, TRAILERS, frame
from test_http2_hostile import changed

import pjrtd
from pjrtd._proto import methods
from pjrtd._proto.buffer import DownloadReply
from pjrtd._proto.common import Error, TensorType
from pjrtd._proto.frame import Credit, Frame, Frames
from pjrtd._proto.runtime import DevicesReply, HelloReply, InfoReply, MemoriesReply
from pjrtd._proto.wire import varint
from pjrtd.connection import Connection
from pjrtd.errors import PjrtError
from pjrtd.grpc_transport import GrpcTransport
from pjrtd.http2 import frames

HELLO = HelloReply(version=1, id_prefix=1, max_inline_bytes=65_536, max_item_bytes=1 << 20, upload_credit_bytes=1 << 20)
SIZE = 150_000
ASKED = b"\x10" + varint(methods.BUFFER_DOWNLOAD)


def answers(rng: random.Random) -> tuple[bytes, bytes]:
    """What a right server may say to a hello and three questions, and then to a download of SIZE bytes."""
    encoder = oracle.Encoder()
    reply = DownloadReply(TensorType(6, [SIZE]), SIZE).encode()
    parts = [
        Frame(1, methods.HELLO, 2, payload=HELLO.encode()),
        Frame(2, methods.DEVICES, 2, payload=DevicesReply([]).encode()),
        Frame(3, methods.MEMORIES, 2, payload=MemoriesReply([]).encode()),
        Frame(4, methods.INFO, 2, payload=InfoReply(server_version="x" * 300).encode()),
        Frame(5, methods.BUFFER_DOWNLOAD, 2, payload=reply),
        Frame(77, methods.BUFFER_UPLOAD, 7, payload=Credit(5).encode()),
        Frame(99, methods.EXECUTE, 3, payload=Error(13, "a quiet call failed", hint="hint").encode()),
    ]
    items = [Frame(5, methods.BUFFER_DOWNLOAD, 4, bulk=bytes(min(40_000, SIZE - at))) for at in range(0, SIZE, 40_000)]
    greeting = frames.settings([(4, 1 << 20)]) + frames.SETTINGS_ACK + frame(frames.HEADERS, 4, 1, encoder.encode(ANSWER))
    first = greeting + in_frames(parts[:4], rng)
    second = in_frames(parts[4:] + items, rng)
    return first, second + (frame(frames.HEADERS, 5, 1, encoder.encode(TRAILERS)) if rng.random() < 0.5 else b"")


def in_frames(parts: list[Frame], rng: random.Random) -> bytes:
    data = b""
    while parts:
        count = rng.choice((1, 2, 20))
        message = Frames(parts[:count]).encode()
        data += b"\0" + len(message).to_bytes(4, "big") + message
        parts = parts[count:]
    out: list[bytes] = []
    while data:
        size = rng.choice((10, 100, 16_000))
        padded = rng.random() < 0.2
        out.append(frame(frames.DATA, 8, 1, b"\3" + data[:size] + bytes(3)) if padded else frame(frames.DATA, 0, 1, data[:size]))
        data = data[size:]
        if rng.random() < 0.2:
            out.append(rng.choice((frames.ping(bytes(8)), frames.window_update(0, 5), frames.settings([(5, 20_000)]))))
    return b"".join(out)


def changed_a_little(data: bytes, rng: random.Random) -> bytes:
    """Most of the changes hit the heads, not the bulk."""
    cut = rng.choice((600, 1500, len(data)))
    return changed(data[:cut], rng) + data[cut:]


def run(rng: random.Random, *said: bytes) -> PjrtError | None:
    """Uses a connection whose peer says that, in pieces, and then hangs up. What came out."""
    ours, theirs = socket.socketpair()
    import _socket

    def serve() -> None:
        heard = b""
        try:
            for number, part in enumerate(said):
                theirs.settimeout(0.03)
                try:
                    while number and ASKED not in heard:  # for the download; a client that waits for us never does
                        heard += theirs.recv(1 << 16) or ASKED
                except TimeoutError:
                    pass
                theirs.settimeout(None)
                at = 0
                while at < len(part):
                    size = rng.choice((1, 9, 100, 5000, 1 << 20))
                    theirs.sendall(part[at : at + size])
                    at += size
            theirs.shutdown(socket.SHUT_WR)
            while theirs.recv(1 << 16):
                pass
        except OSError:
            pass
        theirs.close()

    thread = threading.Thread(target=serve, daemon=True)
    transport = GrpcTransport(_socket.socket(fileno=ours.detach()), "grpc://fuzz", "fuzz")
    connection = Connection(transport, 0)
    thread.start()
    until = time.monotonic() + 20
    try:
        for call in connection.hello("fuzz", until, methods.DEVICES, methods.MEMORIES, methods.INFO):
            connection.finish(call, until)
        connection.download(b"\x01", SIZE, None, until)
        connection.sync(until)
    except PjrtError as error:
        str(error)
        assert time.monotonic() < until, f"it hung: {error}"
        return error
    finally:
        connection.close(0)
        thread.join(10)
        assert not thread.is_alive()
        assert len(transport._connection._data) < 1 << 18  # pyright: ignore[reportPrivateUsage]
    return None


def test_the_unchanged_answers_are_right() -> None:
    """They end without an answer to the sync, so that is what fails, and nothing before."""
    for seed in range(10):
        rng = random.Random(seed)
        error = run(rng, *answers(rng))
        assert error is not None and "is lost: the daemon closed it" in error.message


@pytest.mark.parametrize("seed", range(6))
def test_changed_answers_raise_only_what_is_defined(seed: int) -> None:
    rng = random.Random(seed)
    until = time.monotonic() + 2
    kinds: set[str] = set()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    turns = 0
    while time.monotonic() < until or turns < 20:
        data = list(answers(rng))
        for _ in range(rng.choice((1, 1, 3))):
            which = rng.randrange(2)
            data[which] = changed_a_little(data[which], rng)
        error = run(rng, *data)
        if error is not None:
            kinds.add(type(error).__name__)
        turns += 1
    assert len(kinds) > 1, kinds
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize("seed", range(3))
def test_noise_raises_only_what_is_defined(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        run(rng, rng.randbytes(rng.choice((0, 5, 30, 3000))))
        head = frames.settings([]) + frame(frames.HEADERS, 4, 1, oracle.Encoder().encode(ANSWER))
        body = rng.randbytes(rng.choice((3, 50, 500)))
        run(rng, head + frame(frames.DATA, 0, 1, body))
        message = b"\0" + struct.pack(">I", len(body)) + body
        run(rng, head + frame(frames.DATA, 0, 1, message))
        entry = b"\x0a" + bytes((len(body[:100]),)) + body[:100]
        run(rng, head + frame(frames.DATA, 0, 1, b"\0" + struct.pack(">I", len(entry)) + entry))


def test_a_client_made_of_noise_is_a_pjrt_error() -> None:
    """The same through Client.create, over a port."""
    rng = random.Random(9)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for turn in range(30):
                link, _ = listener.accept()
                with link:
                    link.sendall(changed_a_little(answers(rng)[0], rng) if turn % 2 else rng.randbytes(100))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        for _ in range(30):
            try:
                pjrtd.Client.create(f"grpc://127.0.0.1:{listener.getsockname()[1]}", timeout=10).close()
            except PjrtError:
                pass
        thread.join(10)
