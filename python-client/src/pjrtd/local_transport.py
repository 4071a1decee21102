"""Frames over the daemon's local socket (AF_UNIX stream).

Signals. An exception from a signal handler can come between any two steps of Python code, but not inside one call of
a C function. So the result of every send and receive is appended to a list by the same C call that made it
(`log.extend(map(function, ...))`): it cannot get lost. All other state of one direction is one tuple, replaced by one
assignment after the work that it stands for; work that was interrupted before it is done again.
"""

from __future__ import annotations

from time import monotonic

try:  # the `socket` module would cost more time to import than everything else here
    import _socket as socket
except ImportError:
    import socket

from . import frame
from .errors import Internal, InvalidArgument, PermissionDenied, Unavailable
from .transport import BulkTarget, FrameSink, Transport, broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    Buffer = bytes | memoryview
    # what is not out yet, in order: (position in the stream where the buffer ends, buffer); bytes sent so far; sends
    # not accounted yet; writes so far; how many frames are held back, which are all that is not out, in one buffer
    SendState = tuple[tuple[tuple[int, Buffer], ...], int, list[int], int, int]
    # the receive buffer; where unread bytes start and stop; receives not accounted yet; the ITEM whose bulk is being
    # read: its target, where in the target its next byte goes and where its last byte ends; frames handed over
    ReceiveState = tuple[bytearray, int, int, list[int], Optional[BulkTarget], int, int, int]

_RECEIVE_BYTES = 128 << 10
_MAX_BUFFERS = 64  # in one sendmsg
#: Frames that nobody waits for are held back while they follow each other this closely, in seconds, and so many of them.
BURST_S = 0.0001
MAX_HELD = 32
MAX_HELD_BYTES = 4 << 10
_HEADER = frame.HEADER_BYTES
_ITEM = frame.ITEM


class LocalTransport(Transport):
    __slots__ = ("target", "unfinished", "_socket", "_out", "_state", "_send", "_sendmsg", "_recv_into", "_quiet_at")

    item_bytes = frame.MAX_ITEM_BYTES
    keepalive_s = 0.0  # the kernel knows when the daemon is gone

    def __init__(self, connected: socket.socket, target: str) -> None:
        """Takes a connected stream socket."""
        connected.setblocking(False)
        self.target = target
        self._socket = connected
        self._send = connected.send
        self._sendmsg = connected.sendmsg
        self._recv_into = connected.recv_into
        self._out: SendState = ((), 0, [], 0, 0)
        self._quiet_at = 0.0  # when the last frame came, if nobody waits for it
        self.unfinished = False
        self._state: ReceiveState = (bytearray(_RECEIVE_BYTES), 0, 0, [], None, 0, 0, 0)

    @classmethod
    def connect(cls, path: str, timeout_s: float | None) -> LocalTransport:
        """Connects to the socket at `path` within `timeout_s` seconds."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(timeout_s)
            link.connect(path)
            return cls(link, f"unix:{path}")
        except OSError as error:
            link.close()
            raise _connect_error(path, error) from error
        except BaseException:
            link.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    pack = staticmethod(frame.pack)  # pyright: ignore[reportAssignmentType]

    # ---- sending ----

    @property
    def backlog(self) -> object:
        return self._out[0]

    @property
    def blocked(self) -> object:
        out = self._out
        return out[0] and not out[4]

    @property
    def writes(self) -> int:
        return self._out[3]

    def write(self, first: bytes | memoryview, *more: bytes | memoryview) -> bool:
        self._quiet_at = 0.0
        queue, base, log, writes, _ = self._out
        if log:
            base += sum(log)
            log = []
        if queue or more:
            end = queue[-1][0] if queue else base
            added = tuple([(end := end + len(buffer), buffer) for buffer in (first, *more)])
            self._out = (queue + added, base, log, writes + 1, 0)
            return self.flush()
        end = base + len(first)
        self._out = (((end, first),), base, log, writes + 1, 0)
        try:
            log.extend(map(self._send, (first,)))
        except BlockingIOError:
            return False
        except OSError as error:
            raise broken(self.target, error.strerror) from error
        if base + log[0] < end:
            return False
        self._out = ((), end, [], writes + 1, 0)
        return True

    def write_later(self, first: bytes) -> bool:
        now = monotonic()
        queue, base, log, writes, held = self._out
        if now - self._quiet_at > BURST_S or (queue and not held):
            # The first of a series goes out at once: the device can begin with it.
            sent = self.write(first)
            self._quiet_at = now
            return sent
        self._quiet_at = now
        if held:
            end, before = queue[-1]
            first = bytes(before) + first
            self._out = (((end - len(before) + len(first), first),), base, log, writes + 1, held + 1)
            if held + 1 < MAX_HELD and len(first) < MAX_HELD_BYTES:
                return True
        else:
            self._out = (((base + len(first), first),), base, log, writes + 1, 1)
            if len(first) < MAX_HELD_BYTES:
                return True
        return self.flush()

    @property
    def held(self) -> object:
        return self._out[4]

    def flush(self) -> bool:
        while True:
            queue, base, log, writes, held = self._out
            if log:
                base += sum(log)
                log = []
            done = 0
            while done < len(queue) and queue[done][0] <= base:
                done += 1
            queue = queue[done:]
            self._out = (queue, base, log, writes, held if queue else 0)
            if not queue:
                return True
            end, head = queue[0]
            buffers: list[Buffer] = [memoryview(head)[len(head) - (end - base) :]]
            buffers += [buffer for _, buffer in queue[1:_MAX_BUFFERS]]
            try:
                log.extend(map(self._sendmsg, (buffers,)))
            except BlockingIOError:
                self._out = (queue, base, log, writes, 0)
                return False
            except OSError as error:
                raise broken(self.target, error.strerror) from error

    def settle(self) -> None:
        queue, base, log, writes, held = self._out
        copied = tuple([(end, bytes(buffer)) for end, buffer in queue])
        self._out = (copied, base, log, writes, held)

    # ---- receiving ----

    def receive(self, sink: FrameSink) -> bool:
        data, start, stop, log, item, place, end, frames = self._state
        if not self.unfinished:
            if item is not None and start == stop:  # the rest of an ITEM, where it belongs
                destination = item.destination
                into = memoryview(data)[: end - place] if destination is None else destination[place:end]
            else:
                into = memoryview(data)[stop:] if stop else data
            self.unfinished = True
            try:
                log.extend(map(self._recv_into, (into,)))
            except BlockingIOError:
                self.unfinished = False
                return False
            except OSError as error:
                raise broken(self.target, error.strerror) from error
        if log:
            count = log[0]
            if not count:
                raise broken(self.target, "the daemon closed it")
            if item is not None and start == stop:
                place += count
            else:
                stop += count
            self._state = (data, start, stop, [], item, place, end, frames)
        self._deliver(sink)
        self.unfinished = False
        return True

    def _deliver(self, sink: FrameSink) -> None:
        """Hands over every whole frame in the buffer and moves an ITEM's bytes to their place."""
        data, start, stop, log, item, place, end, frames = self._state
        while True:
            if item is not None:
                count = min(stop - start, end - place)
                if count:
                    destination = item.destination
                    if destination is not None:
                        destination[place : place + count] = memoryview(data)[start : start + count]
                    start += count
                    place += count
                    self._state = (data, start, stop, log, item, place, end, frames)
                if place < end:
                    break
                sink.on_item(item, end)
                item = None
                self._state = (data, start, stop, log, item, place, end, frames)
            if stop - start < _HEADER:
                break
            try:
                payload_bytes, bulk_bytes, kind, call = frame.unpack(data, start)
            except frame.FrameError as error:
                raise Internal(f"the daemon at {self.target} sent what is no frame: {error}") from error
            body = start + _HEADER
            bulk = body + payload_bytes
            apart = kind == _ITEM and not payload_bytes  # its bulk goes where it belongs
            after = bulk if apart else bulk + bulk_bytes
            if after > stop:
                self._make_room(after - start)
                return
            if apart:
                target = sink.find_bulk_target(call)
                place, end = target.filled, target.filled + bulk_bytes
                if target.destination is not None and end > len(target.destination):
                    raise Internal(f"the daemon at {self.target} sent more data for call {call} than it had announced")
                item = target
            else:
                sink.on_frame(kind, frames, call, data, body, bulk, bulk, after)
            start = after
            frames += 1
            if start == stop and item is None:
                self._state = (data, 0, 0, log, None, 0, 0, frames)
                return
            self._state = (data, start, stop, log, item, place, end, frames)
        if start < stop:
            self._make_room(_HEADER)
        elif start:
            self._state = (data, 0, 0, log, item, place, end, frames)

    def _make_room(self, need: int) -> None:
        """Sees to it that `need` bytes from `start` on fit into the buffer."""
        data, start, stop, log, item, place, end, frames = self._state
        if start + need <= len(data) and stop < len(data):
            return
        fresh = bytearray(max(_RECEIVE_BYTES, need))
        left = stop - start
        fresh[:left] = memoryview(data)[start:stop]
        self._state = (fresh, 0, left, log, item, place, end, frames)

    # ---- the end ----

    def shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster

    def close(self) -> None:
        self._socket.close()


def _connect_error(path: str, error: OSError) -> Exception:
    import errno

    target = f"unix:{path}"
    if isinstance(error, PermissionError):
        return PermissionDenied(
            f"cannot connect to {target}: {error.strerror}",
            hint="this user may not open the socket; the daemon's operator can grant it through the socket's group",
        )
    if error.errno is None and not isinstance(error, TimeoutError):  # "AF_UNIX path too long"
        return InvalidArgument(f"cannot connect to {target}: {error}", hint="a socket's path has at most 107 bytes")
    why = error.strerror or "the daemon does not accept connections in time"
    hint = "start the daemon with `pjrtd --plugin FILE`, or name a running one in PJRTD_TARGET"
    if error.errno == errno.ECONNREFUSED:
        hint = f"the socket is left over from a daemon that is gone; {hint}"
    return Unavailable(f"cannot connect to {target}: {why}", hint=hint)
