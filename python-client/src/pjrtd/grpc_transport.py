"""Frames over gRPC: one stream `pjrtd.v1.Runtime/Channel` on one HTTP/2 connection.

What is sent is made into messages and HTTP/2 frames by `http2/`; what comes goes through it to `FrameReader`, bulk
straight into its place. Signals: http2/ keeps to the rule that each call of it is done or not, and what it made for
sending moves to `_queue` in one step; sends and receives are accounted for as in local_transport.py.
"""

from __future__ import annotations

from time import monotonic

from . import grpc_frame
from ._version import __version__
from .errors import PjrtError
from .frame_reader import FrameReader
from .grpc_connect import connect, parse_target
from .http2.client_connection import ClientConnection
from .http2.http2_errors import Http2Error
from .transport import FrameSink, Transport, broken

try:  # as in local_transport.py
    import _socket as socket
except ImportError:
    import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Buffer = bytes | memoryview
    Received = int | tuple[int, list[Any], int, Any]  # as recv_into and recvmsg_into tell

PATH = b"/pjrtd.v1.Runtime/Channel"
#: The pieces in which bulk is sent: it shares the stream with small calls.
ITEM_BYTES = 256 << 10
#: A peer that is silent for this long while somebody waits is asked for a sign of life, in seconds, and given up if it
#: gives none for as long again. (The daemon takes a PING every five seconds.)
SILENCE_S = 15.0

#: Frames that nobody waits for are kept while they follow each other this closely, in seconds, and so many of them; the
#: first one, too, where this many times in a row one that stood alone was followed as closely by one that is waited for.
BURST_S = 0.0001
FOLLOWED = 4
MAX_HELD = 32
MAX_HELD_BYTES = 4 << 10

_MAX_BUFFERS = 64  # in one sendmsg


class GrpcTransport(Transport):
    __slots__ = (
        *("target", "unfinished", "_socket", "_send", "_sendmsg", "_recv_into", "_recvmsg_into"),
        *("_connection", "_stream", "_reader", "_queue", "_offset", "_sent", "_received", "_total"),
        *("_heard_total", "_heard_at", "_pinged_at", "_quiet_at", "_followed"),
    )

    item_bytes = ITEM_BYTES
    keepalive_s = SILENCE_S / 3

    def __init__(self, connected: socket.socket, target: str, authority: str) -> None:
        """Takes a connected stream socket."""
        connected.setblocking(False)
        self.target = target
        self._socket = connected
        self._send = connected.send
        self._sendmsg = connected.sendmsg
        self._recv_into = connected.recv_into
        self._recvmsg_into = connected.recvmsg_into
        self.unfinished = False
        self._queue: list[Buffer] = []  # what is not out yet
        self._offset = 0  # of its first buffer, so much is out
        self._sent: list[int] = []  # sends that are not accounted for
        self._received: list[Received] = []  # likewise
        self._total = 0  # bytes that came
        self._heard_total = -1
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self._quiet_at = 0.0  # when the last frame was sent, if nobody waits for it
        self._followed = 0
        self._connection = ClientConnection()
        self._reader = FrameReader(target)
        self._stream = self._connection.open(
            self._reader,
            [
                (b":method", b"POST"),
                (b":scheme", b"https" if target.startswith("grpcs") else b"http"),
                (b":path", PATH),
                (b":authority", authority.encode()),
                (b"te", b"trailers"),
                (b"content-type", b"application/grpc"),
                (b"user-agent", f"pjrtd-python/{__version__}".encode()),
            ],
        )

    @classmethod
    def connect(cls, target: str, timeout_s: float | None) -> GrpcTransport:
        """Connects to grpc://HOST:PORT within `timeout_s` seconds. What the peer is shows when it answers."""
        host, port, authority = parse_target(target)
        link = connect(target, host, port, None if timeout_s is None else monotonic() + timeout_s)
        try:
            return cls(link, target, authority)
        except BaseException:
            link.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    pack = staticmethod(grpc_frame.pack)  # pyright: ignore[reportAssignmentType]

    # ---- sending ----

    @property
    def backlog(self) -> object:
        return self._queue or self._stream.held or self._connection.unsent

    @property
    def blocked(self) -> object:
        return self._queue

    @property
    def writes(self) -> int:
        return self._stream.queued_bytes

    def write(self, first: bytes | memoryview, *more: bytes | memoryview) -> bool:
        if self._quiet_at:
            self._followed = self._followed + 1 if monotonic() - self._quiet_at < BURST_S else 0
            self._quiet_at = 0.0
        try:
            self._connection.send_message(self._stream, first, *more)
        except (Http2Error, ValueError) as error:
            self._raise(error)
        return self.flush()

    def write_later(self, first: bytes) -> bool:
        stream = self._stream
        now = monotonic()
        if now - self._quiet_at > BURST_S:
            if self._quiet_at:
                self._followed = 0
            if self._followed < FOLLOWED:
                # The first of a series goes out at once: the device can begin with it.
                self._quiet_at = 0.0
                sent = self.write(first)
                self._quiet_at = now
                return sent
        self._connection.hold(stream, first)
        self._quiet_at = now
        return self.flush() if len(stream.held) >= MAX_HELD or stream.held_bytes >= MAX_HELD_BYTES else True

    @property
    def held(self) -> object:
        return self._stream.held

    def flush(self) -> bool:
        all_framed = self._make_frames(self._queue)
        return self._send_queue() and all_framed

    def _make_frames(self, queue: list[Buffer]) -> bool:
        """Adds to `queue` all that may be sent now; whether nothing has to wait for the peer."""
        connection = self._connection
        if self._stream.held:
            try:
                connection.send_message(self._stream, b"")
            except (Http2Error, ValueError) as error:
                self._raise(error)
        all_framed = connection.pump()
        connection.drain(queue)
        return all_framed

    def _send_queue(self) -> bool:
        """Sends what the socket takes; whether that was everything."""
        queue = self._queue
        while True:
            sent = self._sent
            if sent:
                done, rest = taken(queue, self._offset + sum(sent))
                fresh: list[int] = []
                # No call from here on.
                del queue[:done]
                self._offset = rest
                self._sent = sent = fresh
            if not queue:
                return True
            try:
                if len(queue) == 1 and not self._offset:
                    fresh = []
                    sent.extend(map(self._send, queue))
                    if sent[0] == len(queue[0]):
                        # No call from here on.
                        del queue[0]
                        self._sent = fresh
                        return True
                else:
                    buffers = queue[:_MAX_BUFFERS]
                    buffers[0] = memoryview(buffers[0])[self._offset :]
                    sent.extend(map(self._sendmsg, (buffers,)))
            except BlockingIOError:
                return False
            except OSError as error:
                raise broken(self.target, error.strerror or error) from error

    def settle(self) -> None:
        self._connection.settle()
        copy_all(self._queue)

    def keep_alive(self) -> None:
        connection = self._connection
        now = monotonic()
        if self._total != self._heard_total:
            self._heard_total = self._total
            self._heard_at = now
            self._pinged_at = 0.0
        elif now - self._heard_at >= SILENCE_S and not self._pinged_at:
            self._pinged_at = now
            connection.ping()
            self.flush()
        elif self._pinged_at and now - self._pinged_at >= SILENCE_S:
            raise broken(self.target, f"the daemon gave no sign of life for {now - self._heard_at:.0f} s")

    # ---- receiving ----

    def receive(self, sink: FrameSink) -> bool:
        connection = self._connection
        received = self._received
        if not self.unfinished:
            buffers = connection.receive_buffers()
            self.unfinished = True
            try:
                if len(buffers) == 1:
                    received.extend(map(self._recv_into, buffers))
                else:
                    received.extend(map(self._recvmsg_into, (buffers,)))
            except BlockingIOError:
                self.unfinished = False
                return False
            except OSError as error:
                self._lost(error.strerror or str(error))
        if received:
            got = received[0]
            count = got if isinstance(got, int) else got[0]
            if not count:
                self._lost("the daemon closed it")
            fresh: list[Received] = []
            # No call from here on.
            self._total += count
            self._received = fresh
        self._take(sink)
        self.unfinished = False
        return True

    def _take(self, sink: FrameSink) -> None:
        """Deals with what came."""
        reader = self._reader
        reader.sink = sink
        try:
            self._connection.received(self._total)
        except Http2Error as error:
            self._raise(error)
        if reader.ended or reader.status is not None:
            self._raise(None)

    # ---- the end ----

    def _lost(self, why: str) -> NoReturn:
        from . import grpc_failures

        raise grpc_failures.of_loss(self.target, self._connection, why)

    def _raise(self, error: Exception | None) -> NoReturn:
        """Why nothing can be sent or will come any more."""
        raise self._failure(error) from error

    def _failure(self, error: Exception | None) -> PjrtError:
        from . import grpc_failures

        connection, reader, stream = self._connection, self._reader, self._stream
        if reader.status is not None:
            return grpc_failures.of_status(self.target, reader.status, reader.details)
        begin = connection.early_bytes()
        found = None if begin is None else grpc_failures.of_greeting(self.target, begin)
        if found is not None:
            return found
        why = reader.error or stream.error or connection.error or error
        if isinstance(why, Http2Error):
            return grpc_failures.of_error(self.target, why)
        return broken(self.target, "the daemon ended the stream without a status")

    def shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster

    def close(self) -> None:
        self._socket.close()


def taken(queue: list[Buffer], count: int) -> tuple[int, int]:
    """How many buffers at the beginning of `queue` are done with when `count` bytes are, and how many bytes of the next."""
    done = 0
    for buffer in queue:
        size = len(buffer)
        if count < size:
            break
        count -= size
        done += 1
    return done, count


def copy_all(queue: list[Buffer]) -> None:
    """Copies what is not copied yet."""
    for number, buffer in enumerate(queue):
        queue[number] = bytes(buffer)
