"""A server that breaks HTTP/2's rules, or floods: one clear error, bounded memory, other streams unharmed where it can be."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import hpack as oracle
import pytest
from http2_peer import ANSWER, REQUEST, TRAILERS, Recorder, drained, frame, receive, split

from pjrtd.http2 import frames
from pjrtd.http2.client_connection import MAX_CONTROL_FRAME_BYTES, MAX_REPLIES, ClientConnection
from pjrtd.http2.flood_guard import IDLE_FRAMES_SECONDS, MAX_IDLE_FRAMES
from pjrtd.http2.http2_errors import (
    CANCEL,
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    PROTOCOL_ERROR,
    STREAM_CLOSED,
    Http2ConnectionError,
    Http2Error,
    Http2StreamError,
)
from pjrtd.http2.peer_frames import MAX_BLOCK_BYTES, MAX_CONTINUATIONS, MAX_STRAY_RESETS
from pjrtd.http2.send_side import MAX_REMEMBERED_RESETS
from pjrtd.http2.stream import MAX_INFORMATIONAL

ENDS = frames.END_STREAM | frames.END_HEADERS
SETTINGS = frames.settings([])


def headers(fields: list[tuple[bytes, bytes]]) -> bytes:
    """A block that uses no table, so that it can be decoded at any time."""
    encoder = oracle.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields)[1:]


HEAD = headers(ANSWER)
TAIL = headers(TRAILERS)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A connection whose SETTINGS are done, with the streams 1 (answered), 3 (not answered) and 5 (complete)."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.client = ClientConnection(100_000, 150_000, max_frame_bytes=1 << 17, clock=self.clock)
        self.sinks = {number: Recorder() for number in (1, 3, 5)}
        for number, sink in self.sinks.items():
            assert self.client.open(sink, REQUEST, end=number == 5).id == number
        self.give(SETTINGS, frame(frames.HEADERS, 4, 1, HEAD), frame(frames.HEADERS, ENDS, 5, HEAD))
        drained(self.client)

    def give(self, *data: bytes) -> None:
        receive(self.client, b"".join(data))

    def refused(self, code: int, why: str, *data: bytes) -> None:
        """All of it is given, and the connection breaks on it."""
        with pytest.raises(Http2ConnectionError, match=why) as caught:
            self.give(*data)
        assert caught.value.code == code
        assert self.sinks[1].error is self.sinks[3].error is self.client.error is caught.value
        assert self.sinks[5].error is None and self.client.open_streams == 0
        kind, _, _, payload = split(drained(self.client))[-1]
        assert kind == frames.GOAWAY and frames.parse_goaway(payload)[1] == code
        with pytest.raises(Http2ConnectionError):
            self.client.received(self.client._total)

    def stream_refused(self, number: int, code: int, why: str, *data: bytes) -> None:
        """The stream fails, the others go on."""
        self.give(*data)
        error = self.sinks[number].error
        assert isinstance(error, Http2StreamError)
        assert error.code == code and why in error.message and error.stream_id == number
        found = split(drained(self.client))
        resets = [(stream, payload) for kind, _, stream, payload in found if kind == frames.RST_STREAM]
        assert resets == [(number, code.to_bytes(4, "big"))]
        other = 4 - number
        if other == 3:
            self.give(frame(frames.HEADERS, 4, 3, HEAD))
        self.give(frame(frames.DATA, 1, other, b"fine"))
        assert self.sinks[other].data == b"fine" and self.sinks[other].error is None
        self.give(frame(frames.DATA, 0, number, b"late"), frame(frames.RST_STREAM, 0, number, bytes(4)))


@pytest.mark.parametrize(
    "code,why,data",
    [
        (PROTOCOL_ERROR, "pushes", frame(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2" + HEAD)),
        (FRAME_SIZE_ERROR, "131073 bytes where 131072", frame(frames.DATA, 0, 1, bytes((1 << 17) + 1))),
        (FRAME_SIZE_ERROR, "PING frame has 7", frame(frames.PING, 0, 0, bytes(7))),
        (PROTOCOL_ERROR, "DATA frame is on stream 0", frame(frames.DATA, 0, 0, b"x")),
        (FRAME_SIZE_ERROR, "padded DATA frame is empty", frame(frames.DATA, 8, 1)),
        (PROTOCOL_ERROR, "DATA frame of 3 bytes has 3", frame(frames.DATA, 8, 1, b"\x03xy")),
        (PROTOCOL_ERROR, "DATA on stream 7, which was never", frame(frames.DATA, 0, 7, b"x")),
        (PROTOCOL_ERROR, "DATA on stream 2, which was never", frame(frames.DATA, 0, 2, b"x")),
        (PROTOCOL_ERROR, "HEADERS on stream 7, which was never", frame(frames.HEADERS, 4, 7, HEAD)),
        (PROTOCOL_ERROR, "HEADERS on stream 4, which was never", frame(frames.HEADERS, 4, 4, HEAD)),
        (PROTOCOL_ERROR, "RST_STREAM on stream 7", frame(frames.RST_STREAM, 0, 7, bytes(4))),
        (PROTOCOL_ERROR, "WINDOW_UPDATE on stream 7", frame(frames.WINDOW_UPDATE, 0, 7, b"\0\0\0\1")),
        (STREAM_CLOSED, "DATA on stream 5, which is over", frame(frames.DATA, 0, 5, b"x")),
        (STREAM_CLOSED, "HEADERS on stream 5, which is over", frame(frames.HEADERS, 4, 5, HEAD)),
        (PROTOCOL_ERROR, "follows no HEADERS", frame(frames.CONTINUATION, 4, 1, b"")),
        (PROTOCOL_ERROR, "is inside the headers of 3", frame(frames.HEADERS, 0, 3, HEAD) + frame(frames.DATA, 0, 1, b"x")),
        (PROTOCOL_ERROR, "is inside the headers of 3", frame(frames.HEADERS, 0, 3, HEAD) + frames.ping(bytes(8))),
        (PROTOCOL_ERROR, "is inside the headers of 3", frame(frames.HEADERS, 0, 3, HEAD) + frame(99, 0, 0)),
        (PROTOCOL_ERROR, "is inside the headers of 3", frame(frames.HEADERS, 0, 3, HEAD) + frame(frames.CONTINUATION, 4, 1)),
        (PROTOCOL_ERROR, "is inside the headers of 3", frame(frames.HEADERS, 0, 3, HEAD) + frame(frames.HEADERS, 4, 3, HEAD)),
        (COMPRESSION_ERROR, "no field 70", frame(frames.HEADERS, 4, 3, b"\xc6")),
        (COMPRESSION_ERROR, "no field 70", frame(frames.HEADERS, 0, 3, b"\x88") + frame(frames.CONTINUATION, 4, 3, b"\xc6")),
        (FRAME_SIZE_ERROR, "too short for its priority", frame(frames.HEADERS, 0x24, 3, b"\0\0\0\0")),
        (PROTOCOL_ERROR, "ENABLE_PUSH", frames.settings([(2, 1)])),
        (FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE", frames.settings([(4, 1 << 31)])),
        (FLOW_CONTROL_ERROR, "connection's window grows", frames.window_update(0, (1 << 31) - 1)),
        (PROTOCOL_ERROR, "increment of 0", frames.window_update(0, 0)),
        (FLOW_CONTROL_ERROR, "window of stream 1 grows", frames.window_update(1, 1 << 30) + frames.settings([(4, 1 << 30)])),
        (PROTOCOL_ERROR, "names stream 5 after it named 3", frames.goaway(3, 0) + frames.goaway(5, 0)),
        (ENHANCE_YOUR_CALM, "HEADERS frame has 65537", frame(frames.HEADERS, 4, 3, bytes(MAX_CONTROL_FRAME_BYTES + 1))),
        (ENHANCE_YOUR_CALM, "GOAWAY frame has 65537", frame(frames.GOAWAY, 0, 0, bytes(MAX_CONTROL_FRAME_BYTES + 1))),
    ],
)
def test_what_breaks_the_connection(code: int, why: str, data: bytes) -> None:
    Scene().refused(code, why, data)


@pytest.mark.parametrize(
    "number,code,why,data",
    [
        (3, PROTOCOL_ERROR, "DATA before the headers of stream 3", frame(frames.DATA, 0, 3, b"x")),
        (1, FLOW_CONTROL_ERROR, "the window of stream 1 is 100000", frame(frames.DATA, 0, 1, bytes(100_001))),
        (1, PROTOCOL_ERROR, "increment of 0", frames.window_update(1, 0)),
        (1, FLOW_CONTROL_ERROR, "window of stream 1 grows", frames.window_update(1, (1 << 31) - 1)),
        (1, PROTOCOL_ERROR, "more after its trailers", frame(frames.HEADERS, 4, 1, TAIL)),
        (1, PROTOCOL_ERROR, "cannot stand where it does", frame(frames.HEADERS, 5, 1, HEAD)),
        (3, PROTOCOL_ERROR, "has no status", frame(frames.HEADERS, 4, 3, TAIL)),
        (3, PROTOCOL_ERROR, "status 100 cannot end it", frame(frames.HEADERS, 5, 3, headers([(b":status", b"100")]))),
        (3, PROTOCOL_ERROR, "no status 101", frame(frames.HEADERS, 4, 3, headers([(b":status", b"101")]))),
    ],
)
def test_what_breaks_one_stream(number: int, code: int, why: str, data: bytes) -> None:
    Scene().stream_refused(number, code, why, data)


@pytest.mark.parametrize("more", [frame(frames.DATA, 0, 1, b"x"), frame(frames.HEADERS, 5, 1, TAIL)])
def test_what_comes_after_an_answer_resets_the_request(more: bytes) -> None:
    scene = Scene()
    sink = scene.sinks[1]
    scene.give(frame(frames.DATA, 1, 1, b"x"))
    assert sink.ended and scene.client.open_streams == 2
    scene.give(more)
    assert (bytes(sink.data), sink.trailers, sink.error) == (b"x", None, None)
    assert isinstance(sink.opened.error, Http2StreamError) and sink.opened.error.code == STREAM_CLOSED
    assert split(drained(scene.client)) == [(frames.RST_STREAM, 0, 1, STREAM_CLOSED.to_bytes(4, "big"))]


@pytest.mark.parametrize(
    "fields",
    [
        [(b":status", b"2000")],
        [(b":status", b"2x0")],
        [(b":status", b"099")],
        [(b":status", b"")],
        [(b":status", b"200"), (b":status", b"200")],
        [(b":status", b"200"), (b":path", b"/")],
        [(b"x", b"y"), (b":status", b"200")],
        [(b":status", b"200"), (b"Upper", b"x")],
        [(b":status", b"200"), (b"", b"x")],
        [(b":status", b"200"), (b"x y", b"x")],
        [(b":status", b"200"), (b"x", b"a\0b")],
        [(b":status", b"200"), (b"x", b"a\r\nb")],
        [(b":status", b"200"), (b"x", b" a")],
        [(b":status", b"200"), (b"connection", b"close")],
        [(b":status", b"200"), (b"transfer-encoding", b"chunked")],
        [(b":status", b"200"), (b"content-length", b"-1")],
        [(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"1")],
        [(b":status", b"200"), (b"content-length", b"9" * 19)],
    ],
)
def test_malformed_answers(fields: list[tuple[bytes, bytes]]) -> None:
    Scene().stream_refused(3, PROTOCOL_ERROR, "answer on stream 3 is malformed", frame(frames.HEADERS, 4, 3, headers(fields)))


@pytest.mark.parametrize(
    "data,fits",
    [
        ([frame(frames.DATA, 1, 3, b"1234")], True),
        ([frame(frames.DATA, 0, 3, b"1234"), frame(frames.HEADERS, 5, 3, TAIL)], True),
        ([frame(frames.DATA, 1, 3, b"123")], False),
        ([frame(frames.DATA, 0, 3, b"12345")], False),
        ([frame(frames.DATA, 0, 3, b"1"), frame(frames.HEADERS, 5, 3, TAIL)], False),
    ],
)
def test_the_announced_length_is_held_against_the_data(data: list[bytes], fits: bool) -> None:
    scene = Scene()
    head = frame(frames.HEADERS, 4, 3, headers([*ANSWER, (b"content-length", b"4")]))
    if fits:
        scene.give(head, *data)
        assert scene.sinks[3].ended and scene.sinks[3].error is None
    else:
        scene.stream_refused(3, PROTOCOL_ERROR, "announces 4 bytes", head, *data)


def test_data_beyond_the_connections_window() -> None:
    scene = Scene()
    scene.give(frame(frames.HEADERS, 4, 3, HEAD))
    scene.give(frame(frames.DATA, 0, 1, bytes(70_000)))  # less than half of it, so that it is not opened again
    more = frame(frames.DATA, 0, 3, bytes(80_001))
    scene.refused(FLOW_CONTROL_ERROR, "80001 bytes where the connection's window is 80000", more)


@pytest.mark.parametrize(
    "data,why",
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP/1, not HTTP/2: b'HTTP/1.1 400 Bad"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not begin with SETTINGS, but with b'SSH-2.0"),
        (frames.SETTINGS_ACK, "does not begin with SETTINGS"),
        (frames.ping(bytes(8)), "does not begin with SETTINGS"),
        (frame(frames.DATA, 0, 1, b"x"), "does not begin with SETTINGS"),
    ],
)
def test_what_is_no_http2_is_told_at_once(data: bytes, why: str) -> None:
    client = ClientConnection()
    client.open(Recorder(), REQUEST)
    with pytest.raises(Http2ConnectionError, match=why) as caught:
        receive(client, data)
    assert caught.value.code == PROTOCOL_ERROR


def test_a_peer_that_does_not_shrink_its_table_is_refused() -> None:
    for acknowledged in (False, True):
        client = ClientConnection(table_bytes=0)
        client.open(Recorder(), REQUEST)
        receive(client, SETTINGS + (frames.SETTINGS_ACK if acknowledged else b""))
        if acknowledged:
            with pytest.raises(Http2ConnectionError, match="does not shrink its table from 4096 to 0") as caught:
                receive(client, frame(frames.HEADERS, 4, 1, HEAD))
            assert caught.value.code == COMPRESSION_ERROR
        else:
            receive(client, frame(frames.HEADERS, 4, 1, HEAD))


# ---- floods ----


def flood_of_settings(number: int) -> bytes:
    return frames.settings([(4, number)])


FLOODS: dict[str, Callable[[int], bytes]] = {
    "PING frames": lambda number: frames.ping(number.to_bytes(8, "big")),
    "PING frames (acks)": lambda number: frames.ping((number + 99).to_bytes(8, "big"), ack=True),
    "SETTINGS frames": flood_of_settings,
    "SETTINGS frames (acks)": lambda number: frames.SETTINGS_ACK,
    "empty DATA frames": lambda number: frame(frames.DATA, 0, 1),
    "empty DATA frames (padded)": lambda number: frame(frames.DATA, 8, 1, b"\x05" + bytes(5)),
    "frames of types that mean nothing here": lambda number: frame(77, 0, number, b"xyz"),
    "frames of types that mean nothing here (PRIORITY)": lambda number: frame(frames.PRIORITY, 0, number + 1, bytes(5)),
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_are_refused(name: str) -> None:
    make = FLOODS[name]
    scene = Scene()
    for number in range(MAX_IDLE_FRAMES - 1):
        scene.give(make(number))
        drained(scene.client)
    scene.refused(ENHANCE_YOUR_CALM, name.split(" (")[0], *(make(number) for number in range(5)))


@pytest.mark.parametrize("name", FLOODS)
def test_what_is_slow_is_no_flood(name: str) -> None:
    scene = Scene()
    for number in range(4 * MAX_IDLE_FRAMES):
        scene.give(FLOODS[name](number))
        drained(scene.client)
        scene.clock.now += 1.1 * IDLE_FRAMES_SECONDS / MAX_IDLE_FRAMES
    assert scene.client.error is None


def test_resets_of_streams_that_are_over_are_limited() -> None:
    scene = Scene()
    stray = frame(frames.RST_STREAM, 0, 5, bytes(4))
    for _ in range(MAX_STRAY_RESETS):
        scene.give(stray)
    scene.refused(ENHANCE_YOUR_CALM, "reset streams that were over", stray * 20)


def test_one_reset_after_each_reset_of_ours_is_no_flood() -> None:
    scene = Scene()
    for _ in range(2 * MAX_STRAY_RESETS):
        sink = Recorder()
        stream = scene.client.open(sink, REQUEST)
        scene.client.reset(stream)
        scene.give(frame(frames.RST_STREAM, 0, stream.id, bytes(4)))
        drained(scene.client)
    assert len(scene.client._resets) <= MAX_REMEMBERED_RESETS


def test_late_frames_of_streams_that_were_reset_long_ago_are_dropped() -> None:
    scene = Scene()
    first = 7
    for _ in range(3 * MAX_REMEMBERED_RESETS):
        scene.client.reset(scene.client.open(Recorder(), REQUEST))
    assert len(scene.client._resets) <= MAX_REMEMBERED_RESETS
    scene.give(frame(frames.HEADERS, 4, first, HEAD), frame(frames.DATA, 1, first, b"late"))
    assert scene.client.error is None


def test_replies_that_nobody_reads_are_limited() -> None:
    scene = Scene()
    scene.refused(ENHANCE_YOUR_CALM, "wants over 4096 replies", *unread_settings(scene))


def unread_settings(scene: Scene) -> list[bytes]:
    data: list[bytes] = []
    for number in range(MAX_REPLIES + 1):
        if number % MAX_IDLE_FRAMES == MAX_IDLE_FRAMES - 1:
            scene.give(*data)
            data.clear()
            scene.clock.now += 2 * IDLE_FRAMES_SECONDS
        data.append(SETTINGS)
    return data


def test_headers_without_an_end_are_limited() -> None:
    Scene().refused(
        ENHANCE_YOUR_CALM,
        "over 65536 bytes or 128 CONTINUATION",
        frame(frames.HEADERS, 0, 3, HEAD),
        *[frame(frames.CONTINUATION, 0, 3)] * (MAX_CONTINUATIONS + 1),
    )
    big = frame(frames.CONTINUATION, 0, 3, bytes(MAX_BLOCK_BYTES // 4))
    Scene().refused(ENHANCE_YOUR_CALM, "over 65536 bytes or 128 CONTINUATION", frame(frames.HEADERS, 0, 3, HEAD), *[big] * 4)


def test_a_header_list_over_the_limit_fails_its_stream_alone() -> None:
    scene = Scene()
    bomb = oracle.Encoder().encode([(b":status", b"200"), (b"x", b"v" * 3000)]) + b"\xbe" * 500
    scene.stream_refused(3, CANCEL, "more than 65536 bytes of headers", frame(frames.HEADERS, 4, 3, bomb))


def test_informational_answers_are_limited() -> None:
    scene = Scene()
    early = frame(frames.HEADERS, 4, 3, headers([(b":status", b"103")]))
    scene.give(*[early] * MAX_INFORMATIONAL)
    assert not scene.sinks[3].ended
    scene.stream_refused(3, ENHANCE_YOUR_CALM, "over 16 answers of 1xx", early)


def test_unknown_frames_are_skipped_whatever_their_size() -> None:
    scene = Scene()
    rng = random.Random(3)
    data = frame(200, 255, 9, bytes(100_000)) + frame(201, 0, 0) + frame(frames.PRIORITY, 0, 99, bytes(3))
    receive(scene.client, data + frame(frames.DATA, 1, 1, b"fine"), rng)
    assert scene.sinks[1].data == b"fine"


# ---- random changes ----


def transcript(rng: random.Random) -> bytes:
    """What a server may send to the streams 1, 3, ... 19."""
    encoder = oracle.Encoder()
    data = [frames.settings([(1, 4096), (3, 100), (4, 1 << 20), (5, 1 << 15)]), frames.SETTINGS_ACK]
    open_ones = list(range(1, 20, 2))
    answered: set[int] = set()
    while open_ones:
        number = rng.choice(open_ones)
        choice = rng.random()
        if choice < 0.05:
            data.append(frames.ping(rng.randbytes(8)))
        elif choice < 0.1:
            data.append(frames.window_update(rng.choice((0, number)), rng.randrange(1, 1000)))
        elif choice < 0.13:
            data.append(frames.rst_stream(number, rng.randrange(14)))
            open_ones.remove(number)
        elif number not in answered:
            extra = (b"x-%d" % rng.randrange(5), rng.randbytes(20).hex().encode())
            block = encoder.encode([*ANSWER, extra], rng.random() < 0.5)
            cut = rng.randrange(len(block) + 1)
            if rng.random() < 0.5:
                data.append(frame(frames.HEADERS, 4 | 8, number, b"\x02" + block + b"\0\0"))
            else:
                data += [frame(frames.HEADERS, 0, number, block[:cut]), frame(frames.CONTINUATION, 4, number, block[cut:])]
            answered.add(number)
        elif choice < 0.8:
            body = rng.randbytes(rng.choice((1, 20, 300)))
            plain = rng.random() < 0.5
            data.append(frame(frames.DATA, 0 if plain else 8, number, body if plain else b"\x03" + body + bytes(3)))
        else:
            data.append(frame(frames.HEADERS, 5, number, encoder.encode(TRAILERS, rng.random() < 0.5)))
            open_ones.remove(number)
    data.append(frames.goaway(19, 0, b"done"))
    return b"".join(data)


def changed(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 10))):
        place = rng.randrange(len(out))
        choice = rng.random()
        if choice < 0.5:
            out[place] = rng.randrange(256)
        elif choice < 0.6:
            out[place] ^= 1 << rng.randrange(8)
        elif choice < 0.7:
            del out[place : place + rng.randrange(1, 12)]
        elif choice < 0.8:
            out[place:place] = rng.randbytes(rng.randrange(1, 12))
        elif choice < 0.9:
            start = rng.randrange(len(out))
            out[place:place] = out[start : start + rng.randrange(1, 200)]
        else:
            payload = rng.randbytes(rng.randrange(12))
            out[place:place] = frame(rng.randrange(12), rng.randrange(256), rng.randrange(24), payload)
        if not out:
            break
    return bytes(out)


class Careful(Recorder):
    """Remembers little."""

    kept = 0

    def on_data(self, position: int, data: memoryview) -> int:
        assert self.headers is not None and not self.ended and position == self.kept
        self.kept += len(data)
        return len(data)


def run(data: bytes, rng: random.Random) -> tuple[Http2Error | None, list[Careful]]:
    client = ClientConnection()
    sinks = [Careful() for _ in range(10)]
    for sink in sinks:
        client.open(sink, REQUEST)
    try:
        receive(client, data, rng, directly=rng.random() < 0.5)
    except Http2ConnectionError as error:
        assert client.error is error
        assert client.open_streams == 0
        return error, sinks
    finally:
        assert len(client._data) < 1 << 18 and len(client._block) <= MAX_BLOCK_BYTES
        assert len(client._replies) <= MAX_REPLIES + 1
        split(drained(client))
    return None, sinks


def test_unchanged_transcripts_are_right() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        error, sinks = run(transcript(rng), rng)
        assert error is None and all(sink.ended for sink in sinks)


@pytest.mark.parametrize("seed", range(5))
def test_changed_transcripts_raise_only_what_is_defined(seed: int) -> None:
    """For a second each: only Http2ConnectionError comes out, each stream ends at most once, and nothing takes long."""
    rng = random.Random(seed)
    broken = fine = 0
    until = time.monotonic() + 1
    while time.monotonic() < until or broken + fine < 50:
        data = changed(transcript(rng), rng)
        started = time.process_time()
        error, _ = run(data, rng)
        assert time.process_time() - started < 2
        if error is None:
            fine += 1
        else:
            broken += 1
            assert error.code and str(error)
    assert broken > 10 and fine > 3


@pytest.mark.parametrize("seed", range(3))
def test_noise_raises_only_what_is_defined(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        noise: list[bytes] = []
        for _ in range(20):
            payload = rng.randbytes(rng.choice((0, 4, 5, 6, 8, 50)))
            noise.append(frame(rng.randrange(11), rng.randrange(256), rng.choice((0, 0, 1, 3, 25)), payload))
        run(SETTINGS + b"".join(noise), rng)
        run(rng.randbytes(300), rng)
