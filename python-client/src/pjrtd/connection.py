"""A connection to a daemon: calls, ids, bulk under credit, and who reads when many threads wait.

Locks, always taken in this order:
  _rx: whoever holds it reads for everybody, also while it sleeps in poll. The others sleep on their call's gate and
       are woken when their answer has come, or when they should take over the reading.
  _tx: order of what is sent: ids are chosen and frames queued under it. Never held while waiting for anything.

A thread that cannot send because the socket is full reads meanwhile (`_drain`), so both sides' buffers being full is
no deadlock. Whatever a signal handler raises leaves the connection usable: the interrupted call is abandoned, and
transport.py says how frames stay whole. The one rule that follows for this file is that a lock's acquisition is
recorded by the C call that makes it: either `with`, or `held.extend(map(lock.acquire, (False,)))`.
"""

from __future__ import annotations

import select
from _thread import RLock, allocate_lock, get_ident
from os import getpid
from time import monotonic

from . import frame, timeouts
from ._proto import methods
from ._proto.common import Error
from ._proto.wire import DecodeError, decode, varint
from .call import NEVER, Call
from .errors import (
    DataLoss,
    DeadlineExceeded,
    FailedPrecondition,
    HandleClosed,
    Internal,
    PjrtError,
    from_wire,
)
from .ids import IdSequence
from .transport import BulkTarget, FrameSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._proto.runtime import HelloReply
    from .transport import Transport

DOWNLOAD_CREDIT_BYTES = 8 << 20

# A thread that sleeps on its gate looks again this often, so that a promotion that a signal cut off costs a moment.
_GATE_S = 0.1
_DRAIN_MS = 10
_MAX_GARBAGE = 128  # ids that wait for their Delete to travel with another frame
_MAX_GARBAGE_BYTES = 1 << 20
_MAX_IDS_IN_FRAME = 8192
_MAX_SPIN_SKIPS = 256
_TRY = (False,)
_REPLY = frame.REPLY
_EXECUTE = methods.EXECUTE
_LENGTH = tuple(bytes((size,)) for size in range(128))
_POLL_IN = select.POLLIN
_POLL_OUT = select.POLLOUT
_POLL_FAILED = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL

# Connections of this process, for os.fork().
_live: set[Connection] = set()
_fork_hook_is_set = False


class Connection(FrameSink):
    """See the module. Any thread may use it. Where a method takes `until`, that is a time.monotonic() time in seconds
    at which the call must be over, or None."""

    def __init__(self, transport: Transport, busy_poll_us: float) -> None:
        """Takes a connected transport. Call `hello` before anything else."""
        self._transport = transport
        self._pack = transport.pack
        self._rx = allocate_lock()
        self._tx = RLock()
        self._sending = False  # _tx is in use: tells a signal handler from an owner
        self._reader = 0  # the thread that holds _rx
        self._parked: list[Call] = []
        self._calls: dict[int, Call] = {}
        self._next_call = 1
        self._last_frame = -1  # the serial number of the last frame that was dealt with
        self._buffers = IdSequence(0)
        self._programs = IdSequence(0)
        self._failure: PjrtError | None = None
        self._quiet_failure: tuple[int, PjrtError] | None = None
        self._garbage: list[bytes] = []
        self._garbage_bytes = 0
        self._garbage_programs: list[bytes] = []
        self._quiet = 0  # quiet calls since the last checkpoint
        self._quiet_step = 64
        self._checkpoints: list[Call] = []
        self._poll = select.poll()
        self._poll.register(transport.fileno(), _POLL_IN)
        self._poll_events = _POLL_IN
        self._spin_s = busy_poll_us / 1e6
        self._spin_misses = 0
        self._spin_skips = 0
        self.pid = getpid()
        self.max_inline_bytes = 0
        self.max_item_bytes = 1
        self.upload_credit_bytes = 0
        _watch_forks(self)

    # ---- opening ----

    def hello(self, client_name: str, until: float | None, *others: int) -> list[Call]:
        """Agrees on a protocol version. `others` are methods without arguments to ask in the same write: their calls
        are returned, for `finish`."""
        from ._proto.runtime import HelloReply, HelloRequest

        request = HelloRequest(frame.PROTOCOL_MIN, frame.PROTOCOL_MAX, client_name, DOWNLOAD_CREDIT_BYTES)
        call = Call(methods.HELLO)
        calls = [Call(method) for method in others]
        self._send(call, request.encode(), 0)
        for other in calls:
            self._send(other, b"", 0)
        self.finish(call, until)
        reply = decode(HelloReply, call.payload)
        self._check_limits(reply)
        self.max_inline_bytes = min(reply.max_inline_bytes, frame.MAX_INLINE_BYTES)
        self.max_item_bytes = min(reply.max_item_bytes, frame.MAX_ITEM_BYTES)
        self.upload_credit_bytes = reply.upload_credit_bytes
        self._buffers = IdSequence(reply.id_prefix)
        self._programs = IdSequence(reply.id_prefix)
        # Up to three steps may be under way; the rest is for calls with an answer.
        self._quiet_step = max(1, min(reply.max_calls_in_flight or 1024, 4096) // 4)
        return calls

    def _check_limits(self, reply: HelloReply) -> None:
        if not frame.PROTOCOL_MIN <= reply.version <= frame.PROTOCOL_MAX:
            raise Internal(
                f"the daemon chose protocol {reply.version}; this client speaks "
                f"{frame.PROTOCOL_MIN} to {frame.PROTOCOL_MAX}"
            )
        if not reply.max_item_bytes or not reply.upload_credit_bytes or reply.id_prefix >> 16:
            raise Internal("the daemon's limits make no sense", hint="is it another program's socket?")

    # ---- calls ----

    def request(self, method: int, payload: bytes = b"", until: float | None = None, bulk: bytes = b"") -> Call:
        """Makes a call and waits for its answer. Raises what the daemon answers."""
        call = Call(method)
        self.begin(call, payload, until, bulk)
        return self.finish(call, until)

    def begin(self, call: Call, payload: bytes, until: float | None, bulk: bytes = b"") -> None:
        """Sends a request; its bulk is small."""
        deadline_ns = timeouts.remaining_ns(until) if until is not None else 0
        try:
            self._send(call, payload, deadline_ns, bulk)
            if self._transport.backlog:
                self._drain(until)
        except BaseException:
            self._abandon(call)
            raise

    def finish(self, call: Call, until: float | None) -> Call:
        """Waits for the answer to a call that was begun."""
        try:
            self._wait(call, until, NEVER)
        except BaseException:
            self._abandon(call)
            raise
        if call.error is not None:
            raise self._reported(call.error)
        return call

    def download(self, buffer: bytes, size: int, destination: memoryview | None, until: float | None) -> Call:
        """The data of a buffer, `size` bytes: in `destination`, or in the call's `bulk` where that is None."""
        if destination is None and size > self.max_inline_bytes:
            destination = memoryview(bytearray(size))
        call = Call(methods.BUFFER_DOWNLOAD, size, destination)
        call.granted = DOWNLOAD_CREDIT_BYTES
        self.begin(call, b"\x08" + buffer, until)
        self.finish(call, until)
        if destination is not None:
            call.destination = None
            if not call.bulk:
                call.bulk = destination.obj  # pyright: ignore[reportAttributeAccessIssue]
        return call

    def upload(self, rest: bytes, data: bytes | memoryview, until: float | None) -> bytes:
        """Makes a buffer of `data` and returns its id. `rest` is the UploadRequest after its first field. All of the
        data is out, or copied, when it returns; the daemon's own opinion shows at the buffer's first use."""
        if self._quiet >= self._quiet_step:
            self._checkpoint(until)
        call = Call(methods.BUFFER_UPLOAD)
        try:
            self._create(call, self._buffers, rest, data, frame.QUIET, until)
            self._calls.pop(call.id, None)
            if call.error is not None:
                raise call.error
            return call.made
        except BaseException:
            self._abandon(call)
            if call.made:
                self._garbage.append(call.made)
            raise

    def compile(self, rest: bytes, code: bytes, until: float | None) -> tuple[bytes, bytes]:
        """Makes a program. `rest` is the CompileRequest after its first field. Returns its id and the reply."""
        call = Call(methods.PROGRAM_COMPILE)
        try:
            self._create(call, self._programs, rest, code, 0, until)
            self.finish(call, until)
            return call.made, call.payload
        except BaseException:
            self._abandon(call)
            if call.made:
                self._garbage_programs.append(call.made)
            raise

    def _create(
        self, call: Call, ids: IdSequence, rest: bytes, data: bytes | memoryview, flags: int, until: float | None
    ) -> None:
        """Sends a request that makes something, and its bulk."""
        deadline_ns = timeouts.remaining_ns(until) if until is not None else 0
        if len(data) > self.max_inline_bytes:
            self._send(call, rest, deadline_ns, b"", flags, ids)
            self._stream(call, memoryview(data), until)
        else:
            self._send(call, rest, deadline_ns, bytes(data), flags, ids)
            if self._transport.backlog:
                self._drain(until)

    def _stream(self, call: Call, data: memoryview, until: float | None) -> None:
        """Sends data as ITEM frames under the daemon's credit, until it has gone or the call has failed."""
        sent, size = 0, len(data)
        while sent < size and not call.done:
            room = call.credit - sent
            if room <= 0:
                self._wait(call, until, sent)
                continue
            count = min(self.max_item_bytes, room, size - sent)
            self._send_raw(self._pack(frame.ITEM, call.method, call.id, b"", count), data[sent : sent + count])
            sent += count
            if self._transport.backlog:
                self._drain(until)

    def dispatch(
        self, program: bytes, args: bytes, num_outputs: int, inline: bytes, bulk: bytes, until: float | None
    ) -> list[bytes]:
        """Runs a program without waiting for it and returns the ids of its outputs. `program` is the first field of an
        ExecuteRequest, `args` the packed ids, `inline` encoded inline_args fields and `bulk` their data."""
        deadline_ns = timeouts.remaining_ns(until) if until is not None else 0
        if self._quiet >= self._quiet_step:
            self._checkpoint(until)
        outputs: list[bytes] = []
        try:
            with self._tx:
                if self._sending or self._failure is not None:
                    self._check_usable()
                before = self._transport.writes
                self._sending = True
                try:
                    take = self._buffers.take
                    for _ in range(num_outputs):
                        outputs.append(take())
                    ids = b"".join(outputs)
                    payload = b"".join(
                        (
                            program,
                            b"\x12",
                            _LENGTH[len(args)] if len(args) < 128 else varint(len(args)),
                            args,
                            b"\x1a",
                            _LENGTH[len(ids)] if len(ids) < 128 else varint(len(ids)),
                            ids,
                            inline,
                        )
                    )
                    garbage = self._take_garbage() if self._garbage or self._garbage_programs else b""
                    call = self._next_call
                    self._next_call = call + 1
                    self._quiet += 1
                    self._put(garbage + self._pack(1, _EXECUTE, call, payload, len(bulk), 1, deadline_ns) + bulk)
                except BaseException:
                    if self._transport.writes == before:  # the daemon will never hear of them
                        outputs.clear()
                    raise
                finally:
                    self._sending = False
            if self._transport.backlog:
                self._drain(until)
        except BaseException:
            self._garbage += outputs
            raise
        return outputs

    def sync(self, until: float | None) -> None:
        """Waits until everything that was sent has ended, and raises the first failure of a quiet call that nobody
        has been told of."""
        self._forget(self.request(methods.SESSION_SYNC, b"", until))
        failure = self._quiet_failure
        self._quiet_failure = None
        if failure is not None:
            raise failure[1].again()

    def _forget(self, sync: Call) -> None:
        """Drops calls that were abandoned before `sync` was sent and have ended without an answer, as quiet ones do."""
        for number, call in tuple(self._calls.items()):
            if call.abandoned and call.expected < 0 and number < sync.id:
                self._calls.pop(number, None)

    def discard_buffer(self, buffer: bytes, size: int) -> None:
        """Deletes a buffer, at the latest with the next frame that is sent. Never blocks; may be called anywhere."""
        self._garbage.append(buffer)
        self._garbage_bytes += size
        if len(self._garbage) >= _MAX_GARBAGE or self._garbage_bytes >= _MAX_GARBAGE_BYTES:
            self._collect()

    def discard_program(self, program: bytes) -> None:
        """Releases a program, as `discard_buffer` does."""
        self._garbage_programs.append(program)
        self._collect()

    # ---- sending ----

    def _check_usable(self) -> None:
        """Under _tx."""
        if self._failure is not None:
            raise self._failure.again()
        if self._sending:
            raise FailedPrecondition(
                "a signal handler used a pjrtd client while the code that it interrupted was using it",
                hint="set a flag in the handler and act on it afterwards",
            )

    def _send(
        self,
        call: Call,
        payload: bytes,
        deadline_ns: int,
        bulk: bytes = b"",
        flags: int = 0,
        ids: IdSequence | None = None,
    ) -> None:
        """Sends a request, with a call id of its own and, from `ids`, one for what it makes as its first field. What
        waits to be deleted goes before it. A quiet request whose bulk is in the frame is not waited for."""
        with self._tx:
            self._check_usable()
            before = self._transport.writes
            self._sending = True
            try:
                if ids is not None:
                    call.made = ids.take()
                    payload = b"\x08" + call.made + payload
                garbage = self._take_garbage() if self._garbage or self._garbage_programs else b""
                number = self._next_call
                self._next_call = number + 1
                call.id = number
                call.credit = self.upload_credit_bytes
                if flags:
                    self._quiet += 1
                if not flags or not bulk:
                    self._calls[number] = call
                head = self._pack(frame.REQUEST, call.method, number, payload, len(bulk), flags, deadline_ns)
                self._put(garbage + head + bulk)
            except BaseException:
                if self._transport.writes == before:  # the daemon will never hear of it
                    self._calls.pop(call.id, None)
                    call.id, call.made = 0, b""
                raise
            finally:
                self._sending = False

    def _send_raw(self, first: bytes | memoryview, *more: bytes | memoryview) -> None:
        """Sends a frame that belongs to a call under way."""
        with self._tx:
            self._check_usable()
            self._sending = True
            try:
                self._put(first, *more)
            finally:
                self._sending = False

    def _put(self, first: bytes | memoryview, *more: bytes | memoryview) -> None:
        """Under _tx, with _sending set."""
        try:
            self._transport.write(first, *more)
        except PjrtError as error:
            self._write_failed(error)
            raise (self._failure or error).again() from error

    def _take_garbage(self) -> bytes:
        """Frames that delete what was discarded. Under _tx, with _sending set."""
        frames = b""
        ids, self._garbage = self._garbage, []
        self._garbage_bytes = 0
        programs, self._garbage_programs = self._garbage_programs, []
        for method, discarded in ((methods.BUFFER_DELETE, ids), (methods.PROGRAM_RELEASE, programs)):
            for at in range(0, len(discarded), _MAX_IDS_IN_FRAME):
                packed = b"".join(discarded[at : at + _MAX_IDS_IN_FRAME])
                number = self._next_call
                self._next_call = number + 1
                self._quiet += 1
                frames += self._pack(frame.REQUEST, method, number, b"\x0a" + varint(len(packed)) + packed, 0, frame.QUIET)
        return frames

    def _flush(self) -> bool:
        with self._tx:
            self._check_usable()
            self._sending = True
            try:
                return self._transport.flush()
            except PjrtError as error:
                self._write_failed(error)
                raise (self._failure or error).again() from error
            finally:
                self._sending = False

    def _collect(self) -> None:
        """Sends what was discarded if that is possible at once, on this thread, without waiting."""
        held: list[bool] = []
        try:
            held.extend(map(self._tx.acquire, _TRY))
            if held[0] and not self._sending and self._failure is None and not self._transport.backlog:
                self._sending = True
                try:
                    garbage = self._take_garbage()
                    if garbage:
                        self._put(garbage)
                finally:
                    self._sending = False
        except PjrtError:
            pass  # the connection is gone, and so is what was to be deleted
        finally:
            if held and held[0]:
                self._tx.release()

    def _drain(self, until: float | None) -> None:
        """Sends the backlog, and reads while the socket is full. No lock is held on entry."""
        poller: select.poll | None = None
        while not self._flush():
            held: list[bool] = []
            try:
                held.extend(map(self._rx.acquire, _TRY))
                if poller is None:
                    poller = select.poll()
                poller.register(self._transport.fileno(), _POLL_IN | _POLL_OUT if held[0] else _POLL_OUT)
                # Without _rx somebody else reads, but may stop to at any moment.
                events = poller.poll(1000 if held[0] else _DRAIN_MS)
                if held[0]:
                    self._reader = get_ident()
                    if self._transport.unfinished or events and events[0][1] & _POLL_FAILED:
                        self._receive()
            finally:
                if held and held[0]:
                    self._reader = 0
                    self._rx.release()
                if self._parked:
                    self._promote()
            if until is not None and monotonic() > until + timeouts.GRACE_S:
                raise DeadlineExceeded("the deadline passed while the daemon was not reading")

    def _abandon(self, call: Call) -> None:
        """Nobody waits for the call any more. Its memory is not touched from here on, its answer will be dropped."""
        call.destination = None
        call.abandoned = True
        if call.done or self._calls.get(call.id) is not call:
            return
        try:
            with self._tx:
                self._transport.settle()
            self._send_raw(self._pack(frame.CANCEL, call.method, call.id))
        except PjrtError:
            pass  # then there is nothing to cancel

    def _checkpoint(self, until: float | None) -> None:
        """Keeps the number of quiet calls under way within the daemon's limit: after every step a Sync is sent, and
        no more than two may be unanswered before the next step begins."""
        call = Call(methods.SESSION_SYNC)
        self._quiet = 0
        self._send(call, b"", 0)
        self._checkpoints.append(call)
        if self._transport.backlog:
            self._drain(until)
        while len(self._checkpoints) > 2:
            oldest = self._checkpoints[0]
            self._wait(oldest, until, NEVER)
            self._forget(oldest)
            try:
                self._checkpoints.remove(oldest)
            except ValueError:
                pass  # another thread did
            if self._failure is not None:
                raise self._failure.again()

    # ---- waiting and reading ----

    def _wait(self, call: Call, until: float | None, credit: int) -> None:
        """Returns when the call is done, or may have sent more than `credit` bytes."""
        while not (call.done or call.credit > credit):
            held: list[bool] = []
            try:
                held.extend(map(self._rx.acquire, _TRY))
                if held[0]:
                    self._reader = get_ident()
                    self._read_for(call, until, credit)
                else:
                    self._park(call, until)
            finally:
                if held and held[0]:
                    self._reader = 0
                    self._rx.release()
                if self._parked:
                    self._promote()
            if until is not None and not call.done and monotonic() > until + timeouts.GRACE_S:
                raise DeadlineExceeded(
                    "the deadline passed, and the daemon did not answer in time either",
                    hint="the device may be busy or stuck; `pjrtctl stats` tells",
                )

    def _read_for(self, call: Call, until: float | None, credit: int) -> None:
        """Reads, for everybody, until the call has what it waits for or its time is over. Holds _rx."""
        poll = self._poll.poll
        if self._transport.unfinished:
            self._receive()
        if self._spin_s:
            if self._spin_skips > 0:
                self._spin_skips -= 1
            else:
                stop = monotonic() + self._spin_s
                while True:
                    if poll(0):
                        self._receive()
                        if call.done or call.credit > credit:
                            self._spin_misses = 0
                            return
                    if monotonic() > stop:
                        break
                # Waiting in vain costs others the processor: try less and less often until it pays again.
                self._spin_misses += 1
                if self._spin_misses >= 4:
                    self._spin_skips = min(1 << self._spin_misses - 3, _MAX_SPIN_SKIPS)
        while not (call.done or call.credit > credit):
            wanted = _POLL_IN
            if self._transport.backlog and not self._flush():
                wanted = _POLL_IN | _POLL_OUT
            if wanted != self._poll_events:
                self._poll.modify(self._transport.fileno(), wanted)
                self._poll_events = wanted
            if until is None:
                events = poll()
            else:
                left_s = until + timeouts.GRACE_S - monotonic()
                events = poll(left_s * 1000 + 1) if left_s > 0 else []
                if not events:
                    return
            if events[0][1] & _POLL_FAILED:
                self._receive()

    def _receive(self) -> None:
        """Reads once what is there. Holds _rx. A broken connection ends every call."""
        try:
            self._transport.receive(self)
        except PjrtError as error:
            self._fail(error)
        except DecodeError as error:
            self._fail(Internal(f"the daemon sent a broken message: {error}"))

    def _park(self, call: Call, until: float | None) -> None:
        """Sleeps while another thread reads."""
        if self._reader == get_ident():
            raise FailedPrecondition(
                "a signal handler waits on a pjrtd client while the code that it interrupted does",
                hint="set a flag in the handler and act on it afterwards",
            )
        gate = allocate_lock()
        gate.acquire()
        call.gate = gate
        try:
            self._parked.append(call)
            if not call.done and self._rx.locked():  # looked at again, now that the reader can see us
                left_s = _GATE_S
                if until is not None:
                    left_s = min(left_s, max(0.0, until + timeouts.GRACE_S - monotonic()))
                gate.acquire(True, left_s)
        finally:
            call.gate = None
            try:
                self._parked.remove(call)
            except ValueError:
                pass

    def _promote(self) -> None:
        """Wakes one sleeping thread to take over the reading."""
        if self._rx.locked():
            return
        for call in tuple(self._parked):
            if call.gate is not None:
                call.notify()
                if not call.done:
                    return

    def _fail(self, error: PjrtError) -> None:
        """The connection is unusable from here on, for the reason that came first."""
        if self._failure is None:
            self._failure = error
        for call in tuple(self._calls.values()):
            if not call.done:
                call.error = self._failure.again()
                call.done = True
                call.notify()
        self._transport.shut_down()

    def _write_failed(self, error: PjrtError) -> None:
        """A send failed: the daemon may have said why before it closed the connection."""
        if self._failure is not None:
            return
        held: list[bool] = []
        try:
            held.extend(map(self._rx.acquire, _TRY))
            if held[0]:
                try:
                    while self._failure is None and self._transport.receive(self):
                        pass
                except (PjrtError, DecodeError):
                    pass
        finally:
            if held and held[0]:
                self._rx.release()
        self._fail(error)

    # ---- what comes (FrameSink); holds _rx; may see a frame twice ----

    def on_frame(self, kind: int, serial: int, call: int, payload: memoryview, bulk: memoryview) -> None:
        if serial == self._last_frame:
            return
        found = self._calls.get(call)
        if kind == _REPLY:
            if found is not None and not found.done:
                found.payload = bytes(payload)
                if found.expected < 0:
                    found.bulk = bytes(bulk)
                    self._end(found, serial)
                elif self._on_download_reply(found, bulk):
                    self._end(found, serial)
        elif kind == frame.ERROR:
            error = from_wire(decode(Error, payload))
            if not call:
                self._fail(error)
            elif found is not None:
                found.error = error
                self._end(found, serial)
            elif self._quiet_failure is None:
                self._quiet_failure = (call, error)
        elif kind == frame.CREDIT:
            if found is not None:
                from ._proto.frame import Credit

                credit = found.credit + decode(Credit, payload).bytes
                found.credit = credit
                self._last_frame = serial  # no signal comes between these two assignments
                found.notify()
        else:
            self._fail(Internal(f"the daemon sent a frame of kind {kind}, which a client cannot get"))
        self._last_frame = serial

    def _on_download_reply(self, call: Call, bulk: memoryview) -> bool:
        """Whether that was all of it."""
        if len(bulk) == call.expected:
            if call.destination is not None:
                call.destination[: call.expected] = bulk
            elif not call.abandoned:
                call.bulk = bytearray(bulk)
            return True
        from ._proto.buffer import DownloadReply

        announced = decode(DownloadReply, call.payload).data_bytes
        if bulk or announced != call.expected:
            call.error = DataLoss(f"the buffer has {call.expected} bytes, and the daemon sends {announced}")
            call.destination = None
            return True
        if call.destination is None and not call.abandoned:
            call.destination = memoryview(bytearray(call.expected))
        return False

    def _end(self, call: Call, serial: int) -> None:
        call.done = True
        self._last_frame = serial  # before the call is forgotten: a repeated frame would be taken for a quiet failure
        self._calls.pop(call.id, None)
        call.notify()

    def find_bulk_target(self, call: int) -> BulkTarget:
        found = self._calls.get(call)
        if found is None or found.done:
            return BulkTarget()
        if found.expected < 0 or not found.payload:
            raise Internal(f"the daemon sent data for call {call}, which waits for none")
        return found

    def on_item(self, target: BulkTarget, filled: int) -> None:
        target.filled = filled
        if not isinstance(target, Call):
            return
        if filled >= target.expected:
            self._end(target, self._last_frame)
        elif target.granted < target.expected and filled + DOWNLOAD_CREDIT_BYTES // 2 >= target.granted:
            from ._proto.frame import Credit

            grant = filled + DOWNLOAD_CREDIT_BYTES - target.granted
            credit = self._pack(frame.CREDIT, target.method, target.id, Credit(grant).encode())
            with self._tx:
                if not self._sending:  # it is when a failed send makes us read what the daemon said last
                    self._send_raw(credit)
            target.granted += grant

    def _reported(self, error: PjrtError) -> PjrtError:
        """Notes that the caller hears of a quiet call's failure by this error, so that sync need not repeat it."""
        failure = self._quiet_failure
        if failure is not None and error.origin_call == failure[0]:
            self._quiet_failure = None
        return error

    # ---- the end ----

    @property
    def failure(self) -> PjrtError | None:
        """Why the connection cannot be used any more, or None."""
        return self._failure

    @property
    def target(self) -> str:
        return self._transport.target

    def close(self, timeout_s: float) -> None:
        """Ends the session, giving the daemon `timeout_s` seconds to free what it holds, and the connection."""
        if self._failure is None and timeout_s:
            try:
                self.request(methods.SESSION_CLOSE, b"", monotonic() + timeout_s)
            except PjrtError:
                pass  # the daemon frees everything when the connection goes, too
        self._fail(HandleClosed("the client is closed"))
        _live.discard(self)
        if self._reader != get_ident():  # else a signal handler closes what it interrupted; the descriptor goes later
            with self._rx:
                self._transport.close()

    def close_in_child(self) -> None:
        """In a forked child: gives up this process's copy of the descriptor. The parent's session is not touched."""
        self._failure = FailedPrecondition(
            f"this client belongs to process {self.pid}, and this is its forked child {getpid()}",
            hint="connect in the child with Client.create(); buffers and programs stay with the parent",
        )
        self._rx = allocate_lock()  # the old ones may be held by threads that the child does not have
        self._tx = RLock()
        self._sending = False
        self._calls.clear()
        self._parked.clear()
        self._transport.close()


def _watch_forks(connection: Connection) -> None:
    global _fork_hook_is_set
    _live.add(connection)
    if not _fork_hook_is_set:
        import os

        _fork_hook_is_set = True
        os.register_at_fork(after_in_child=_after_fork_in_child)


def _after_fork_in_child() -> None:
    for connection in tuple(_live):
        connection.close_in_child()
    _live.clear()
