"""gRPC over TLS. The only module that imports `ssl`.

TLS is done in memory: what the socket brings is fed to it, what it wants to send goes to the socket. So `receive` leaves
nothing behind that is decrypted and that nobody polls for, and a lock that is never held while waiting keeps OpenSSL's
object, which allows no two threads, from its reader and its writer at once.

Signals. OpenSSL's calls are recorded by the same C call that makes them, as sends and receives are; so it is the C functions
that are called, not `ssl`'s wrappers, which are Python. But these run signal handlers themselves, after their work: an
exception that comes out of one does not tell whether it was done. What was encrypted shows in `outgoing`. What was
decrypted shows in `pending`, where something is left of the record, so its first byte is read alone, then the rest; and
`incoming` gets whole records only, so that it shows whether one was begun at all.
"""

from __future__ import annotations

import encodings.idna  # pyright: ignore[reportUnusedImport]  # `ssl` would when it connects: see connection.py on forks
import ssl
from _thread import RLock
from time import monotonic

from .errors import DeadlineExceeded, InvalidArgument, Unavailable
from .grpc_connect import connect, parse_target
from .grpc_transport import GrpcTransport, copy_all, taken
from .transport import FrameSink, broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable
    from typing import Any

    from .grpc_transport import Received

    Buffer = bytes | memoryview

_CIPHERTEXT_BYTES = 128 << 10  # of one receive
_RECORD_TYPES = (20, 21, 22, 23)
_RECORD_HEAD_BYTES = 5
_MAX_RECORD_BYTES = _RECORD_HEAD_BYTES + (16 << 10) + 2048
_JOINED_BYTES = 16 << 10  # of small buffers in one record, which is what a record holds
_PIECE_BYTES = 64 << 10  # of a large buffer in one call
_AHEAD_BYTES = 256 << 10  # of what is encrypted before the socket took it


#: Held during OpenSSL's work for new connections, and during a fork.
openssl_lock = RLock()


class GrpcsTransport(GrpcTransport):
    __slots__ = (
        *("_tls_lock", "_tls_read", "_tls_write", "_tls_pending", "_incoming", "_outgoing"),
        *("_plain", "_plain_offset", "_written", "_writing"),
        *("_ciphertext", "_held_bytes", "_fed", "_read", "_into", "_asked"),
    )

    def __init__(self, connected: socket.socket, target: str, authority: str, tls: Tls) -> None:
        """Takes a connected socket and the TLS on it, whose handshake is over."""
        super().__init__(connected, target, authority)
        self._tls_lock = RLock()  # a signal handler may send while what it interrupted receives
        self._tls_read = tls.read
        self._tls_write = tls.write
        self._tls_pending = tls.pending
        self._incoming = tls.incoming
        self._outgoing = tls.outgoing
        self._plain: list[Buffer] = []  # what is to be encrypted; _queue is what is
        self._plain_offset = 0  # of its first buffer, so much is
        self._written: list[int] = []  # what of it was encrypted and is not accounted for
        self._writing = (-1, 0)  # what `outgoing` had before that which may have been encrypted; bytes of it. -1: none is
        self._ciphertext = memoryview(bytearray(_CIPHERTEXT_BYTES))
        self._held_bytes = len(tls.rest)  # of it, which came and are not a whole record
        self._ciphertext[: len(tls.rest)] = tls.rest
        self._fed: list[int] = []  # what of the ciphertext was given to TLS and is not accounted for
        self._read: list[int] = []  # what was decrypted, likewise: a record's first byte, the rest
        self._into = self._ciphertext  # to where
        # By what `_resolve` tells: how many reads were recorded, what `incoming` had, what `pending` was, bytes wanted.
        self._asked: tuple[int, int, int, int] | None = None
        self.unfinished = True  # the end of the handshake may have brought the first frames

    @classmethod
    def connect(cls, target: str, timeout_s: float | None, ca_file: str | None = None) -> GrpcsTransport:
        """Connects to grpcs://HOST:PORT within `timeout_s` seconds, to a peer that a certificate of `ca_file`, or of the
        system, vouches for."""
        host, port, authority = parse_target(target)
        with openssl_lock:
            context = _context(ca_file)
        until = None if timeout_s is None else monotonic() + timeout_s
        link = connect(target, host, port, until)
        try:
            with openssl_lock:
                tls = Tls(context, host)
            _shake_hands(link, tls, target, ca_file, until)
            return cls(link, target, authority, tls)
        except BaseException:
            link.close()
            raise

    # ---- sending ----

    @property
    def backlog(self) -> object:
        return self._plain or self._outgoing.pending or super().backlog

    def flush(self) -> bool:
        all_framed = self._make_frames(self._plain)
        while True:
            with self._tls_lock:
                self._encrypt()
            if not self._send_queue():
                return False
            if not self._plain and not self._outgoing.pending:
                return all_framed

    def _encrypt(self) -> None:
        """Moves some of what is plain to the queue."""
        plain = self._plain
        outgoing = self._outgoing
        while True:
            written = self._written
            before, size = self._writing
            if before >= 0 and not written and outgoing.pending >= before + size:
                written.append(size)
            if written:
                done, rest = taken(plain, self._plain_offset + sum(written))
                fresh: list[int] = []
                # No call from here on.
                del plain[:done]
                self._plain_offset = rest
                self._written = written = fresh
                self._writing = (-1, 0)
            if not plain or outgoing.pending >= _AHEAD_BYTES:
                break
            piece = self._piece()
            self._writing = (outgoing.pending, len(piece))
            try:
                written.extend(map(self._tls_write, (piece,)))
            except ssl.SSLError as error:
                raise broken(self.target, f"TLS: {error.reason or error}") from error
        if self._outgoing.pending:
            self._queue.extend(map(self._outgoing.read, (-1,)))

    def _piece(self) -> Buffer:
        """What of `_plain` is encrypted next: of a large buffer some, of small ones several."""
        plain = self._plain
        first = memoryview(plain[0])[self._plain_offset :]
        if len(first) >= _JOINED_BYTES or len(plain) == 1:
            return first[:_PIECE_BYTES]
        pieces = [first]
        size = len(first)
        for buffer in plain[1:]:
            if size + len(buffer) > _JOINED_BYTES:
                break
            pieces.append(memoryview(buffer))
            size += len(buffer)
        return b"".join(pieces)

    def settle(self) -> None:
        super().settle()
        copy_all(self._plain)

    # ---- receiving ----

    def receive(self, sink: FrameSink) -> bool:
        if not self.unfinished:
            self.unfinished = True
            try:
                self._received.extend(map(self._recv_into, (self._ciphertext[self._held_bytes :],)))
            except BlockingIOError:
                self.unfinished = False
                return False
            except OSError as error:
                self._lost(error.strerror or str(error))
        received = self._received
        if received:
            count = received[0]
            if not count:
                self._lost("the daemon closed it")
            assert isinstance(count, int)
            self._feed(self._held_bytes + count)
        self._take(sink)  # what was decrypted before a signal came in between
        while self._decrypt():
            self._take(sink)
        self.unfinished = False
        return True

    def _feed(self, stop: int) -> None:
        """Gives whole records of the ciphertext, which ends at `stop`, to TLS."""
        ciphertext = self._ciphertext
        end = _whole_records(ciphertext, stop)
        if end < 0:
            self._lost("what it sent is not TLS")
        fed = self._fed
        if not fed and end:
            with self._tls_lock:
                fed.extend(map(self._incoming.write, (ciphertext[:end],)))
        rest = bytes(ciphertext[end:stop])
        left = stop - end
        received: list[Received] = []
        fresh: list[int] = []
        # No call from here on.
        ciphertext[:left] = rest
        self._held_bytes = left
        self._received = received
        self._fed = fresh

    def _decrypt(self) -> bool:
        """Decrypts one record to where it belongs, or what of it has room there; whether there was one."""
        with self._tls_lock:
            self._resolve()
            read, pending = self._read, self._tls_pending
            try:
                if not read:
                    if not self._incoming.pending and not pending():
                        return False
                    self._into = self._connection.receive_buffers()[0]
                    self._ask(min(pending(), len(self._into)) or 1, 0)
                if len(read) == 1 and read[0] == 1:
                    size = min(pending(), len(self._into) - 1)
                    if size:
                        self._ask(size, 1)
            except ssl.SSLWantReadError:
                self._asked = None
                return False
            except ssl.SSLError as error:
                self._lost(f"TLS: {error.reason or error}")
        if not read[0]:
            self._lost("the daemon closed it")
        count = sum(read)
        fresh: list[int] = []
        # No call from here on.
        self._total += count
        self._read = fresh
        self._asked = None
        return True

    def _ask(self, size: int, at: int) -> None:
        read = self._read
        self._asked = (len(read), self._incoming.pending, self._tls_pending(), size)
        read.extend(map(self._tls_read, (size,), (self._into[at:],)))

    def _resolve(self) -> None:
        """Finds out about a read out of which an exception came."""
        if self._asked is None or len(self._read) != self._asked[0]:
            return
        _, incoming, pending, size = self._asked
        now = self._tls_pending()
        if now != pending:
            self._read.append(size)
        elif not pending and self._incoming.pending != incoming:
            # A record of a single byte, or none with data: nobody can tell.
            self._lost("a signal came at a moment after which TLS cannot go on")
        self._asked = None


def _whole_records(ciphertext: Buffer, stop: int) -> int:
    """Where the last whole record before `stop` ends; -1 where these are no records."""
    end = 0
    while stop - end >= _RECORD_HEAD_BYTES:
        size = _RECORD_HEAD_BYTES + (ciphertext[end + 3] << 8 | ciphertext[end + 4])
        if size > _MAX_RECORD_BYTES:
            return -1
        if end + size > stop:
            break
        end += size
    return end


class Tls:
    """A client's TLS in memory: `incoming` and `outgoing` are its ciphertext, `rest` what came with the handshake and is
    not a whole record."""

    rest = b""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.wrapped = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        bare: Any = getattr(self.wrapped, "_sslobj")  # whose methods are C functions: see the module
        self.read: Callable[[int, Buffer], int] = bare.read
        self.write: Callable[[Buffer], int] = bare.write
        self.pending: Callable[[], int] = bare.pending


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, the host's name too
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    if ca_file is None:
        context.load_default_certs()
        return context
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError as error:
        raise InvalidArgument(
            f"the CA file {ca_file} holds no certificate that can be read: {error.reason or error}",
            hint="it is a file of certificates in PEM form: `ca_file`, or PJRTD_CA_FILE",
        ) from error
    except OSError as error:
        raise InvalidArgument(
            f"the CA file {ca_file} cannot be read: {error.strerror}", hint="it is `ca_file`, or PJRTD_CA_FILE"
        ) from error
    return context


def _shake_hands(link: socket.socket, tls: Tls, target: str, ca_file: str | None, until: float | None) -> None:
    held = b""
    is_tls = True
    try:
        while True:
            left_s = None if until is None else until - monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            link.settimeout(left_s)
            over = False
            try:
                with openssl_lock:
                    tls.wrapped.do_handshake()
                over = True
            except ssl.SSLWantReadError:
                pass
            finally:
                said = tls.outgoing.read()
                if said:
                    link.sendall(said)
            if over:
                break
            came = link.recv(_CIPHERTEXT_BYTES)
            if not came:
                raise ConnectionError("it closed the connection")
            held += came
            end = _whole_records(held, len(held)) if held[0] in _RECORD_TYPES else -1
            if end < 0:
                is_tls = False
                raise ConnectionError("what it sent is not TLS")
            tls.incoming.write(held[:end])
            held = tls.rest = held[end:]
    except ssl.SSLCertVerificationError as error:
        roots = f"the CA file {ca_file}" if ca_file else "the system's roots"
        raise Unavailable(
            f"cannot connect to {target}: by {roots}, its certificate is not to be trusted: {error.verify_message}",
            hint="name the CA that signed it by `ca_file`, or PJRTD_CA_FILE, and a host that it is for",
        ) from error
    except TimeoutError as error:
        raise DeadlineExceeded(
            f"cannot connect to {target}: the TLS handshake was not over in time",
            hint="is it a TLS port? For one without TLS use grpc://",
        ) from error
    except (ssl.SSLError, OSError) as error:
        if not is_tls:
            what = "speaks HTTP/1" if held.startswith(b"HTTP/") else "speaks plain text"
            raise Unavailable(
                f"the peer at {target} {what} where TLS was expected", hint=f"use grpc://{target.partition('://')[2]}"
            ) from error
        why = error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
        raise Unavailable(
            f"cannot connect to {target}: the TLS handshake failed: {why}",
            hint="is it a TLS port? For one without TLS use grpc://",
        ) from error
    chosen = tls.wrapped.selected_alpn_protocol()
    if chosen != "h2":
        raise Unavailable(
            f"the peer at {target} speaks TLS, but not HTTP/2 on it (ALPN: {chosen or 'nothing'} where h2 was offered)",
            hint="name the daemon's gRPC port, or let the proxy offer h2",
        )
