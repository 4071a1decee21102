"""What can go wrong on an HTTP/2 connection, and HTTP/2's error codes (RFC 9113, section 7)."""

from __future__ import annotations

NO_ERROR = 0
PROTOCOL_ERROR = 1
INTERNAL_ERROR = 2
FLOW_CONTROL_ERROR = 3
SETTINGS_TIMEOUT = 4
STREAM_CLOSED = 5
FRAME_SIZE_ERROR = 6
REFUSED_STREAM = 7
CANCEL = 8
COMPRESSION_ERROR = 9
CONNECT_ERROR = 10
ENHANCE_YOUR_CALM = 11
INADEQUATE_SECURITY = 12
HTTP_1_1_REQUIRED = 13

_NAMES = (
    *("NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED"),
    *("FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM"),
    *("INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"),
)


def code_name(code: int) -> str:
    """How the standard calls an error code."""
    return _NAMES[code] if 0 <= code < len(_NAMES) else f"error code {code}"


class Http2Error(Exception):
    """The family of this package's errors.

    code: HTTP/2's error code.
    message: what was wrong.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({code_name(self.code)})"


class Http2ConnectionError(Http2Error):
    """The connection cannot be used any more, and no stream on it."""


class HpackError(Http2ConnectionError):
    """A header block cannot be decoded; the connection's tables are out of step from here on."""

    def __init__(self, message: str) -> None:
        super().__init__(COMPRESSION_ERROR, message)


class Http2StreamError(Http2Error):
    """One stream failed; the others go on.

    stream_id: which; 0 for one that was never opened.
    unprocessed: the peer says that it did nothing for the stream, so that the request may be made again elsewhere.
    """

    def __init__(self, stream_id: int, code: int, message: str, unprocessed: bool = False) -> None:
        super().__init__(code, message)
        self.stream_id = stream_id
        self.unprocessed = unprocessed
