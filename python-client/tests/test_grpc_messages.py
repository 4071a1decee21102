"""gRPC's messages, statuses and deadlines on HTTP/2."""

from __future__ import annotations

import random

import pytest
from http2_peer import ANSWER, REQUEST, TRAILERS, H2Server, receive

from pjrtd.http2 import grpc_messages, grpc_status
from pjrtd.http2.client_connection import ClientConnection
from pjrtd.http2.grpc_messages import MessageReader, prefix
from pjrtd.http2.http2_errors import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    REFUSED_STREAM,
    GrpcMessageError,
    Http2ConnectionError,
    Http2Error,
    Http2StreamError,
)


class Messages(MessageReader):
    """Keeps all messages; of those that are placed, `head_bytes` come apart."""

    def __init__(self, head_bytes: int = 0, max_message_bytes: int = 1 << 20) -> None:
        super().__init__(max_message_bytes)
        self.head_bytes = head_bytes
        self.messages: list[bytes] = []
        self.placed = 0
        self.error: Http2Error | None = None
        self.ended = False

    def on_message(self, number: int, message: memoryview) -> None:
        assert number == len(self.messages)
        self.messages.append(bytes(message))

    def place(self, number: int, size: int, begun: memoryview) -> tuple[int, memoryview]:
        self.placed += 1
        kept = min(self.head_bytes, len(begun))
        return kept, memoryview(bytearray(size - kept))

    def on_parts(self, number: int, head: bytes, rest: memoryview) -> None:
        assert 0 < len(head) <= self.head_bytes
        self.on_message(number, memoryview(head + rest))

    def on_end(self, error: Http2Error | None) -> None:
        self.error = error
        self.ended = True


def opened(sink: MessageReader) -> H2Server:
    server = H2Server(ClientConnection())
    server.exchange()
    server.client.open(sink, REQUEST, end=True)
    server.exchange()
    server.h2.send_headers(1, ANSWER)
    server.exchange()
    return server


@pytest.mark.parametrize("seed", range(12))
def test_messages_are_read_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    sink = Messages(rng.choice((0, 1, 40)))
    server = opened(sink)
    messages = [rng.randbytes(rng.choice((0, 1, 4, 5, 100, 5000, 70_000, 300_000))) for _ in range(25)]
    data = b"".join(prefix(len(message)) + message for message in messages)
    pos = 0
    while pos < len(data):
        size = rng.choice((1, 2, 5, 30, 16_384, 200_000))
        server.h2.send_data(1, data[pos : pos + size], pad_length=rng.choice((None, 0, 9)))
        pos += size
    receive(server.client, server.h2.data_to_send(), rng)
    assert sink.messages == messages
    assert sink.placed and sink.at_boundary()


def test_small_messages_are_not_copied_and_large_ones_once() -> None:
    class Slices(Messages):
        def on_message(self, number: int, message: memoryview) -> None:
            self.owners.append(message.obj)
            super().on_message(number, message)

        owners: list[object]

    sink = Slices()
    sink.owners = []
    server = opened(sink)
    large = random.Random(1).randbytes(200_000)
    server.h2.send_data(1, prefix(3) + b"one" + prefix(3) + b"two" + prefix(len(large)) + large)
    receive(server.client, server.h2.data_to_send())
    assert sink.messages == [b"one", b"two", large] and sink.placed == 1
    assert sink.owners[0] is sink.owners[1] is server.client._data
    assert isinstance(sink.owners[2], bytearray) and len(sink.owners[2]) == len(large)


def test_an_unfinished_message_is_known() -> None:
    for data in (b"\0", prefix(4), prefix(4) + b"abc"):
        sink = Messages()
        server = opened(sink)
        assert sink.at_boundary()
        server.h2.send_data(1, data)
        server.h2.send_headers(1, TRAILERS, end_stream=True)
        server.exchange()
        assert sink.ended and not sink.at_boundary() and not sink.messages


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    "head,status,why",
    [
        (b"\x01\0\0\0\1", grpc_status.INTERNAL, "compression flag 1"),
        (b"\xff\0\0\0\1", grpc_status.INTERNAL, "compression flag 255"),
        (b"\0\xff\xff\xff\xff", grpc_status.RESOURCE_EXHAUSTED, "4294967295 bytes where 1000 are allowed"),
        (prefix(1001), grpc_status.RESOURCE_EXHAUSTED, "1001 bytes where 1000 are allowed"),
    ],
)
def test_what_is_no_message_ends_the_stream(head: bytes, status: int, why: str, pieces: int) -> None:
    sink = Messages(max_message_bytes=1000)
    server = opened(sink)
    server.h2.send_data(1, prefix(1000) + bytes(1000))
    for pos in range(0, 5, -(-5 // pieces)):
        server.h2.send_data(1, head[pos : pos + -(-5 // pieces)])
    server.h2.send_data(1, b"xxxxxx")
    server.exchange()
    assert sink.messages == [bytes(1000)]
    error = sink.error
    assert isinstance(error, GrpcMessageError) and (error.status, error.code, error.stream_id) == (status, CANCEL, 1)
    assert why in error.message
    assert grpc_status.of_error(error) == (status, error.message)
    assert server.client.error is None and server.client.open_streams == 0


def test_a_place_of_the_wrong_size_is_a_mistake() -> None:
    class Wrong(Messages):
        def place(self, number: int, size: int, begun: memoryview) -> tuple[int, memoryview]:
            return 0, memoryview(bytearray(size + 1))

    server = opened(Wrong())
    server.h2.send_data(1, prefix(5) + b"x")
    with pytest.raises(ValueError, match="for 5 bytes of a message has 6"):
        server.exchange()


def test_the_prefix() -> None:
    assert prefix(0x01020304) == b"\0\1\2\3\4"
    assert grpc_messages.PREFIX_BYTES == len(prefix(0))


# ---- statuses ----


@pytest.mark.parametrize(
    "raw,text",
    [
        (b"", ""),
        (b"plain text, with: signs", "plain text, with: signs"),
        (b"100%25 %E2%82%ac %0A", "100% € \n"),
        (b"%", "%"),
        (b"%4", "%4"),
        (b"%zz%41%", "%zzA%"),
        (b"%+1%-1% 1", "%+1%-1% 1"),
        (b"%ff\xfe", "\ufffd\ufffd"),
        (b"caf\xc3\xa9", "café"),
    ],
)
def test_status_messages_are_decoded(raw: bytes, text: str) -> None:
    assert grpc_status.decode_message(raw) == text


def test_a_long_status_message_is_cut() -> None:
    assert len(grpc_status.decode_message(b"%41" * 100_000)) < grpc_status.MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "headers,expected",
    [
        ([(b"grpc-status", b"0")], (0, "")),
        ([(b"x", b"y"), (b"grpc-status", b"16"), (b"grpc-message", b"no%20way")], (16, "no way")),
        ([(b"grpc-status", b"05")], (5, "")),
        ([(b"grpc-status", b"17"), (b"grpc-message", b"new")], (2, "the status is '17': new")),
        ([(b"grpc-status", b"-1")], (2, "the status is '-1'")),
        ([(b"grpc-status", b"")], (2, "the status is ''")),
        ([(b"grpc-status", b"9" * 5000)], (2, f"the status is '{'9' * 20}'")),
        ([(b"grpc-message", b"alone")], None),
        ([], None),
    ],
)
def test_statuses_are_read(headers: list[tuple[bytes, bytes]], expected: tuple[int, str] | None) -> None:
    assert grpc_status.read_status(headers) == expected


@pytest.mark.parametrize(
    "status,kind,code",
    [
        (b"200", b"application/grpc", None),
        (b"200", b"application/grpc+proto", None),
        (b"200", b"application/grpc;charset=utf-8", None),
        (b"200", b"Application/GRPC", None),
        (b"200", b"application/grpc-web", 2),
        (b"200", b"text/html", 2),
        (b"200", None, 2),
        (b"400", b"text/html", 13),
        (b"401", b"text/html", 16),
        (b"403", None, 7),
        (b"404", b"text/plain", 12),
        (b"429", b"application/grpc", 14),
        (b"500", b"text/plain", 2),
        (b"502", b"text/html", 14),
        (b"503", b"text/html", 14),
        (b"504", b"text/html", 14),
        (b"302", b"text/html", 2),
    ],
)
def test_answers_that_are_not_grpc_have_a_code(status: bytes, kind: bytes | None, code: int | None) -> None:
    headers = [(b":status", status)] + ([(b"content-type", kind)] if kind is not None else [])
    found = grpc_status.check_answer(headers)
    if code is None:
        assert found is None
        return
    assert found is not None and found[0] == code
    assert (kind or b"").decode() in found[1]
    assert status == b"200" or f"HTTP status {status.decode()}" in found[1]
    assert grpc_status.check_answer([*headers, (b"grpc-status", b"5")]) is None


@pytest.mark.parametrize(
    "error,code",
    [
        (Http2StreamError(1, REFUSED_STREAM, "x"), 14),
        (Http2StreamError(1, REFUSED_STREAM, "x", unprocessed=True), 14),
        (Http2StreamError(1, CANCEL, "x"), 1),
        (Http2StreamError(1, ENHANCE_YOUR_CALM, "x"), 8),
        (Http2StreamError(1, 12, "x"), 7),
        (Http2StreamError(1, NO_ERROR, "x"), 13),
        (Http2StreamError(1, 99, "x"), 13),
        (Http2ConnectionError(ENHANCE_YOUR_CALM, "x"), 14),
    ],
)
def test_broken_streams_have_a_code(error: Http2Error, code: int) -> None:
    assert grpc_status.of_error(error) == (code, str(error))


# ---- deadlines ----


@pytest.mark.parametrize(
    "timeout_ns,text",
    [
        (1, b"1n"),
        (0, b"1n"),
        (-5, b"1n"),
        (99_999_999, b"99999999n"),
        (100_000_000, b"100000u"),
        (100_000_001, b"100001u"),
        (99_999_999_001, b"100000m"),
        (10**12, b"1000000m"),
        (99_999_999 * 10**6, b"99999999m"),
        (99_999_999 * 10**6 + 1, b"100000S"),
        (10**17 - 1, b"1666667M"),
        (10**19, b"2777778H"),
        (10**30, b"99999999H"),
    ],
)
def test_deadlines_are_rounded_up_to_eight_digits(timeout_ns: int, text: bytes) -> None:
    assert grpc_status.encode_timeout(timeout_ns) == text


def test_deadlines_lose_little() -> None:
    rng = random.Random(2)
    sizes = {b"n": 1, b"u": 10**3, b"m": 10**6, b"S": 10**9, b"M": 60 * 10**9, b"H": 3600 * 10**9}
    for _ in range(2000):
        timeout_ns = rng.randrange(1, 10 ** rng.randrange(1, 20))
        text = grpc_status.encode_timeout(timeout_ns)
        assert len(text) <= 9
        said = int(text[:-1]) * sizes[text[-1:]]
        assert timeout_ns <= said <= timeout_ns * 1.0001 + 1
