"""What ended a stream or a connection of gRPC, as a PjrtError that says what to do. Imported when something did."""

from __future__ import annotations

from . import errors
from ._proto.wire import DecodeError, decode
from .http2 import grpc_status
from .http2.http2_errors import Http2ConnectionError, Http2StreamError
from .transport import broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .http2.client_connection import ClientConnection
    from .http2.hpack import Header
    from .http2.http2_errors import Http2Error

_HINTS = {
    grpc_status.UNIMPLEMENTED: "is it a pjrtd? `pjrtd.v1.Runtime/Channel` is what this client needs",
    grpc_status.UNAUTHENTICATED: "something between here and the daemon wants to know who calls",
}


def of_status(target: str, status: tuple[int, str], details: Sequence[Header]) -> errors.PjrtError:
    """For a stream that the peer ended by its own will."""
    code, text = status
    if code == grpc_status.OK:
        return broken(target, "the daemon closed it")
    told = _details(details)
    if told is not None:
        return told
    hint = _HINTS.get(code, "")
    if text.startswith("the peer answered with"):
        hint = "something else than pjrtd answers there, a proxy perhaps; name the daemon's own gRPC address"
    error = errors.make(code, f"the daemon at {target} ended the connection: {text or 'it did not say why'}")
    error.hint = hint
    return error


def _details(headers: Sequence[Header]) -> errors.PjrtError | None:
    """The daemon's own Error, where it sent one."""
    raw = grpc_status.find(headers, b"pjrtd-error-bin")
    if raw is None:
        return None
    from binascii import Error as Base64Error, a2b_base64

    from ._proto.common import Error

    try:
        return errors.from_wire(decode(Error, a2b_base64(raw + b"=" * (-len(raw) % 4))))
    except (Base64Error, DecodeError):
        return None


def of_error(target: str, error: Http2Error) -> errors.PjrtError:
    """For a stream, or a connection, that broke."""
    if isinstance(error, Http2ConnectionError) or isinstance(error, Http2StreamError) and error.unprocessed:
        return broken(target, error)
    code, text = grpc_status.of_error(error)
    made = errors.make(code, f"the daemon at {target} ended the connection: {text}")
    made.hint = "what the session held is gone with it; connect again with Client.create()"
    return made


def of_greeting(target: str, begin: bytes) -> errors.PjrtError | None:
    """For a peer whose first bytes are not HTTP/2's; None where they may be."""
    other = target.partition("://")[2]
    if begin[:1] in (b"\x15", b"\x16") and begin[1:2] == b"\x03":
        return errors.Unavailable(
            f"the peer at {target} speaks TLS where HTTP/2 in plain text was expected", hint=f"use grpcs://{other}"
        )
    if begin[:5] == b"HTTP/":
        line = begin.partition(b"\r\n")[0].decode("ascii", "replace")
        return errors.Unavailable(
            f"the peer at {target} speaks HTTP/1 where HTTP/2 was expected; it says {line!r}",
            hint="name the daemon's gRPC port (its ready line says it), or "
            + (f"use grpcs://{other} where that port is a TLS port" if target.startswith("grpc:") else "let the proxy pass h2"),
        )
    return None


def of_loss(target: str, connection: ClientConnection, why: str) -> errors.PjrtError:
    """For a link that ended."""
    begin = connection.early_bytes()
    if begin is not None:
        found = of_greeting(target, begin)
        if found is not None:
            return found
        if not begin:
            return errors.Unavailable(
                f"the peer at {target} ended the connection without a word where HTTP/2 was expected: {why}",
                hint="is it the daemon's gRPC port? Its ready line says it; a TLS port needs grpcs://",
            )
    return of_error(target, connection.lost(why))
