"""A client's HTTP/2 connection against a server made of the `h2` package, in memory."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import run_python
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    PingAckReceived,
    PingReceived,
    RemoteSettingsChanged,
    RequestReceived,
    SettingsAcknowledged,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.settings import SettingCodes
from http2_peer import ANSWER, REQUEST, TRAILERS, H2Server, Recorder, drained, receive, split

from pjrtd.http2 import frames
from pjrtd.http2.client_connection import MIN_DIRECT_BYTES, ClientConnection
from pjrtd.http2.http2_errors import CANCEL, NO_ERROR, REFUSED_STREAM, Http2ConnectionError, Http2StreamError
from pjrtd.http2.send_side import EARLY_STREAMS, MAX_JOINED_BYTES
from pjrtd.http2.stream import StreamSink


def connected(**options: Any) -> tuple[ClientConnection, H2Server]:
    client = ClientConnection(**options)
    server = H2Server(client)
    server.exchange()
    return client, server


def received_by(server: H2Server, stream: int) -> bytes:
    return b"".join(event.data for event in server.seen(DataReceived) if event.stream_id == stream)


# ---- the beginning ----


def test_settings_are_said_and_accepted() -> None:
    client, server = connected(stream_window_bytes=1 << 20, connection_window_bytes=1 << 21, max_frame_bytes=1 << 18)
    (changed,) = server.seen(RemoteSettingsChanged)
    said = {code: setting.new_value for code, setting in changed.changed_settings.items()}
    assert said[SettingCodes.ENABLE_PUSH] == 0
    assert said[SettingCodes.INITIAL_WINDOW_SIZE] == 1 << 20
    assert said[SettingCodes.MAX_FRAME_SIZE] == 1 << 18
    assert server.seen(SettingsAcknowledged)
    assert server.h2.outbound_flow_control_window == 1 << 21
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    server.exchange()
    (request,) = server.seen(RequestReceived)
    assert [tuple(header) for header in request.headers] == REQUEST
    assert server.h2.local_flow_control_window(stream.id) == 1 << 20


@pytest.mark.parametrize(
    "option,value", [("stream_window_bytes", 65534), ("connection_window_bytes", 1 << 31), ("max_frame_bytes", 1 << 24)]
)
def test_options_that_cannot_be_are_refused(option: str, value: int) -> None:
    with pytest.raises(ValueError, match="range"):
        ClientConnection(**{option: value})


def test_a_request_and_its_answer() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    assert client.send_data(stream, b"question", end=True)
    server.exchange()
    assert received_by(server, stream.id) == b"question"
    assert [event.stream_id for event in server.seen(StreamEnded)] == [stream.id]
    server.h2.send_headers(stream.id, ANSWER)
    server.h2.send_data(stream.id, b"ans", pad_length=10)
    server.h2.send_data(stream.id, b"", pad_length=255)
    server.h2.send_data(stream.id, b"wer", pad_length=0)
    server.h2.send_headers(stream.id, TRAILERS, end_stream=True)
    assert client.open_streams == 1
    server.exchange()
    assert (sink.headers, bytes(sink.data), sink.trailers, sink.ended, sink.error) == (ANSWER, b"answer", TRAILERS, True, None)
    assert client.open_streams == 0
    assert stream.local_closed and stream.remote_closed and stream.error is None


def test_an_answer_of_headers_alone() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST, end=True)
    server.exchange()
    server.h2.send_headers(stream.id, [*ANSWER, *TRAILERS], end_stream=True)
    server.exchange()
    assert (sink.headers, sink.trailers, sink.ended, sink.error) == ([*ANSWER, *TRAILERS], None, True, None)


def test_an_answer_that_data_ends() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST, end=True)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    server.h2.send_data(stream.id, b"all", end_stream=True, pad_length=3)
    server.exchange()
    assert (bytes(sink.data), sink.ended, sink.error, client.open_streams) == (b"all", True, None, 0)


def test_informational_answers_are_skipped() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    server.exchange()
    for status in (b"100", b"103", b"103"):
        server.h2.send_headers(stream.id, [(b":status", status), (b"link", b"x")])
    server.h2.send_headers(stream.id, ANSWER)
    server.exchange()
    assert sink.headers == ANSWER


def test_a_body_after_the_end_is_a_mistake() -> None:
    client, _ = connected()
    stream = client.open(Recorder(), REQUEST, end=True)
    with pytest.raises(ValueError, match="has ended"):
        client.send_data(stream, b"x")
    stream = client.open(Recorder(), REQUEST)
    with pytest.raises(ValueError, match="of bytes"):
        client.send_data(stream, memoryview(bytearray(8)).cast("i"))
    assert client.send_data(stream, b"", end=True)
    with pytest.raises(ValueError, match="has ended"):
        client.send_data(stream, b"")


def test_a_header_that_cannot_be_opens_nothing() -> None:
    client, server = connected()
    sink = Recorder()
    with pytest.raises(ValueError, match="cannot be a header"):
        client.open(sink, [*REQUEST, (b"x", b"a\nb")])
    assert sink.stream is None and client.open_streams == 0 and not client.backlog
    client.open(sink, REQUEST)
    server.exchange()
    assert server.seen(RequestReceived)[0].stream_id == 1


# ---- header blocks in pieces ----


def test_long_headers_travel_in_continuations_both_ways() -> None:
    client, server = connected()
    extra = [(b"x-%d" % number, bytes(random.Random(number).randbytes(2000)).hex().encode()) for number in range(10)]
    sink = Recorder()
    stream = client.open(sink, REQUEST + extra)
    kinds = [kind for kind, _, _, _ in split(drained_and_sent(client, server))]
    assert kinds == [frames.HEADERS, frames.CONTINUATION, frames.CONTINUATION]
    assert [tuple(header) for header in server.seen(RequestReceived)[0].headers] == REQUEST + extra
    server.h2.streams[stream.id].max_outbound_frame_size = 1000
    server.h2.send_headers(stream.id, ANSWER + extra)
    sent = server.h2.data_to_send()
    assert [kind for kind, _, _, _ in split(sent)].count(frames.CONTINUATION) > 20
    receive(client, sent, random.Random(1))
    assert sink.headers == ANSWER + extra


def drained_and_sent(client: ClientConnection, server: H2Server) -> bytes:
    data = drained(client)
    pos = 0
    while pos < len(data):  # one frame at a time: h2 heeds an acknowledgement only in the next call
        size = len(frames.PREFACE) if data.startswith(frames.PREFACE, pos) else 9 + frames.unpack_header(data, pos)[0]
        server.events += server.h2.receive_data(data[pos : pos + size])
        pos += size
    return data


def test_dynamic_tables_stay_in_step_over_many_requests() -> None:
    client, server = connected()
    for number in range(300):
        extra = [(b"x-a", b"%d" % (number % 7)), (b"x-b", b"%d" % (number % 150) * 20)]
        sink = Recorder()
        stream = client.open(sink, REQUEST + extra, end=True)
        server.exchange()
        assert [tuple(header) for header in server.seen(RequestReceived)[-1].headers] == REQUEST + extra
        server.h2.send_headers(stream.id, ANSWER + extra)
        server.h2.send_headers(stream.id, TRAILERS + extra[1:], end_stream=True)
        server.exchange()
        assert (sink.headers, sink.trailers) == (ANSWER + extra, TRAILERS + extra[1:])
    assert client.open_streams == 0 and not client._resets


@pytest.mark.parametrize("own", [0, 100, 4096, 65536])
def test_table_sizes_change_in_use(own: int) -> None:
    rng = random.Random(own)
    client, server = connected(table_bytes=own)
    for number in range(200):
        if rng.random() < 0.2:
            for _ in range(rng.randrange(1, 3)):
                server.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: rng.choice((0, 50, 300, 4096, 65536))})
        if rng.random() < 0.5:
            server.exchange()
        extra = [(b"x-%d" % rng.randrange(50), b"v%d" % rng.randrange(3)) for _ in range(5)]
        sink = Recorder()
        stream = client.open(sink, REQUEST + extra, end=True)
        if rng.random() < 0.5:
            inward = server.h2.data_to_send()
            receive(client, inward)
        server.exchange()
        assert [tuple(header) for header in server.seen(RequestReceived)[-1].headers] == REQUEST + extra
        server.h2.send_headers(stream.id, ANSWER + extra, end_stream=True)
        server.exchange()
        assert sink.headers == ANSWER + extra
        assert client._decoder.table[1] <= max(own, 4096 if number < 1 else own)


def test_headers_are_read_across_the_end_of_the_receive_buffer() -> None:
    client, server = connected()
    sinks: list[Recorder] = []
    for _ in range(90):
        sinks.append(Recorder())
        client.open(sinks[-1], REQUEST)
    server.exchange()
    for number in range(90):
        server.h2.send_headers(2 * number + 1, [*ANSWER, (b"x", pattern(3000 + number, number).hex().encode())])
    inward = server.h2.data_to_send()
    assert len(inward) > 300_000
    receive(client, inward)
    for number, sink in enumerate(sinks):
        assert sink.headers == [*ANSWER, (b"x", pattern(3000 + number, number).hex().encode())]


def test_a_table_size_that_sank_and_rose_again_is_said() -> None:
    client, _ = connected()
    client.open(Recorder(), REQUEST)
    drained(client)
    client.feed(frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, 0), (frames.SETTINGS_HEADER_TABLE_SIZE, 4096)]))
    client.open(Recorder(), [(b":method", b"POST")])
    assert split(drained(client))[-1][3].hex() == "20" + "3fe11f" + "83"


# ---- sending within windows ----


def pattern(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def test_large_bodies_are_not_copied() -> None:
    client, server = connected()
    server.h2.update_settings({SettingCodes.MAX_FRAME_SIZE: 1 << 20, SettingCodes.INITIAL_WINDOW_SIZE: 1 << 30})
    server.h2.increment_flow_control_window(1 << 30)
    server.exchange()
    body = bytearray(pattern(3_000_000))
    stream = client.open(Recorder(), REQUEST)
    assert client.send_data(stream, b"prefix", memoryview(body), b"suffix", end=True)
    queue: list[bytes | memoryview] = []
    client.drain(queue)
    assert sum(len(part) for part in queue if isinstance(part, memoryview) and part.obj is body) == len(body)
    assert sum(len(part) for part in queue if isinstance(part, bytes)) < 1000
    assert stream.queued_bytes == len(body) + 12
    server.events += server.h2.receive_data(b"".join(queue))
    assert received_by(server, stream.id) == b"prefix" + body + b"suffix"
    assert [kind for kind, _, _, _ in split(b"".join(queue))] == [frames.HEADERS, *[frames.DATA] * 3]


def test_small_bodies_are_one_buffer() -> None:
    client, _ = connected()
    stream = client.open(Recorder(), REQUEST)
    drained(client)
    for parts in ([b"x" * MAX_JOINED_BYTES], [b"ab", memoryview(b"cd")]):
        assert client.send_data(stream, *parts)
        queue: list[bytes | memoryview] = []
        client.drain(queue)
        ((kind, _, _, payload),) = split(bytes(queue[0]))
        assert len(queue) == 1 and kind == frames.DATA and payload == b"".join(parts)


def test_settle_lets_the_memory_change() -> None:
    client, server = connected()
    body = bytearray(pattern(200_000))
    expected = bytes(body)
    stream = client.open(Recorder(), REQUEST)
    assert not client.send_data(stream, memoryview(body), end=True)
    client.settle()
    body[:] = bytes(len(body))
    server.on_event = lambda event: acknowledge(server, event)
    server.exchange()
    assert received_by(server, stream.id) == expected


def acknowledge(server: H2Server, event: Event) -> None:
    if isinstance(event, DataReceived) and event.flow_controlled_length:
        server.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)


@pytest.mark.parametrize("seed", range(6))
def test_bodies_follow_small_and_changing_windows(seed: int) -> None:
    """Windows that shrink below what was sent, tiny increments, frames of the smallest size, streams in turns."""
    rng = random.Random(seed)
    client = ClientConnection()
    server = H2Server(client, seed=seed)
    server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    server.exchange()
    sizes = [30_000, *(rng.choice((0, 1, 9, 1000, 30_000)) for _ in range(7))]
    bodies = [pattern(size, number) for number, size in enumerate(sizes)]
    streams = [client.open(Recorder(), REQUEST) for _ in bodies]
    for stream, body in zip(streams, bodies, strict=True):
        pos = 0
        while pos < len(body):
            size = rng.choice((1, 50, 7000, 50_000))
            client.send_data(stream, body[pos : pos + size])
            pos += size
        client.send_data(stream, b"", end=True)
    negative = 0
    for _ in range(100_000):
        server.exchange()
        if len(server.seen(StreamEnded)) == len(bodies):
            break
        choice = rng.random()
        if choice < 0.2:
            server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 5000})
            server.exchange()
            server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: rng.choice((0, 1, 100))})
        elif choice < 0.3:
            server.h2.update_settings({SettingCodes.MAX_FRAME_SIZE: rng.choice((1 << 14, 1 << 15, 1 << 20))})
        elif choice < 0.4:
            server.h2.increment_flow_control_window(rng.choice((1, 1000, 20_000)))
        else:
            open_ones = [stream for stream in streams if not stream.local_closed]
            server.h2.increment_flow_control_window(rng.choice((1, 10, 3000)), rng.choice(open_ones).id)
        server.exchange()
        negative += any(client._peer_window + stream.granted - stream.sent < 0 for stream in streams)
    assert negative
    for stream, body in zip(streams, bodies, strict=True):
        assert received_by(server, stream.id) == body
    assert not client._blocked


def test_a_blocked_stream_does_not_block_the_others() -> None:
    client, server = connected()
    first, second = client.open(Recorder(), REQUEST), client.open(Recorder(), REQUEST)
    body = pattern(65_535)
    assert client.send_data(first, body[:65_000])
    server.exchange()
    assert not client.send_data(second, body)
    server.h2.increment_flow_control_window(200_000)
    server.exchange()
    assert received_by(server, second.id) == body
    assert not client.send_data(first, body)
    assert client.send_data(client.open(Recorder(), REQUEST), b"x", end=True)
    server.exchange()
    assert received_by(server, first.id) == (body[:65_000] + body)[:65_535]


def test_streams_take_turns_when_the_connection_is_short() -> None:
    client, server = connected()
    server.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    server.exchange()
    streams = [client.open(Recorder(), REQUEST) for _ in range(4)]
    client.send_data(streams[0], bytes(65_535))
    for stream in streams:
        client.send_data(stream, bytes(100_000))
    server.exchange()
    before = [stream.sent for stream in streams]
    server.h2.increment_flow_control_window(4 * 16_384)
    server.exchange()
    assert [stream.sent - sent for stream, sent in zip(streams, before, strict=True)] == [16_384] * 4


def test_a_frame_follows_the_settings_that_were_accepted_before_it() -> None:
    """A peer that strictly enforces its limits sees no frame by new settings before their acknowledgement."""
    client, server = connected()
    stream = client.open(Recorder(), REQUEST)
    server.exchange()
    server.h2.update_settings({SettingCodes.MAX_FRAME_SIZE: 60_000, SettingCodes.HEADER_TABLE_SIZE: 0})
    receive(client, server.h2.data_to_send())
    client.send_data(stream, bytes(50_000))
    client.open(Recorder(), REQUEST)
    kinds = [(kind, flags) for kind, flags, _, _ in split(drained_and_sent(client, server))]
    assert kinds == [(frames.SETTINGS, frames.ACK), (frames.DATA, 0), (frames.HEADERS, frames.END_HEADERS)]
    for use in (lambda: client.open(Recorder(), REQUEST), lambda: client.send_data(stream, b"small")):
        server.h2.update_settings({SettingCodes.HEADER_TABLE_SIZE: server.h2.decoder.max_allowed_table_size + 100})
        receive(client, server.h2.data_to_send())
        use()
        assert [kind for kind, _, _, _ in split(drained_and_sent(client, server))][0] == frames.SETTINGS


# ---- receiving ----


def test_windows_are_opened_in_time() -> None:
    """The server is never blocked for long: it can send on as soon as the client has read."""
    client, server = connected(stream_window_bytes=65_535, connection_window_bytes=65_535)
    sink = Recorder()
    stream = client.open(sink, REQUEST, end=True)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    body = pattern(1_000_000)
    pos = 0
    while pos < len(body):
        size = min(server.h2.local_flow_control_window(stream.id), 16_384, len(body) - pos)
        assert size > 0
        server.h2.send_data(stream.id, body[pos : pos + size])
        pos += size
        server.exchange()
        assert server.h2.local_flow_control_window(stream.id) >= 65_535 // 2
    server.h2.end_stream(stream.id)
    server.exchange()
    assert sink.data == body and sink.ended
    assert len(server.seen(WindowUpdated)) < 80


def test_padding_and_dropped_data_are_given_back() -> None:
    client, server = connected(stream_window_bytes=65_535, connection_window_bytes=65_535)
    for number in range(30):
        sink = Recorder()
        stream = client.open(sink, REQUEST)
        server.exchange()
        server.h2.send_headers(stream.id, ANSWER)
        if number % 2:
            client.reset(stream)
        for _ in range(40):
            server.h2.send_data(stream.id, b"x", pad_length=254)
        inward = server.h2.data_to_send()
        server.exchange()
        receive(client, inward)
        server.exchange()
        assert server.h2.outbound_flow_control_window >= 65_535 // 2
        if not number % 2:
            assert len(sink.data) == 40
            client.reset(stream)


def test_a_paused_stream_gets_no_more_than_its_window() -> None:
    client, server = connected(stream_window_bytes=65_535)
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    client.set_paused(stream, True)
    for _ in range(4):
        server.h2.send_data(stream.id, bytes(min(16_384, server.h2.local_flow_control_window(stream.id))))
        server.exchange()
    assert server.h2.local_flow_control_window(stream.id) == 0
    client.set_paused(stream, False)
    server.exchange()
    assert server.h2.local_flow_control_window(stream.id) == 65_535


class Filler(StreamSink):
    """Takes `head` bytes, then fills the destinations one after the other, then takes the rest."""

    def __init__(self, head: int, destinations: list[memoryview]) -> None:
        super().__init__()
        self.head = head
        self.destinations = destinations
        self.taken = bytearray()
        self.filled_at: list[int] = []
        self.ended = False

    def _next(self, position: int) -> None:
        assert self.stream is not None
        if self.destinations:
            self.stream.receive_into(self.destinations.pop(0), position)

    def on_data(self, position: int, data: memoryview) -> int:
        if position < self.head <= position + len(data):
            self._next(self.head)
            data = data[: self.head - position]
        self.taken += data
        return len(data)

    def on_filled(self, position: int) -> None:
        self.filled_at.append(position)
        self._next(position)

    def on_end(self, error: Any) -> None:
        self.ended = error is None


@pytest.mark.parametrize("seed", range(10))
def test_data_goes_into_the_callers_memory(seed: int) -> None:
    rng = random.Random(seed)
    client, server = connected()
    sizes = [rng.choice((0, 1, 100, MIN_DIRECT_BYTES, 50_000, 400_000)) for _ in range(6)]
    memories = [bytearray(size) for size in sizes]
    sink = Filler(7, [memoryview(memory) for memory in memories])
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    body = pattern(7 + sum(sizes) + 20, seed)
    pos = 0
    while pos < len(body):
        size = rng.choice((1, 1000, 16_384, 300_000))
        padding = rng.choice((None, 0, 200))
        server.h2.send_data(stream.id, body[pos : pos + size], pad_length=padding)
        pos += size
    server.h2.end_stream(stream.id)
    receive(client, server.h2.data_to_send(), rng, directly=bool(seed % 2))
    expected = [body[7 + sum(sizes[:n]) : 7 + sum(sizes[: n + 1])] for n in range(len(sizes))]
    assert [bytes(memory) for memory in memories] == expected
    assert sink.taken == body[:7] + body[-20:]
    assert sink.filled_at == [7 + sum(sizes[: n + 1]) for n in range(len(sizes))]
    assert sink.ended and stream.position == len(body)


def test_large_data_is_received_where_it_belongs() -> None:
    """The socket's bytes go to the destination, and what follows them to the connection's own buffer, in one call."""
    client, server = connected()
    memory = bytearray(500_000)
    sink = Filler(5, [memoryview(memory)])
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    server.h2.send_data(stream.id, b"head:" + pattern(500_000))
    data = server.h2.data_to_send()
    first = data.index(b"head:") + 5
    receive(client, data[:first])
    buffers = client.receive_buffers()
    assert len(buffers) == 2
    assert buffers[0].obj is memory and len(buffers[0]) == 500_000
    buffers[0][:] = data[first:]
    client.received(client._total + 500_000)
    assert memory == pattern(500_000) and sink.filled_at == [500_005]
    assert len(client.receive_buffers()) == 1


def test_a_sink_that_takes_too_little_is_a_mistake() -> None:
    class Short(Recorder):
        def on_data(self, position: int, data: memoryview) -> int:
            return len(data) - 1

    client, server = connected()
    stream = client.open(Short(), REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    server.h2.send_data(stream.id, b"xy")
    with pytest.raises(ValueError, match="took 1 of 2 bytes"):
        server.exchange()


def test_an_error_of_a_sink_leaves_the_data_where_it_is() -> None:
    class Broken(Recorder):
        trouble = True

        def on_data(self, position: int, data: memoryview) -> int:
            if self.trouble:
                raise ZeroDivisionError
            return super().on_data(position, data)

    client, server = connected()
    sink = Broken()
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    server.h2.send_data(stream.id, b"xy")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            receive(client, server.h2.data_to_send()) or client.received(client._total)
    sink.trouble = False
    client.received(client._total)
    assert sink.data == b"xy"


# ---- many streams ----


@pytest.mark.parametrize("seed", range(6))
def test_streams_interleave(seed: int) -> None:
    """An echo server in random order and pieces, with padding and long headers; some streams are reset by either side."""
    rng = random.Random(seed)
    client = ClientConnection(stream_window_bytes=100_000, connection_window_bytes=200_000, max_frame_bytes=1 << 15)
    pending: dict[int, bytearray] = {}
    answered: set[int] = set()
    finished: set[int] = set()
    server_resets: set[int] = set()

    def on_event(event: Event) -> None:
        if isinstance(event, RequestReceived):
            pending[event.stream_id] = bytearray()
        elif isinstance(event, DataReceived):
            acknowledge(server, event)
            if event.stream_id in pending:
                pending[event.stream_id] += event.data
        elif isinstance(event, StreamEnded):
            finished.add(event.stream_id)
        elif isinstance(event, StreamReset):
            pending.pop(event.stream_id, None)

    server = H2Server(client, on_event, seed)
    server.exchange()

    def serve() -> None:
        for number in rng.sample(sorted(pending), len(pending)):
            if rng.random() < 0.02:
                server.h2.reset_stream(number, ErrorCodes.INTERNAL_ERROR)
                server_resets.add(number)
                del pending[number]
                continue
            if number not in answered:
                server.h2.send_headers(number, [*ANSWER, (b"x-large", b"%d" % number * rng.choice((1, 6000)))])
                answered.add(number)
            size = min(rng.choice((1, 100, 20_000)), server.h2.local_flow_control_window(number), len(pending[number]))
            padding = rng.choice((None, 3))
            if size > 10:
                server.h2.send_data(number, bytes(pending[number][: size - 4]), pad_length=padding)
                del pending[number][: size - 4]
            elif size:
                server.h2.send_data(number, bytes(pending[number][:size]))
                del pending[number][:size]
            if number in finished and not pending[number]:
                server.h2.send_headers(number, [*TRAILERS, (b"x", b"%d" % number)], end_stream=True)
                del pending[number]

    sinks: dict[int, tuple[Recorder, bytes]] = {}
    given_up: set[int] = set()
    unsent: dict[int, int] = {}
    for _ in range(3000):
        if len(sinks) < 60 and rng.random() < 0.2 and client.can_open:
            sink = Recorder()
            stream = client.open(sink, REQUEST)
            sinks[stream.id] = (sink, pattern(rng.choice((0, 10, 1000, 200_000)), stream.id))
            unsent[stream.id] = 0
        for number in list(unsent):
            sink, body = sinks[number]
            if sink.ended:
                del unsent[number]
            elif rng.random() < 0.3:
                size = rng.choice((1, 5000, 100_000))
                pos = unsent[number]
                last = pos + size >= len(body)
                client.send_data(sink.opened, memoryview(body)[pos : pos + size], end=last)
                unsent[number] = pos + size
                if last:
                    del unsent[number]
            elif rng.random() < 0.01:
                client.reset(sink.opened)
                given_up.add(number)
                del unsent[number]
        server.exchange()
        serve()
        if len(sinks) == 60 and not unsent and not client.open_streams:
            break
    server.exchange()
    assert client.open_streams == 0 and not client._blocked and len(sinks) == 60
    complete = 0
    for number, (sink, body) in sinks.items():
        if number in given_up:
            assert not sink.ended and body.startswith(sink.data)
        elif number in server_resets:
            assert isinstance(sink.error, Http2StreamError) and sink.error.code == ErrorCodes.INTERNAL_ERROR
            assert sink.opened.error is sink.error
        else:
            complete += 1
            assert sink.data == body and sink.error is None and sink.trailers == [*TRAILERS, (b"x", b"%d" % number)]
    assert complete > 20


def test_the_peers_limit_of_streams_is_kept() -> None:
    client = ClientConnection()
    early = [client.open(Recorder(), REQUEST) for _ in range(EARLY_STREAMS)]
    with pytest.raises(Http2StreamError, match="allows 100 streams") as caught:
        client.open(Recorder(), REQUEST)
    assert caught.value.unprocessed and caught.value.code == REFUSED_STREAM and not client.can_open
    for stream in early:
        client.reset(stream)
    server = H2Server(client)
    server.h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    server.exchange()
    first, _ = client.open(Recorder(), REQUEST), client.open(Recorder(), REQUEST, end=True)
    assert not client.can_open
    with pytest.raises(Http2StreamError, match="allows 2 streams at a time"):
        client.open(Recorder(), REQUEST)
    server.exchange()
    server.h2.send_headers(first.id, ANSWER, end_stream=True)
    server.exchange()
    assert not client.can_open  # the request has not ended
    client.send_data(first, b"", end=True)
    assert client.can_open


@pytest.mark.parametrize("last", [b"", b"small", bytes(30_000)])
def test_a_request_may_end_after_its_answer(last: bytes) -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER, end_stream=True)
    server.exchange()
    assert sink.ended and client.open_streams == 1
    assert client.send_data(stream, last, end=True)
    assert client.open_streams == 0
    server.exchange()
    assert received_by(server, stream.id) == last


def test_stream_numbers_run_out() -> None:
    client, _ = connected()
    client._next_id = frames.MAX_STREAM_ID
    assert client.open(Recorder(), REQUEST).id == frames.MAX_STREAM_ID
    with pytest.raises(Http2StreamError, match="used up"):
        client.open(Recorder(), REQUEST)


def test_headers_over_the_peers_limit_are_not_sent() -> None:
    client, server = connected()
    server.h2.update_settings({SettingCodes.MAX_HEADER_LIST_SIZE: 1000})
    server.exchange()
    with pytest.raises(Http2StreamError, match="the peer takes 1000"):
        client.open(Recorder(), [*REQUEST, (b"x", b"y" * 900)])
    client.open(Recorder(), REQUEST)


# ---- resets, GOAWAY, PING, the end ----


@pytest.mark.parametrize("code,unprocessed", [(ErrorCodes.REFUSED_STREAM, True), (ErrorCodes.ENHANCE_YOUR_CALM, False)])
def test_a_reset_by_the_peer_ends_one_stream(code: ErrorCodes, unprocessed: bool) -> None:
    client, server = connected()
    sink, other = Recorder(), Recorder()
    stream = client.open(sink, REQUEST)
    client.open(other, REQUEST)
    server.exchange()
    client.send_data(stream, bytes(100_000))
    server.h2.reset_stream(stream.id, code)
    server.exchange()
    error = sink.error
    assert isinstance(error, Http2StreamError)
    assert (error.code, error.unprocessed, error.stream_id) == (code, unprocessed, stream.id)
    assert not other.ended and not client._blocked
    with pytest.raises(Http2StreamError) as caught:
        client.send_data(stream, b"x")
    assert caught.value is error


def test_a_reset_of_ours_is_said_and_what_crosses_it_is_dropped() -> None:
    client, server = connected()
    sink, other = Recorder(), Recorder()
    stream = client.open(sink, REQUEST)
    client.open(other, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, [*ANSWER, (b"x-new", b"entry")])
    server.h2.send_data(stream.id, b"late")
    server.h2.send_headers(stream.id, TRAILERS, end_stream=True)
    crossing = server.h2.data_to_send()
    client.reset(stream)
    client.reset(stream)
    receive(client, crossing)
    server.exchange()
    assert [(e.stream_id, e.error_code) for e in server.seen(StreamReset)] in ([], [(stream.id, CANCEL)])
    assert sink.headers is None and not sink.ended
    server.h2.send_headers(3, [*ANSWER, (b"x-new", b"entry")])
    server.exchange()
    assert other.headers == [*ANSWER, (b"x-new", b"entry")]


def test_goaway_in_the_middle() -> None:
    client, server = connected()
    sinks = [Recorder() for _ in range(4)]
    streams = [client.open(sink, REQUEST) for sink in sinks]
    client.send_data(streams[3], bytes(70_000))
    server.exchange()
    server.h2.send_headers(streams[0].id, ANSWER)
    server.exchange()
    goaway = frames.goaway(streams[1].id, NO_ERROR, b"max_age")
    receive(client, goaway)
    assert client.goaway == (streams[1].id, NO_ERROR, b"max_age")
    assert [sink.ended for sink in sinks] == [False, False, True, True]
    error = sinks[2].error
    assert isinstance(error, Http2StreamError) and error.unprocessed and error.stream_id == streams[2].id
    assert "GOAWAY with NO_ERROR and 'max_age'" in str(error)
    with pytest.raises(Http2StreamError, match="no more streams: GOAWAY"):
        client.open(Recorder(), REQUEST)
    server.h2.send_data(streams[0].id, b"still", end_stream=True)
    server.exchange()
    assert sinks[0].data == b"still" and sinks[0].error is None
    receive(client, frames.goaway(streams[0].id, 11, b"too_many_pings"))
    assert isinstance(sinks[1].error, Http2StreamError) and sinks[1].error.unprocessed
    error = client.lost("the peer closed it")
    assert "after GOAWAY with ENHANCE_YOUR_CALM and 'too_many_pings'" in error.message
    assert client.lost("again") is error and client.error is error


def test_the_end_of_the_link_ends_all_streams() -> None:
    client, _ = connected()
    sinks = [Recorder(), Recorder()]
    for sink in sinks:
        client.open(sink, REQUEST)
    error = client.lost("the peer closed it")
    assert [sink.error for sink in sinks] == [error, error] and client.open_streams == 0
    for use in (
        lambda: client.open(Recorder(), REQUEST),
        lambda: client.send_data(sinks[0].opened, b"x"),
        lambda: client.received(client._total),
    ):
        with pytest.raises(Http2ConnectionError) as caught:
            use()
        assert caught.value is error


def test_pings_are_answered() -> None:
    client, server = connected()
    server.h2.ping(b"12345678")
    server.exchange()
    assert [event.ping_data for event in server.seen(PingAckReceived)] == [b"12345678"]
    assert client.ping() == 1 and client.ping() == 2
    assert client.pings_acked == 0
    server.exchange()
    assert len(server.seen(PingReceived)) == 2
    assert client.pings_acked == client.pings_sent == 2


def test_close_says_goaway_and_lets_streams_finish() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST, end=True)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    inward = server.h2.data_to_send()
    client.close(debug=b"bye")
    client.close()
    receive(client, inward)
    assert sink.headers == ANSWER and not client.can_open
    with pytest.raises(Http2StreamError, match="being closed"):
        client.open(Recorder(), REQUEST)
    server.exchange()
    assert [(event.error_code, event.additional_data) for event in server.seen(ConnectionTerminated)] == [(0, b"bye")]


def test_drain_keeps_what_the_queue_has() -> None:
    client, _ = connected()
    queue: list[bytes | memoryview] = [b"before"]
    client.ping()
    client.drain(queue)
    assert queue[0] == b"before" and len(queue) == 2 and not client.backlog


def test_feed_does_what_received_does() -> None:
    client, server = connected()
    sink = Recorder()
    stream = client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(stream.id, ANSWER)
    body = pattern(1_000_000)
    server.h2.send_data(stream.id, body)
    client.feed(server.h2.data_to_send())
    assert sink.data == body


def test_importing_it_is_cheap() -> None:
    modules = "client_connection, frames, grpc_status, hpack, huffman"
    code = f"""
import sys, pjrtd
before = set(sys.modules)
from pjrtd.http2 import {modules}
print(sorted(name for name in set(sys.modules) - before if not name.startswith("pjrtd.http2")))
"""
    run = run_python(code)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


