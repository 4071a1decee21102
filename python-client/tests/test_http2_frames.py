"""Frames of HTTP/2 as bytes, with `hyperframe` as the other side."""

from __future__ import annotations

import pytest
from hyperframe import frame as oracle

from pjrtd.http2 import frames
from pjrtd.http2.http2_errors import (
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    PROTOCOL_ERROR,
    Http2ConnectionError,
    Http2Error,
    Http2StreamError,
    code_name,
)


def parsed(data: bytes) -> oracle.Frame:
    found, size = oracle.Frame.parse_frame_header(memoryview(data[:9]))
    assert size == len(data) - 9
    found.parse_body(memoryview(data[9:]))
    return found


def test_what_is_written_is_what_the_oracle_writes() -> None:
    settings = oracle.SettingsFrame(0, settings={4: 1 << 20, 5: 1 << 16})
    assert frames.settings([(4, 1 << 20), (5, 1 << 16)]) == settings.serialize()
    assert oracle.SettingsFrame(0, flags=["ACK"]).serialize() == frames.SETTINGS_ACK
    assert frames.ping(b"abcdefgh") == oracle.PingFrame(0, b"abcdefgh").serialize()
    assert frames.ping(b"abcdefgh", ack=True) == oracle.PingFrame(0, b"abcdefgh", flags=["ACK"]).serialize()
    assert frames.goaway(7, 11, b"why") == oracle.GoAwayFrame(0, 7, 11, b"why").serialize()
    assert frames.window_update(5, 70_000) == oracle.WindowUpdateFrame(5, 70_000).serialize()
    assert frames.rst_stream(5, 8) == oracle.RstStreamFrame(5, 8).serialize()
    head = frames.pack_header(70_000, frames.DATA, frames.END_STREAM, (1 << 31) - 1)
    data = oracle.DataFrame((1 << 31) - 1, bytes(70_000), flags=["END_STREAM"])
    assert head == data.serialize()[:9]
    assert frames.unpack_header(b"x" + head, 1) == (70_000, frames.DATA, frames.END_STREAM, (1 << 31) - 1)
    assert frames.unpack_header(b"\0\0\0\0\0\xff\xff\xff\xff", 0)[3] == (1 << 31) - 1  # the reserved bit does not count


@pytest.mark.parametrize("size,kinds", [(0, [1]), (10, [1]), (11, [1, 9]), (20, [1, 9]), (21, [1, 9, 9]), (35, [1, 9, 9, 9])])
@pytest.mark.parametrize("end", [False, True])
def test_header_blocks_are_cut_at_the_peers_limit(size: int, kinds: list[int], end: bool) -> None:
    block = bytes(range(size))
    data = frames.headers(9, block, end, 10)
    found: list[int] = []
    whole = b""
    pos = 0
    while pos < len(data):
        length, kind, flags, stream = frames.unpack_header(data, pos)
        assert length <= 10 and stream == 9
        found.append(kind)
        whole += data[pos + 9 : pos + 9 + length]
        pos += 9 + length
        assert bool(flags & frames.END_HEADERS) == (pos == len(data))
        assert bool(flags & frames.END_STREAM) == (kind == frames.HEADERS and end)
    assert (found, whole) == (kinds, block)


def test_what_the_oracle_writes_is_read() -> None:
    both = ["END_HEADERS", "PADDED", "PRIORITY"]
    data = oracle.HeadersFrame(3, b"block", flags=both, pad_length=7, depends_on=1).serialize()
    _, kind, flags, stream = frames.unpack_header(data, 0)
    assert (kind, stream) == (frames.HEADERS, 3)
    assert frames.parse_headers(flags, stream, data[9:]) == b"block"
    for given, expected in ((["PADDED"], b"block"), (["PRIORITY"], b"block"), ([], b"block")):
        data = oracle.HeadersFrame(3, b"block", flags=given, pad_length=0).serialize()
        assert frames.parse_headers(data[4], 3, data[9:]) == expected
    data = oracle.SettingsFrame(0, settings={1: 0, 3: 7, 0xAA: 9}).serialize()
    assert frames.parse_settings(data[9:]) == [(1, 0), (3, 7), (0xAA, 9)]
    assert frames.parse_goaway(oracle.GoAwayFrame(0, 7, 11, b"why").serialize()[9:]) == (7, 11, b"why")
    assert frames.parse_window_update(3, oracle.WindowUpdateFrame(3, 99).serialize()[9:]) == 99
    assert frames.parse_window_update(3, b"\x80\x00\x00\x05") == 5
    assert frames.parse_rst_stream(oracle.RstStreamFrame(3, 11).serialize()[9:]) == 11


@pytest.mark.parametrize(
    "size,kind,flags,stream,code,why",
    [
        (16_385, frames.DATA, 0, 1, FRAME_SIZE_ERROR, "DATA frame has 16385 bytes where 16384"),
        (16_385, 77, 0, 0, FRAME_SIZE_ERROR, "type 77 frame"),
        (0, frames.DATA, 0, 0, PROTOCOL_ERROR, "DATA frame is on stream 0"),
        (0, frames.HEADERS, 0, 0, PROTOCOL_ERROR, "HEADERS frame is on stream 0"),
        (5, frames.PRIORITY, 0, 0, PROTOCOL_ERROR, "PRIORITY frame is on stream 0"),
        (4, frames.RST_STREAM, 0, 0, PROTOCOL_ERROR, "RST_STREAM frame is on stream 0"),
        (0, frames.CONTINUATION, 0, 0, PROTOCOL_ERROR, "CONTINUATION frame is on stream 0"),
        (0, frames.SETTINGS, 0, 1, PROTOCOL_ERROR, "SETTINGS frame is on stream 1"),
        (8, frames.PING, 0, 1, PROTOCOL_ERROR, "PING frame is on stream 1"),
        (8, frames.GOAWAY, 0, 1, PROTOCOL_ERROR, "GOAWAY frame is on stream 1"),
        (5, frames.SETTINGS, 0, 0, FRAME_SIZE_ERROR, "SETTINGS frame has 5 bytes"),
        (6, frames.SETTINGS, frames.ACK, 0, FRAME_SIZE_ERROR, "SETTINGS frame has 6 bytes"),
        (7, frames.PING, 0, 0, FRAME_SIZE_ERROR, "PING frame has 7 bytes"),
        (9, frames.PING, 0, 0, FRAME_SIZE_ERROR, "PING frame has 9 bytes"),
        (7, frames.GOAWAY, 0, 0, FRAME_SIZE_ERROR, "GOAWAY frame has 7 bytes"),
        (3, frames.RST_STREAM, 0, 1, FRAME_SIZE_ERROR, "RST_STREAM frame has 3 bytes"),
        (5, frames.WINDOW_UPDATE, 0, 0, FRAME_SIZE_ERROR, "WINDOW_UPDATE frame has 5 bytes"),
    ],
)
def test_frames_that_cannot_be_are_refused(size: int, kind: int, flags: int, stream: int, code: int, why: str) -> None:
    with pytest.raises(Http2ConnectionError, match=why) as caught:
        frames.check_header(size, kind, flags, stream, 16_384)
    assert caught.value.code == code


def test_frames_that_can_be_are_not_refused() -> None:
    for size, kind, flags, stream in (
        *((16_384, frames.DATA, 0, 1), (0, frames.SETTINGS, frames.ACK, 0), (600, frames.SETTINGS, 0, 0)),
        *((8, frames.PING, 0, 0), (16_384, frames.GOAWAY, 0, 0), (4, frames.WINDOW_UPDATE, 0, 0), (0, 200, 0, 0)),
        *((4, frames.WINDOW_UPDATE, 0, 8), (4, frames.RST_STREAM, 0, 1), (5, frames.PRIORITY, 0, 1), (9, 200, 255, 3)),
    ):
        frames.check_header(size, kind, flags, stream, 16_384)
    with pytest.raises(Http2StreamError, match="PRIORITY frame has 4 bytes") as caught:
        frames.check_header(4, frames.PRIORITY, 0, 3, 16_384)
    assert (caught.value.code, caught.value.stream_id) == (FRAME_SIZE_ERROR, 3)


@pytest.mark.parametrize(
    "payload,flags,code,why",
    [
        (b"", frames.PADDED, FRAME_SIZE_ERROR, "padded HEADERS frame is empty"),
        (b"\x01", frames.PADDED, PROTOCOL_ERROR, "1 bytes has 1 bytes of padding"),
        (b"\x04xyz", frames.PADDED, PROTOCOL_ERROR, "4 bytes has 4 bytes of padding"),
        (b"abcd", frames.PRIORITY_FIELDS, FRAME_SIZE_ERROR, "too short for its priority"),
        (b"\x01abcde", frames.PADDED | frames.PRIORITY_FIELDS, FRAME_SIZE_ERROR, "too short for its priority"),
    ],
)
def test_headers_with_wrong_padding_are_refused(payload: bytes, flags: int, code: int, why: str) -> None:
    with pytest.raises(Http2ConnectionError, match=why) as caught:
        frames.parse_headers(flags, 1, payload)
    assert caught.value.code == code
    assert frames.parse_headers(frames.PADDED, 1, b"\x03xyz") == b""


@pytest.mark.parametrize(
    "entries,code,why",
    [
        ([(2, 1)], PROTOCOL_ERROR, "ENABLE_PUSH to 1"),
        ([(4, 1 << 31)], FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE to 2147483648"),
        ([(5, (1 << 14) - 1)], PROTOCOL_ERROR, "MAX_FRAME_SIZE to 16383"),
        ([(1, 0), (5, 1 << 24)], PROTOCOL_ERROR, "MAX_FRAME_SIZE to 16777216"),
        ([(9, 9)] * (frames.MAX_SETTINGS_ENTRIES + 1), FRAME_SIZE_ERROR, "more than 64 entries"),
    ],
)
def test_settings_that_cannot_be_are_refused(entries: list[tuple[int, int]], code: int, why: str) -> None:
    with pytest.raises(Http2ConnectionError, match=why) as caught:
        frames.parse_settings(frames.settings(entries)[9:])
    assert caught.value.code == code
    limits = [(2, 0), (4, (1 << 31) - 1), (5, 1 << 14), (5, (1 << 24) - 1)]
    assert frames.parse_settings(frames.settings(limits)[9:]) == limits
    assert len(frames.parse_settings(frames.settings([(9, 9)] * frames.MAX_SETTINGS_ENTRIES)[9:])) == 64


def test_an_increment_of_zero_is_an_error_of_its_stream() -> None:
    with pytest.raises(Http2StreamError, match="increment of 0") as stream_error:
        frames.parse_window_update(5, bytes(4))
    assert (stream_error.value.stream_id, stream_error.value.code) == (5, PROTOCOL_ERROR)
    with pytest.raises(Http2ConnectionError, match="increment of 0"):
        frames.parse_window_update(0, b"\x80\0\0\0")


def test_errors_say_what_they_are() -> None:
    assert str(Http2Error(11, "too much")) == "too much (ENHANCE_YOUR_CALM)"
    assert [code_name(code) for code in (0, 13, 14, 1 << 31)] == [
        *("NO_ERROR", "HTTP_1_1_REQUIRED", "error code 14", "error code 2147483648")
    ]
