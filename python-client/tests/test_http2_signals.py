"""KeyboardInterrupt at every place where Python can raise it loses and doubles nothing on an HTTP/2 connection."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import hpack as oracle
import pytest
from http2_peer import ANSWER, REQUEST, TRAILERS, frame, split
from message_reader import MessageReader, prefix
from test_signals import Interrupter

from pjrtd.http2 import frames
from pjrtd.http2.client_connection import ClientConnection
from pjrtd.http2.http2_errors import Http2Error
from pjrtd.http2.stream import StreamSink

Interrupted = Callable[[Callable[[], Any]], Any]


class Sink(MessageReader):
    """May be told anything twice."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, Any] = {}
        self.messages: dict[int, bytes] = {}

    def on_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        assert self.told.setdefault("headers", headers) == headers

    def on_trailers(self, headers: list[tuple[bytes, bytes]]) -> None:
        assert self.told.setdefault("trailers", headers) == headers

    def on_message(self, number: int, message: memoryview) -> None:
        assert self.messages.setdefault(number, bytes(message)) == message

    def place(self, number: int, size: int, begun: memoryview) -> tuple[int, memoryview]:
        kept = min(10, len(begun)) if number % 2 else 0
        return kept, memoryview(bytearray(size - kept))

    def on_parts(self, number: int, head: bytes, rest: memoryview) -> None:
        self.on_message(number, memoryview(head + rest))

    def on_end(self, error: Http2Error | None) -> None:
        assert self.told.setdefault("end", str(error)) == str(error)


def run_with(interrupter: Interrupter, work: Callable[[Interrupted], Any]) -> Any:
    """Each call that `work` makes through its argument may be interrupted; it is told so by None."""

    def call(operation: Callable[[], Any]) -> Any:
        sys._getframe().f_trace_opcodes = True
        sys.settrace(interrupter.trace)
        try:
            return operation()
        except KeyboardInterrupt:
            return None
        finally:
            sys.settrace(None)

    return work(call)


def same_however_interrupted(work: Callable[[Interrupted], Any], step: int) -> None:
    before = sys.gettrace()
    try:
        expected = work(lambda operation: operation())
        count = 0
        while True:
            interrupter = Interrupter(count)
            try:
                assert run_with(interrupter, work) == expected
            except BaseException as error:
                raise AssertionError(f"after an interruption at {interrupter.where} (place {count})") from error
            if not interrupter.raised:
                break
            count += step
    finally:
        sys.settrace(before)
    assert count > 300


def by_stream(found: list[tuple[int, int, int, bytes]]) -> dict[int, list[tuple[int, int, bytes]]]:
    """The frames of each stream, with what is in several DATA frames in one. Which stream is first after an interruption,
    and so where its data is cut, may differ."""
    streams: dict[int, list[tuple[int, int, bytes]]] = {}
    for kind, flags, number, payload in found:
        mine = streams.setdefault(number, [])
        if kind == frames.DATA and mine and mine[-1][0] == frames.DATA:
            payload = mine.pop()[2] + payload
        mine.append((kind, flags, payload))
    return streams


def transcript() -> bytes:
    encoder = oracle.Encoder()
    rng = random.Random(4)
    messages = [rng.randbytes(size) for size in (30, 9000, 0, 6000, 5)]
    body = b"".join(prefix(len(message)) + message for message in messages)
    head = encoder.encode([*ANSWER, (b"x-new", b"entry")])
    early = encoder.encode([(b":status", b"103")])
    again = encoder.encode([*ANSWER, (b"x-new", b"entry"), (b"x-other", b"v")])
    return b"".join(
        (
            frames.settings([(1, 100), (4, 1000), (4, 70_000), (5, 20_000)]),
            frames.SETTINGS_ACK,
            frame(frames.HEADERS, 0, 1, head[:3]),
            frame(frames.CONTINUATION, 0, 1, head[3:5]),
            frame(frames.CONTINUATION, 4, 1, head[5:]),
            frames.ping(b"12345678"),
            frame(frames.HEADERS, 4, 3, early),
            frame(frames.HEADERS, 4 | 8, 3, b"\x02" + again + bytes(2)),
            frame(frames.DATA, 8, 1, b"\x05" + body[:7000] + bytes(5)),
            frame(frames.DATA, 0, 3, body[:3000]),
            frames.window_update(0, 10),
            frames.window_update(3, 11),
            frame(99, 0, 0, bytes(50)),
            frame(frames.DATA, 0, 1, body[7000:]),
            frame(frames.DATA, 0, 3, body[3000:]),
            frame(frames.HEADERS, 5, 1, encoder.encode(TRAILERS)),
            frames.rst_stream(3, 8),
            frame(frames.DATA, 0, 5, b"x"),  # before its headers: this stream fails
            frame(frames.HEADERS, 4, 7, encoder.encode([*ANSWER, (b"content-length", b"1")])),
            frame(frames.DATA, 1, 7, prefix(0)),  # more than it announced
            frames.goaway(9, 0, b"bye"),
        )
    )


@pytest.mark.parametrize("pieces", [1 << 20, 5000, 77])
def test_receiving(pieces: int) -> None:
    data = transcript()

    def work(call: Interrupted) -> Any:
        client = ClientConnection(stream_window_bytes=65_535, connection_window_bytes=65_535)
        client._window, client._stream_window = 20_000, 20_000  # so that it is opened again on the way
        sinks = [Sink() for _ in range(6)]
        streams = [client.open(sink, REQUEST) for sink in sinks]
        total = 0
        while total < len(data):
            buffers = call(client.receive_buffers) or client.receive_buffers()
            limit = total + pieces
            for buffer in buffers:
                size = min(len(buffer), min(limit, len(data)) - total)
                buffer[:size] = data[total : total + size]
                total += size
            for _ in range(2):
                call(lambda now=total: client.received(now))
        queue: list[bytes | memoryview] = []
        client.drain(queue)
        assert client.error is None
        return (
            [(sink.told, sink.messages) for sink in sinks],
            [(s.position, s.receive_left, s.granted, s.remote_closed, str(s.error)) for s in streams],
            split(b"".join(queue)),
            (client._receive_left, client._granted, client._peer_window, client.goaway, client._decoder.table),
            client._encoder.limits,
        )

    told, _, replies, _, limits = work(lambda operation: operation())
    assert [sorted(messages) for _, messages in told] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [], [0], [], []]
    ends = [each.get("end", "") for each, _ in told]
    for end, why in zip(ends, ("None", "reset", "before the headers", "announces 1 bytes", "", "did not begin"), strict=True):
        assert why in end and bool(end) == bool(why)
    assert {kind for kind, _, _, _ in replies} >= {frames.SETTINGS, frames.PING, frames.WINDOW_UPDATE, frames.RST_STREAM}
    assert limits == (100, 100)
    same_however_interrupted(work, {1 << 20: 1, 5000: 5, 77: 101}[pieces])


def test_sending() -> None:
    def work(call: Interrupted) -> Any:
        client = ClientConnection()
        client.feed(frames.settings([(1, 60), (4, 20_000)]))
        queue: list[bytes | memoryview] = []

        def sent(stream: Any, *buffers: bytes | memoryview, end: bool = False) -> None:
            before = stream.queued_bytes
            call(lambda: client.send_data(stream, *buffers, end=end))
            if stream.queued_bytes == before:
                client.send_data(stream, *buffers, end=end)

        for turn in range(3):
            sinks = [StreamSink(), StreamSink()]
            for sink in sinks:
                extra = (b"x-%d" % turn, b"v" * turn)
                call(lambda sink=sink, extra=extra: client.open(sink, [*REQUEST, extra]))
                if sink.stream is None:
                    client.open(sink, [*REQUEST, extra])
            first, second = [sink.stream for sink in sinks]
            assert first is not None and second is not None
            sent(first, b"small")
            sent(first, b"ab", memoryview(b"cd" * 9000))
            sent(second, b"x" * 8000)
            sent(second, b"y" * 20_000, end=True)
            client.feed(frames.ping(bytes(8)) + frames.window_update(second.id, 15_000) + frames.window_update(0, 99_000))
            call(client.pump)
            client.pump()
            before = client.pings_sent
            call(client.ping)
            if client.pings_sent == before:
                client.ping()
            call(lambda first=first: client.reset(first))
            client.reset(first)
            call(lambda: client.drain(queue))
            client.drain(queue)
        call(client.settle)
        call(client.close)
        client.close()
        client.drain(queue)
        return by_stream(split(b"".join(queue))), client.open_streams, client._sent, client._encoder.table

    found = work(lambda operation: operation())[0]
    assert sorted(found) == [0, 1, 3, 5, 7, 9, 11]
    assert [found[number][-1] for number in (3, 7, 11)] == [(frames.DATA, True, b"x" * 8000 + b"y" * 20_000)] * 3
    assert [found[number][-2] for number in (1, 5, 9)] == [(frames.DATA, False, b"smallab" + b"cd" * 9000)] * 3
    same_however_interrupted(work, 2)
