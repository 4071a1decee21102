"""Frames as bytes."""

from __future__ import annotations

import struct

import pytest

from pjrtd import frame

GOOD = frame.pack(frame.REPLY, 0x0302, 7, b"payload", 5)


def test_the_header_is_laid_out_as_documented() -> None:
    data = frame.pack(frame.REQUEST, 0x0501, 0x1122334455667788, b"abc", 4, frame.QUIET, 99)
    assert data[:4] == b"PJRT"
    assert struct.unpack("<IIHBBQQ", data[4:32]) == (3, 4, 0x0501, 1, 1, 0x1122334455667788, 99)
    assert data[32:] == b"abc"
    assert frame.unpack(data, 0) == (3, 4, frame.REQUEST, 0x1122334455667788)


def test_a_header_is_read_at_any_position() -> None:
    assert frame.unpack(b"xx" + GOOD, 2) == (7, 5, frame.REPLY, 7)


def changed(**fields: int) -> bytes:
    layout = {"payload": (4, "<I"), "bulk": (8, "<I"), "kind": (14, "B"), "flags": (15, "B"), "call": (16, "<Q"), "deadline": (24, "<Q")}
    data = bytearray(GOOD)
    for name, value in fields.items():
        struct.pack_into(layout[name][1], data, layout[name][0], value)
    return bytes(data)


@pytest.mark.parametrize(
    "data,why",
    [
        (b"PJRX" + GOOD[4:], "magic"),
        (changed(payload=(1 << 20) + 1), "over 1 MiB"),
        (changed(bulk=(64 << 10) + 1), "carries at most"),
        (changed(kind=frame.ITEM, bulk=(1 << 20) + 1), "carries at most"),
        (changed(kind=frame.ITEM, bulk=0, payload=0), "empty"),
        (changed(kind=frame.ERROR), "carries at most 0"),
        (changed(kind=frame.CREDIT), "carries at most 0"),
        (changed(kind=0), "does not exist"),
        (changed(kind=9), "does not exist"),
        (changed(flags=2), "unknown flags"),
        (changed(flags=1), "requests only"),
        (changed(deadline=1), "requests only"),
        (changed(call=0), "call id is 0"),
    ],
)
def test_headers_that_break_the_rules_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(frame.FrameError, match=why):
        frame.unpack(data, 0)


def test_an_error_about_no_call_is_allowed() -> None:
    assert frame.unpack(frame.pack(frame.ERROR, 0, 0, b"x"), 0) == (1, 0, frame.ERROR, 0)
