"""Frames in gRPC's messages: written as the generated messages read them, and read however they are cut."""

from __future__ import annotations

import random

import pytest
from http2_peer import ANSWER, REQUEST, H2Server, receive

from pjrtd import frame, grpc_frame
from pjrtd._proto.frame import Frame, Frames
from pjrtd._proto.wire import decode
from pjrtd.errors import Internal
from pjrtd.frame_reader import MAX_MESSAGE_BYTES, FrameReader
from pjrtd.http2.client_connection import ClientConnection
from pjrtd.transport import BulkTarget, FrameSink

Seen = tuple[int, int, bytes, bytes]


class Keeper(FrameSink):
    """Keeps frames, and puts items where `targets` says. May be told anything twice."""

    def __init__(self) -> None:
        self.frames: dict[int, Seen] = {}
        self.targets: dict[int, BulkTarget] = {}

    def on_frame(self, kind: int, serial: int, call: int, data: bytearray, body: int, after: int, bulk: int, end: int) -> None:
        seen = (kind, call, bytes(data[body:after]), bytes(data[bulk:end]))
        assert self.frames.setdefault(serial, seen) == seen

    def find_bulk_target(self, call: int) -> BulkTarget:
        return self.targets[call]

    def on_item(self, target: BulkTarget, filled: int) -> None:
        target.filled = filled


def target(size: int) -> BulkTarget:
    made = BulkTarget()
    made.destination = memoryview(bytearray(size))
    return made


def message(*frames: Frame) -> bytes:
    body = Frames(list(frames)).encode()
    return b"\0" + len(body).to_bytes(4, "big") + body


def reader() -> FrameReader:
    made = FrameReader("grpc://here")
    made.sink = Keeper()
    return made


def opened(sink: FrameReader) -> H2Server:
    server = H2Server(ClientConnection())
    server.exchange()
    server.client.open(sink, REQUEST)
    server.exchange()
    server.h2.send_headers(1, ANSWER)
    server.exchange()
    return server


def random_frames(rng: random.Random, count: int) -> tuple[list[Frame], dict[int, bytes]]:
    """Replies, errors, credits, items of runs, and the items of two downloads among them."""
    downloads = {1: rng.randbytes(rng.choice((1, 5000, 300_000))), 2: rng.randbytes(rng.choice((70_000, 400_000)))}
    at = dict.fromkeys(downloads, 0)
    frames: list[Frame] = []
    while len(frames) < count or any(at[call] < len(data) for call, data in downloads.items()):
        call = rng.choice((1, 2))
        left = len(downloads[call]) - at[call]
        if left and rng.random() < 0.6:
            size = min(left, rng.choice((1, 100, 20_000, 262_144)))
            frames.append(Frame(call, 0x302, 4, bulk=downloads[call][at[call] : at[call] + size]))
            at[call] += size
        else:
            kind = rng.choice((2, 2, 3, 4, 7))
            bulk = rng.randbytes(rng.choice((0, 1, 32, 65_536))) if kind in (2, 4) else b""
            payload = rng.randbytes(rng.choice((1 if kind == 4 else 0, 1, 127, 128, 250, 5000)))
            frames.append(Frame(rng.randrange(3, 1 << rng.randrange(3, 64)), 0x501, kind, payload=payload, bulk=bulk))
    return frames, downloads


def check(sink: FrameReader, frames: list[Frame], downloads: dict[int, bytes]) -> None:
    keeper = sink.sink
    assert isinstance(keeper, Keeper)
    wanted = [(f.kind, f.call, f.payload, f.bulk) for f in frames if f.kind != 4 or f.payload]
    assert [keeper.frames[serial] for serial in sorted(keeper.frames)] == wanted
    for call, data in downloads.items():
        assert keeper.targets[call].filled == len(data)
        destination = keeper.targets[call].destination
        assert destination is None or destination == data


# ---- writing ----


def test_frames_are_written_as_the_messages_are() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        kind = rng.randrange(1, 8)
        payload = rng.randbytes(rng.choice((0, 1, 50, 127, 128, 300, 20_000)))
        bulk = rng.randbytes(rng.choice((0, 0, 1, 127, 128, 16_384, 262_144)))
        call = rng.randrange(1 << rng.choice((1, 7, 8, 14, 21, 28, 40, 64)))
        flags, deadline_ns = rng.choice((0, 1)), rng.choice((0, 1, 1 << 63))
        method = rng.choice((0x101, 0x501, 5))
        packed = grpc_frame.pack(kind, method, call, payload, len(bulk), flags, deadline_ns) + bulk
        (found,) = decode(Frames, packed).frames
        expected = Frame(call, method, kind, flags, deadline_ns, payload, bulk)
        assert found == expected
        assert len(packed) <= len(payload) + len(bulk) + grpc_frame.OVERHEAD_BYTES
        end, *fields, body, after, start, size = grpc_frame.parse(packed + b"more")
        assert (end, fields) == (len(packed), [kind, call, flags, deadline_ns])
        assert (packed[body:after], packed[start : start + size]) == (payload, bulk)
        assert grpc_frame.entry_bytes(packed) == end


def test_frames_with_fields_in_any_order_and_unknown_ones_are_read() -> None:
    payload, bulk = b"\x32\x03abc", b"\x7a\x02xy"
    for order in ((b"\x18\x02", payload, b"\x08\x05", bulk), (bulk, payload, b"\x08\x05", b"\x18\x02")):
        body = b"".join((b"\x3a\x01?", *order, b"\x50\x07", b"\x5d1234"))
        raw = b"\x0a" + bytes((len(body),)) + body
        end, kind, call, _, _, begin, after, start, size = grpc_frame.parse(raw)
        assert (end, kind, call, raw[begin:after], raw[start : start + size]) == (len(raw), 2, 5, b"abc", b"xy")
        with pytest.raises(IndexError):
            grpc_frame.parse(raw[:-1])


@pytest.mark.parametrize(
    "raw",
    [
        b"\x12\x02\x08\x01",  # another field than frames
        b"\x0a\x02\x32\x05abcde",  # a field longer than its frame
        b"\x0a\x03\x08\x80\x80\x80",  # a number longer than its frame
        b"\x0a\x0c\x08" + b"\xff" * 11,  # and than any can be
        b"\x0a\xff\xff\xff\xff\xff\x01",  # a frame longer than any can be
        b"\x0a\x04\x09\x01\x18\x02" + bytes(9),  # a number of the wrong type
        b"\x0a\x04\x30\x01\x18\x02",  # a payload that is a number
        b"\x0a\x02\x3a\x05xxxxxxxx",  # an unknown field longer than its frame
        b"\x0a\x02\x07\x07",  # a field of no type
    ],
)
def test_what_is_no_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(frame.FrameError):
        grpc_frame.parse(raw + bytes(20))


# ---- reading ----


@pytest.mark.parametrize("seed", range(12))
def test_frames_are_read_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    frames, downloads = random_frames(rng, 40)
    sink = reader()
    sink.sink.targets = {1: target(len(downloads[1])), 2: BulkTarget() if seed % 3 == 0 else target(len(downloads[2]))}  # type: ignore[attr-defined]
    server = opened(sink)
    data = b""
    rest = list(frames)
    while rest:
        count = rng.choice((0, 1, 1, 2, 5))
        data += message(*rest[:count])
        del rest[:count]
    pos = 0
    while pos < len(data):
        size = rng.choice((1, 2, 5, 30, 300, 16_384, 200_000))
        server.h2.send_data(1, data[pos : pos + size], pad_length=rng.choice((None, 0, 9)))
        pos += size
    receive(server.client, server.h2.data_to_send(), rng)
    check(sink, frames, downloads)


def test_a_message_cut_at_every_byte() -> None:
    frames = [
        Frame(300, 0x302, 2, payload=b"p" * 5),
        Frame(1, 0x302, 4, bulk=b"0123456789"),
        Frame(2, 0x302, 4, bulk=b"x" * 40),
        Frame(301, 0x501, 2, payload=b"q" * 300, bulk=b"r" * 20),
    ]
    data = message() + message(*frames[:1]) + message(*frames[1:])
    for cut in range(len(data) + 1):
        sink = reader()
        sink.sink.targets = {1: target(10), 2: target(40)}  # type: ignore[attr-defined]
        server = opened(sink)
        for piece in (data[:cut], data[cut:]):
            if piece:
                server.h2.send_data(1, piece)
                server.exchange()
        check(sink, frames, {1: b"0123456789", 2: b"x" * 40})


def test_each_call_may_come_twice() -> None:
    """As it does where a signal's exception came after the work and before the connection knew of it."""
    rng = random.Random(3)
    frames, downloads = random_frames(rng, 30)
    sink = reader()
    sink.sink.targets = {call: target(len(data)) for call, data in downloads.items()}  # type: ignore[attr-defined]
    opened(sink)
    stream = sink.stream
    assert stream is not None
    data = b"".join(message(each) for each in frames)
    pos = 0
    while pos < len(data):
        if stream.destination is not None:
            size = min(len(stream.destination), rng.choice((1, 500, 1 << 20)), len(data) - pos)
            assert stream.destination_at == pos
            stream.destination[:size] = data[pos : pos + size]
            pos += size
            rest = stream.destination[size:]
            if rest:
                stream.receive_into(rest, pos)
            else:
                for _ in range(2):
                    sink.on_filled(pos)
                stream.destination = None
            continue
        view = memoryview(data)[pos : pos + rng.choice((1, 7, 60, 3000, 100_000))]
        before = sink.on_data(pos, view)
        stream.destination = None
        assert sink.on_data(pos, view) == before
        pos += before
    check(sink, frames, downloads)


def test_most_of_a_large_item_goes_straight_into_its_place() -> None:
    data = random.Random(5).randbytes(1 << 20)
    sink = reader()
    place = target(len(data))
    sink.sink.targets = {1: place}  # type: ignore[attr-defined]
    server = opened(sink)
    pieces = [Frame(1, 0x302, 4, bulk=data[at : at + (256 << 10)]) for at in range(0, len(data), 256 << 10)]
    server.h2.send_data(1, message(*pieces)[: 1 << 20])
    inward = server.h2.data_to_send()
    direct = 0
    view = memoryview(inward)
    while view:
        buffers = server.client.receive_buffers()
        count = 0
        for buffer in buffers:
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            count += size
            direct += size if buffer.obj is place.destination.obj else 0  # type: ignore[union-attr]
        server.client.received(server.client._total + count)
    assert direct > 400_000


def test_an_item_is_never_written_beyond_its_place() -> None:
    sink = reader()
    sink.sink.targets = {1: target(10)}  # type: ignore[attr-defined]
    server = opened(sink)
    server.h2.send_data(1, message(Frame(1, 0x302, 4, bulk=bytes(11))))
    with pytest.raises(Internal, match="more data for call 1 than it had announced"):
        server.exchange()


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    "data,why",
    [
        (b"\x01\0\0\0\1x", "compression flag 1"),
        (b"\xff\0\0\0\1x", "compression flag 255"),
        (b"\0\xff\xff\xff\xff", "4294967295 bytes where"),
        (b"\0" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"), "bytes where"),
        (b"\0\0\0\0\4\x0a\x04\x08\1\x18\2" + bytes(9), "longer than its message"),
        (b"\0\0\0\0\4\x08\1\x18\2", "not a Frames"),
        (message(Frame(1, 2, 9)), "kind 9 does not exist"),
        (message(Frame(0, 2, 2)), "call id is 0"),
        (message(Frame(1, 2, 2, flags=1)), "belong to requests only"),
        (message(Frame(1, 2, 2, flags=2)), "unknown flags"),
        (message(Frame(1, 2, 2, deadline_ns=1)), "belong to requests only"),
        (message(Frame(1, 2, 7, bulk=b"x")), "bulk_bytes is 1"),
        (message(Frame(1, 2, 2, bulk=bytes(65_537))), "bulk_bytes is 65537"),
        (message(Frame(1, 2, 4)), "an item is empty"),
        (message(Frame(1, 2, 2, payload=bytes((1 << 20) + 1))), "payload_bytes is over 1 MiB"),
    ],
)
def test_what_is_no_message_ends_the_connection(data: bytes, why: str, pieces: int) -> None:
    sink = reader()
    sink.sink.targets = {1: target(10)}  # type: ignore[attr-defined]
    server = opened(sink)
    with pytest.raises(Internal, match=f"no frame: .*{why}"):
        step = min(1 << 19, -(-len(data) // pieces))
        for pos in range(0, len(data), step):
            server.h2.send_data(1, data[pos : pos + step])
            receive(server.client, server.h2.data_to_send())
