"""What a connection sends: in which order, under which ids.

One lock orders everything: ids are chosen and frames queued under it, and it is never held while waiting. Its owner
sets `_sending`, which tells a signal handler that came in between that it must not send.

On a connection that can be resumed every request is noted in a journal before it is sent, and while there is no link it
is noted only: `resume` sends what the daemon has not got.
"""

from __future__ import annotations

from _thread import RLock
from time import monotonic

from . import frame
from ._proto import methods
from ._proto.wire import get_varint, varint
from .call import Call
from .errors import FailedPrecondition, PjrtError
from .ids import BELOW_PREFIX, IdSequence
from .journal import Journal, ask_again
from .slot import binding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._proto.session import PendingCall
    from .call import CallTable
    from .journal import Entry
    from .late_sender import LateSender
    from .transport import Transport

_REQUEST = frame.REQUEST
_QUIET = frame.QUIET
_EXECUTE = methods.EXECUTE
_TRY = (False,)

_ENOUGH_GARBAGE = 32  # ids for which a frame of their own is worth it on the hot path
_ENOUGH_GARBAGE_BYTES = 1 << 20
_MAX_IDS_IN_FRAME = 8192
_FRAMES_IN_WRITE = 64


class ExecutePlan:
    """The parts of a program's ExecuteRequests that are the same each time."""

    __slots__ = ("program", "num_outputs", "before", "args_bytes", "between", "outputs_bytes", "kept")

    def __init__(
        self, program: bytes, num_args: int, num_outputs: int, kept: Sequence[bool] | None = None, args_bytes: int = 0
    ) -> None:
        """kept: which of the outputs get an id; None: all. args_bytes: what the arguments' ids have together, where they
        have not as many as the program's."""
        self.kept = kept
        self.program = b"\x08" + program
        self.num_outputs = num_outputs
        # All ids of a connection have as many bytes, unless its prefix is 0: then these are of what came last.
        self.args_bytes = args_bytes or num_args * len(program)
        self.before = self.args_field(self.args_bytes)
        self.outputs_bytes = num_outputs * len(program)
        self.between = self.outputs_field(self.outputs_bytes)

    def fit_args(self, size: int) -> None:
        self.args_bytes, self.before = size, self.args_field(size)

    def fit_outputs(self, size: int) -> None:
        self.outputs_bytes, self.between = size, self.outputs_field(size)

    def args_field(self, size: int) -> bytes:
        return self.program + b"\x12" + varint(size)

    def outputs_field(self, size: int) -> bytes:
        return b"\x1a" + varint(size)


def _is_from(floor: int, id: bytes) -> bool:
    """Whether an id is of the same prefix as the one that new ones began with, and not before it."""
    number = get_varint(id, 0, len(id))[0]
    return number >> 48 == floor >> 48 and number >= floor


class Outbox:
    """See the module. Any thread may use it."""

    __slots__ = (
        *("_transport", "_table", "_lock", "_sending", "_pack", "_write_later", "_late", "_next_call", "buffers", "programs", "quiet"),
        *("_garbage", "_garbage_bytes", "_garbage_programs", "_taken", "upload_credit_bytes", "on_broken", "_journal", "_floors"),
    )

    def __init__(self, transport: Transport, table: CallTable) -> None:
        self._transport = transport
        self._table = table
        self._lock = RLock()
        self._sending = False
        self._pack = transport.pack
        self._write_later = transport.write_later
        self._late: LateSender | None = None
        self._next_call = 1
        self.buffers = IdSequence(0)
        self.programs = IdSequence(0)
        #: What quiet calls cost the daemon since somebody set it to 0: one for each, and one for about each KiB.
        self.quiet = 0
        self.upload_credit_bytes = 0
        #: Called, with the lock held, when the link breaks; ends the connection.
        self.on_broken: Callable[[PjrtError], None] = table.fail
        self._garbage: list[bytes] = []
        self._garbage_bytes = 0
        self._garbage_programs: list[bytes] = []
        #: What was taken of it and is not sent yet, buffers and programs, and the call that deletes the first of it.
        self._taken: tuple[list[bytes], list[bytes], int] | None = None
        self._journal: Journal | None = None
        self._floors: tuple[int, int] | None = None

    # ---- requests ----

    def send(
        self,
        call: Call,
        payload: bytes,
        deadline_ns: int,
        bulk: bytes = b"",
        flags: int = 0,
        ids: IdSequence | None = None,
    ) -> bool:
        """Sends a request, with a call id of its own and, from `ids`, one for what it makes as its first field. An
        answer is expected unless it is quiet and its bulk is in the frame. False where a part of it could not be sent
        at once. If it raises and call.id is 0, the daemon does not hear of it."""
        with self._lock:
            if self._sending or self._table.failure is not None:
                self._check()
            writes = self._transport.writes
            self._sending = True
            try:
                if ids is not None:
                    call.made = ids.take()
                    payload = b"\x08" + call.made + payload
                garbage = b""
                if self._garbage or self._garbage_programs:
                    # Frequent calls carry it only when it is worth it.
                    if not flags and call.expected < 0 or len(self._garbage) >= _ENOUGH_GARBAGE:
                        garbage = self._take_garbage()
                number = self._next_call
                self._next_call = number + 1
                call.id = number
                if flags:
                    self.quiet += 1 + (len(bulk) >> 10)
                if not flags or not bulk:
                    call.credit = self.upload_credit_bytes
                    self._table.calls[number] = call
                if self._journal is not None:
                    self._note(number, call.method, payload, bulk, flags, deadline_ns, call)
                    if self._table.failure is not None:
                        return False
                head = self._pack(_REQUEST, call.method, number, payload, len(bulk), flags, deadline_ns)
                write = self._write_later if flags else self._transport.write
                sent = write(garbage + head + bulk if garbage or bulk else head)
            except PjrtError as error:
                self._broken(error)
                sent = False
            except BaseException:
                if self._transport.writes == writes:
                    self._table.calls.pop(call.id, None)
                    self._unnote(call.id)
                    self._put_back()
                    call.id, call.made = 0, b""
                raise
            finally:
                self._sending = False
                self._taken = None
            if self._transport.held and (self._late is None or not self._late.running):
                self._send_soon()
        return sent

    def execute(
        self, plan: ExecutePlan, args: bytes, inline: bytes, bulk: bytes, deadline_ns: int, outputs: list[bytes]
    ) -> bool:
        """Sends a quiet ExecuteRequest and adds the ids of its outputs to `outputs`; if it raises, those that the
        daemon may hear of. `args` are packed ids, `inline` encoded inline_args fields, `bulk` their data. False where
        a part of it could not be sent at once."""
        with self._lock:
            if self._sending or self._table.failure is not None:
                self._check()
            writes = self._transport.writes
            self._sending = True
            number = 0
            try:
                take = self.buffers.take
                if plan.kept is None:
                    for _ in range(plan.num_outputs):
                        outputs.append(take())
                    ids = b"".join(outputs)
                else:
                    ids = self._take_some(plan.kept, outputs)
                if len(args) != plan.args_bytes:
                    plan.fit_args(len(args))
                if len(ids) != plan.outputs_bytes:
                    plan.fit_outputs(len(ids))
                garbage = b""
                if len(self._garbage) >= _ENOUGH_GARBAGE or self._garbage_programs:
                    garbage = self._take_garbage()
                number = self._next_call
                self._next_call = number + 1
                payload = plan.before + args + plan.between + ids + inline
                self.quiet += 1 + (len(payload) >> 6) + (len(bulk) >> 10)
                if self._journal is not None:
                    self._note(number, _EXECUTE, payload, bulk, _QUIET, deadline_ns, None)
                    if self._table.failure is not None:
                        return False
                head = self._pack(_REQUEST, _EXECUTE, number, payload, len(bulk), _QUIET, deadline_ns)
                sent = self._write_later(garbage + head + bulk if garbage or bulk else head)
            except PjrtError as error:
                self._broken(error)
                sent = False
            except BaseException:
                if self._transport.writes == writes:
                    self._unnote(number)
                    self._put_back()
                    outputs.clear()
                raise
            finally:
                self._sending = False
                self._taken = None
            if self._transport.held and (self._late is None or not self._late.running):
                self._send_soon()
        return sent

    def _send_soon(self) -> None:
        """Something is held back. With the lock held."""
        if self._late is None:
            from .late_sender import LateSender

            self._late = LateSender(self)
        self._late.see_to_it()

    def _take_some(self, kept: Sequence[bool], outputs: list[bytes]) -> bytes:
        """Ids for those outputs that are kept, added to `outputs`; returns the field's content for all."""
        ids: list[bytes] = []
        for each in kept:
            if each:
                outputs.append(self.buffers.take())
            ids.append(outputs[-1] if each else b"\x00")
        return b"".join(ids)

    def start_execute(
        self, call: Call, plan: ExecutePlan, args: bytes, fields: bytes, bulk: bytes, deadline_ns: int, outputs: list[bytes]
    ) -> bool:
        """Sends an ExecuteRequest that is answered, and adds the ids of the outputs that are kept to `outputs`."""
        with self._lock:
            self._check()
            ids = self._take_some(plan.kept if plan.kept is not None else (True,) * plan.num_outputs, outputs)
            payload = plan.args_field(len(args)) + args + (plan.outputs_field(len(ids)) + ids if outputs else b"") + fields
            self.quiet += 1 + (len(payload) >> 6) + (len(bulk) >> 10)
            return self.send(call, payload, deadline_ns, bulk)

    def start_run(
        self, call: Call, plan: ExecutePlan, args: bytes, fields: bytes, rest: bytes, bulk: bytes, deadline_ns: int, outputs: list[bytes]
    ) -> bool:
        """Sends a RunRequest: the step is as in start_execute, and `rest` what comes after it."""
        with self._lock:
            self._check()
            ids = self._take_some(plan.kept or (), outputs)
            step = plan.args_field(len(args)) + args + (plan.outputs_field(len(ids)) + ids if outputs else b"") + fields
            return self.send(call, b"\x0a" + varint(len(step)) + step + rest, deadline_ns, bulk)

    def post(self, method: int, payload: bytes, deadline_ns: int) -> bool:
        """Sends a quiet request that makes nothing and has no bulk. False where a part of it could not be sent at once."""
        with self._lock:
            if self._sending or self._table.failure is not None:
                self._check()
            writes = self._transport.writes
            self._sending = True
            number = 0
            try:
                garbage = b""
                if len(self._garbage) >= _ENOUGH_GARBAGE or self._garbage_programs:
                    garbage = self._take_garbage()
                number = self._next_call
                self._next_call = number + 1
                self.quiet += 1 + (len(payload) >> 6)
                if self._journal is not None:
                    self._note(number, method, payload, b"", _QUIET, deadline_ns, None)
                    if self._table.failure is not None:
                        return False
                head = self._pack(_REQUEST, method, number, payload, 0, _QUIET, deadline_ns)
                sent = self._write_later(garbage + head if garbage else head)
            except PjrtError as error:
                self._broken(error)
                sent = False
            except BaseException:
                if self._transport.writes == writes:
                    self._unnote(number)
                    self._put_back()
                raise
            finally:
                self._sending = False
                self._taken = None
            if self._transport.held and (self._late is None or not self._late.running):
                self._send_soon()
        return sent

    def send_lookup(self, call: Call, name: bytes, deadline_ns: int) -> bool:
        """Sends a quiet LookupRequest for one slot, whose new id becomes `call.made`."""
        with self._lock:
            self._check()
            made = self.buffers.take()
            sent = self.post(methods.SESSION_LOOKUP, binding(name, made), deadline_ns)
            call.made = made
        return sent

    # ---- frames that belong to a call ----

    def send_raw(self, first: bytes | memoryview, *more: bytes | memoryview) -> bool:
        """Sends a whole frame of a call that is under way. False where a part of it could not be sent at once."""
        with self._lock:
            self._check()
            if self._table.failure is not None:
                return False
            self._sending = True
            try:
                sent = self._transport.write(first, *more)
            except PjrtError as error:
                self._broken(error)
                sent = False
            finally:
                self._sending = False
        return sent

    def send_item(self, call: Call, data: memoryview) -> bool | None:
        """Sends the next bytes of a call's bulk; None where others come next: the call's `restart` says which."""
        with self._lock:
            if call.restart is not None:
                return None
            return self.send_raw(self._pack(frame.ITEM, call.method, call.id, b"", len(data)), data)

    def grant(self, call: Call, credit: bytes) -> None:
        """Lets the daemon send more of a download. `credit` is the message."""
        with self._lock:
            if not self._sending:  # it is when a failed send makes us read what the daemon said last
                self.send_raw(self._pack(frame.CREDIT, call.method, call.id, credit))

    def cancel(self, call: Call) -> None:
        """Tells the daemon that nobody waits for a call, and lets go of memory that is still to be sent for it."""
        with self._lock:
            self._transport.settle()
        try:
            self.send_raw(self._pack(frame.CANCEL, call.method, call.id))
        except PjrtError:
            pass  # then there is nothing to cancel

    def flush(self) -> bool:
        """Sends what is left over, as far as that is possible now; whether everything is out."""
        with self._lock:
            self._check()
            if self._table.failure is not None:
                return False
            self._sending = True
            try:
                sent = self._transport.flush()
            except PjrtError as error:
                self._broken(error)
                sent = False
            finally:
                self._sending = False
        return sent

    @property
    def holds_something(self) -> bool:
        """Whether there is something that the transport kept, and no reason not to send it."""
        return bool(self._transport.held) and self._table.failure is None

    def keep_alive(self) -> None:
        """Sees to it that the daemon is still there; the connection breaks where it seems not to be."""
        with self._lock:
            self._check()
            if self._table.failure is not None:
                return
            self._sending = True
            try:
                self._transport.keep_alive()
            except PjrtError as error:
                self._broken(error)
            finally:
                self._sending = False

    def _check(self) -> None:
        """Raises what speaks against a call. While the link may come back, nothing does."""
        if self._table.failure is not None and not self._table.suspended:
            raise self._table.failure.again()
        if self._sending:
            raise FailedPrecondition(
                "a signal handler used a pjrtd client while the code that it interrupted was using it",
                hint="set a flag in the handler and act on it afterwards",
            )

    def _broken(self, error: PjrtError) -> None:
        """The link broke in the middle of sending. Raises why, unless it may come back."""
        self.on_broken(error)
        if not self._table.suspended:
            raise (self._table.failure or error).again() from error

    # ---- a link that is made anew ----

    def _note(
        self, number: int, method: int, payload: bytes, bulk: bytes, flags: int, deadline_ns: int, call: Call | None
    ) -> None:
        """Enters a request in the journal."""
        assert self._journal is not None
        until = monotonic() + deadline_ns / 1e9 if deadline_ns else None
        if flags and bulk:
            call = None
        if call is not None:
            call.request = (payload, until)
        # Without a link, what the daemon acknowledged last may be of the next one.
        acked = self._table.acked if self._table.failure is None else 0
        self._journal.add(number, method, payload, bulk, flags, until, call, acked)

    def _unnote(self, number: int) -> None:
        """A request that was noted is not sent after all."""
        entries = self._journal.entries if self._journal is not None else None
        if entries and entries[-1][0] == number:
            entries.pop()

    def keep_journal(self) -> None:
        """From here on what is sent can be sent again."""
        with self._lock:
            if self._journal is None:
                self._journal = Journal()

    def take_call(self) -> int:
        """A call id, for who sends a request by other ways."""
        with self._lock:
            number = self._next_call
            self._next_call = number + 1
        return number

    def install(self, transport: Transport) -> None:
        """What is sent from here on goes over another link."""
        with self._lock:
            self._transport = transport
            self._pack = transport.pack
            self._write_later = transport.write_later

    def resume(self, last_call: int, pending: dict[int, PendingCall]) -> None:
        """The link is back, and the daemon has all requests up to `last_call`; the answers to those that are pending are
        still to come. The others' answers are lost; what can be asked again is. Requests after `last_call` are sent again.
        Whoever waits for the link goes on then."""
        with self._lock:
            assert self._journal is not None
            calls = self._table.calls
            entries = self._journal.entries
            again: list[Entry] = []
            for number, call in tuple(calls.items()):
                if number > last_call:
                    continue
                waits = pending.get(number)
                if waits is None:
                    again += ask_again(call)
                    if call.done:
                        calls.pop(number, None)
                        call.end()
                elif call.streams:
                    call.credit = waits.received_bytes + waits.credit_bytes
                    call.restart = waits.received_bytes
            again += [entry for entry in entries if entry[0] > last_call]
            entries.clear()
            frames: list[bytes] = []
            for number, method, payload, bulk, flags, until, call in again:
                fresh = self._next_call
                self._next_call = fresh + 1
                if call is not None and calls.get(number) is not call:
                    call = None  # nobody waits for it
                if call is not None:
                    calls.pop(number, None)
                    call.id = fresh
                    calls[fresh] = call
                    if call.streams:
                        call.credit = self.upload_credit_bytes
                        call.restart = 0
                entries.append((fresh, method, payload, bulk, flags, until, call))
                deadline_ns = 0 if until is None else max(1, int((until - monotonic()) * 1e9))
                frames.append(self._pack(_REQUEST, method, fresh, payload, len(bulk), flags, deadline_ns) + bulk)
            frames += [
                self._pack(frame.CANCEL, call.method, call.id) for call in calls.values() if call.abandoned and not call.done
            ]
            # Every frame is in its place before the first of them can fail to be sent.
            for at in range(0, len(frames), _FRAMES_IN_WRITE):
                self._transport.write(b"".join(frames[at : at + _FRAMES_IN_WRITE]))
            # Still with the lock: what is noted while there is a failure is sent by nobody else.
            if self._table.suspended:
                self._table.failure = None
                self._table.suspended = False

    def begin_again(self, prefix: int, highest_buffer: int, highest_program: int) -> None:
        """The session is another one: nothing of before is sent again or deleted, and new ids are above all old ones, ours
        and the session's."""
        with self._lock:
            if self._journal is not None:
                self._journal.entries.clear()
            self.buffers = IdSequence(prefix, max(self.buffers.above, highest_buffer & BELOW_PREFIX))
            self.programs = IdSequence(prefix, max(self.programs.above, highest_program & BELOW_PREFIX))
            self._floors = (self.buffers.next, self.programs.next)
            self._garbage.clear()
            self._garbage_programs.clear()
            self._garbage_bytes = 0
            self.quiet = 0

    # ---- deleting ----

    def discard_buffer(self, buffer: bytes, size: int) -> None:
        """Deletes a buffer: at once if many or large ones have gathered, else with a later frame. Never blocks; may
        be called from anywhere."""
        self._garbage.append(buffer)
        self._garbage_bytes += size
        if self._garbage_bytes >= _ENOUGH_GARBAGE_BYTES or len(self._garbage) >= 4 * _ENOUGH_GARBAGE:
            self._collect()

    def discard_program(self, program: bytes) -> None:
        """Releases a program, likewise."""
        self._garbage_programs.append(program)
        self._collect()

    def _take_garbage(self) -> bytes:
        """Frames that delete what was discarded. With the lock held and _sending set."""
        frames = b""
        buffers, programs = self._garbage, self._garbage_programs
        self._taken = buffers, programs, self._next_call
        self._garbage, self._garbage_programs = [], []
        self._garbage_bytes = 0
        if self._floors is not None:
            buffers = [id for id in buffers if _is_from(self._floors[0], id)]
            programs = [id for id in programs if _is_from(self._floors[1], id)]
        for method, discarded in ((methods.BUFFER_DELETE, buffers), (methods.PROGRAM_RELEASE, programs)):
            for at in range(0, len(discarded), _MAX_IDS_IN_FRAME):
                packed = b"".join(discarded[at : at + _MAX_IDS_IN_FRAME])
                number = self._next_call
                self._next_call = number + 1
                self.quiet += 1
                payload = b"\x0a" + varint(len(packed)) + packed
                if self._journal is not None:
                    self._note(number, method, payload, b"", _QUIET, 0, None)
                frames += self._pack(_REQUEST, method, number, payload, 0, _QUIET)
        return frames

    def _put_back(self) -> None:
        """What was taken of the garbage is not sent after all."""
        if self._taken is not None:
            buffers, programs, first = self._taken
            entries = self._journal.entries if self._journal is not None else None
            while entries and entries[-1][0] >= first:
                entries.pop()
            if buffers is not self._garbage:
                self._garbage.extend(buffers)
                self._garbage_programs.extend(programs)

    def _collect(self) -> None:
        """Sends what was discarded if that is possible at once, without waiting for the lock or the socket."""
        held: list[bool] = []
        try:
            held.extend(map(self._lock.acquire, _TRY))  # one C call acquires and records it: see waiting.py
            if held[0] and not self._sending and self._table.failure is None and (self._transport.held or not self._transport.backlog):
                writes = self._transport.writes
                self._sending = True
                try:
                    garbage = self._take_garbage()
                    if garbage:
                        self._transport.write(garbage)
                except BaseException:
                    if self._transport.writes == writes:
                        self._put_back()
                    raise
                finally:
                    self._sending = False
                    self._taken = None
        except PjrtError as error:
            self.on_broken(error)
        finally:
            if held and held[0]:
                self._lock.release()

    # ---- forks ----

    def reset_in_child(self) -> None:
        """A thread that the child does not have may have held the lock."""
        self._lock = RLock()
        self._sending = False
        self._late = None
        self._journal = None
