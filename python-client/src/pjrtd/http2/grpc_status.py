"""gRPC's status in HTTP/2's headers: "PROTOCOL-HTTP2.md" of gRPC. No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .hpack import Header
    from .http2_errors import Http2Error

OK = 0
CANCELLED = 1
UNKNOWN = 2
DEADLINE_EXCEEDED = 4
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
UNAUTHENTICATED = 16

MAX_MESSAGE_BYTES = 64 << 10  # of a status, before it is decoded; the rest is dropped

# "http-grpc-status-mapping.md" of gRPC. 500 is not in it.
_OF_HTTP_STATUS = {
    400: INTERNAL,
    401: UNAUTHENTICATED,
    403: PERMISSION_DENIED,
    404: UNIMPLEMENTED,
    429: UNAVAILABLE,
    502: UNAVAILABLE,
    503: UNAVAILABLE,
    504: UNAVAILABLE,
}
# HTTP/2's error codes, as the protocol's description maps those of RST_STREAM.
_OF_HTTP2_CODE = {
    0x7: UNAVAILABLE,  # REFUSED_STREAM
    0x8: CANCELLED,  # CANCEL
    0xB: RESOURCE_EXHAUSTED,  # ENHANCE_YOUR_CALM
    0xC: PERMISSION_DENIED,  # INADEQUATE_SECURITY
}


def find(headers: Iterable[Header], name: bytes) -> bytes | None:
    """The value of the first field of that name."""
    for found, value in headers:
        if found == name:
            return value
    return None


def decode_message(raw: bytes) -> str:
    """The text of grpc-message: UTF-8 with %XX for bytes. What is not right is kept as it is, for people to read."""
    raw = raw[:MAX_MESSAGE_BYTES]
    if b"%" in raw:
        first, *parts = raw.split(b"%")
        out = bytearray(first)
        for part in parts:
            digits = part[:2]
            if len(digits) == 2 and not digits.translate(None, b"0123456789abcdefABCDEF"):
                out.append(int(digits, 16))
                out += part[2:]
            else:
                out += b"%" + part
        raw = bytes(out)
    return raw.decode("utf-8", "replace")


def read_status(headers: Sequence[Header]) -> tuple[int, str] | None:
    """(code, text) that trailers, or an answer that consists of them alone, say. None where they say nothing. A number
    that is no code is UNKNOWN."""
    raw = find(headers, b"grpc-status")
    if raw is None:
        return None
    text = decode_message(find(headers, b"grpc-message") or b"")
    if raw.isdigit() and len(raw) <= 2 and int(raw) <= UNAUTHENTICATED:
        return int(raw), text
    return UNKNOWN, f"the status is {raw[:20].decode('ascii', 'replace')!r}" + (f": {text}" if text else "")


def check_answer(headers: Sequence[Header]) -> tuple[int, str] | None:
    """(code, text) where the head of an answer is not gRPC's: that of a proxy, or of a server that does something else.
    None where it is. An answer with a grpc-status is gRPC's, whatever else it says."""
    status = find(headers, b":status") or b""
    kind = find(headers, b"content-type") or b""
    if status == b"200" and is_grpc(kind):
        return None
    if find(headers, b"grpc-status") is not None:
        return None
    shown = kind[:80].decode("ascii", "replace")
    if status == b"200":
        return UNKNOWN, f"the peer answered with the content type {shown!r}, which is not gRPC's"
    code = _OF_HTTP_STATUS.get(int(status) if status.isdigit() else 0, UNKNOWN)
    return code, f"the peer answered with HTTP status {status.decode('ascii', 'replace')} and the content type {shown!r}"


def is_grpc(content_type: bytes) -> bool:
    """Whether it is application/grpc, with "+proto" or parameters or without."""
    kind = content_type[:17].lower()
    return kind[:16] == b"application/grpc" and kind[16:] in (b"", b"+", b";", b" ")


def of_error(error: Http2Error) -> tuple[int, str]:
    """(code, text) of an answer that broke off."""
    from .http2_errors import Http2ConnectionError, Http2StreamError

    if isinstance(error, Http2ConnectionError) or isinstance(error, Http2StreamError) and error.unprocessed:
        return UNAVAILABLE, str(error)
    return _OF_HTTP2_CODE.get(error.code, INTERNAL), str(error)
