"""gRPC's statuses in HTTP/2's headers."""


from __future__ import annotations

import pytest

from pjrtd.http2 import grpc_status
from pjrtd.http2.http2_errors import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    REFUSED_STREAM,
    Http2ConnectionError,
    Http2Error,
    Http2StreamError,
)


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
