"""What a connection sends: in which order, under which ids.

One lock orders everything: ids are chosen and frames queued under it, and it is never held while waiting. Its owner
sets `_sending`, which tells a signal handler that came in between that it must not send.
"""

from __future__ import annotations

from _thread import RLock

from . import frame
from ._proto import methods
from ._proto.wire import varint
from .errors import FailedPrecondition, PjrtError
from .ids import IdSequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from .call import Call, CallTable
    from .late_sender import LateSender
    from .transport import Transport

_REQUEST = frame.REQUEST
_QUIET = frame.QUIET
_EXECUTE = methods.EXECUTE
_TRY = (False,)

_ENOUGH_GARBAGE = 32  # ids for which a frame of their own is worth it on the hot path
_ENOUGH_GARBAGE_BYTES = 1 << 20
_MAX_IDS_IN_FRAME = 8192


class ExecutePlan:
    """The parts of a program's ExecuteRequests that are the same each time."""

    __slots__ = ("program", "num_outputs", "before", "args_bytes", "between", "outputs_bytes")

    def __init__(self, program: bytes, num_args: int, num_outputs: int) -> None:
        self.program = b"\x08" + program
        self.num_outputs = num_outputs
        # All ids of a connection have as many bytes, unless its prefix is 0; then these do not fit and are not used.
        self.args_bytes = num_args * len(program)
        self.before = self.args_field(self.args_bytes)
        self.outputs_bytes = num_outputs * len(program)
        self.between = self.outputs_field(self.outputs_bytes)

    def args_field(self, size: int) -> bytes:
        return self.program + b"\x12" + varint(size)

    def outputs_field(self, size: int) -> bytes:
        return b"\x1a" + varint(size)


class Outbox:
    """See the module. Any thread may use it."""

    __slots__ = (
        *("_transport", "_table", "_lock", "_sending", "_pack", "_write_later", "_late", "_next_call", "buffers", "programs", "quiet"),
        *("_garbage", "_garbage_bytes", "_garbage_programs", "upload_credit_bytes", "on_broken"),
    )

    def __init__(self, transport: Transport, table: CallTable) -> None:
        self._transport = transport
        self._table = table
        self._lock = RLock()
        self._sending = False
        self._pack = transport.pack
        self._write_later = transport.write_later
        self._late: LateSender | None = None
        if transport.holds:
            from .late_sender import LateSender

            self._late = LateSender(self)
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
                head = self._pack(_REQUEST, call.method, number, payload, len(bulk), flags, deadline_ns)
                write = self._write_later if flags else self._transport.write
                sent = write(garbage + head + bulk if garbage or bulk else head)
            except PjrtError as error:
                self._broken(error)
            except BaseException:
                if self._transport.writes == writes:
                    self._table.calls.pop(call.id, None)
                    call.id, call.made = 0, b""
                raise
            finally:
                self._sending = False
            if flags and self._late is not None and self._transport.held:
                self._late.see_to_it()
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
            try:
                take = self.buffers.take
                for _ in range(plan.num_outputs):
                    outputs.append(take())
                ids = b"".join(outputs)
                before = plan.before if len(args) == plan.args_bytes else plan.args_field(len(args))
                between = plan.between if len(ids) == plan.outputs_bytes else plan.outputs_field(len(ids))
                garbage = b""
                if len(self._garbage) >= _ENOUGH_GARBAGE or self._garbage_programs:
                    garbage = self._take_garbage()
                number = self._next_call
                self._next_call = number + 1
                payload = before + args + between + ids + inline
                self.quiet += 1 + (len(payload) >> 6) + (len(bulk) >> 10)
                head = self._pack(_REQUEST, _EXECUTE, number, payload, len(bulk), _QUIET, deadline_ns)
                sent = self._write_later(garbage + head + bulk if garbage or bulk else head)
            except PjrtError as error:
                self._broken(error)
            except BaseException:
                if self._transport.writes == writes:
                    outputs.clear()
                raise
            finally:
                self._sending = False
            if self._late is not None and self._transport.held:
                self._late.see_to_it()
        return sent

    # ---- frames that belong to a call ----

    def send_raw(self, first: bytes | memoryview, *more: bytes | memoryview) -> bool:
        """Sends a whole frame of a call that is under way. False where a part of it could not be sent at once."""
        with self._lock:
            self._check()
            self._sending = True
            try:
                sent = self._transport.write(first, *more)
            except PjrtError as error:
                self._broken(error)
            finally:
                self._sending = False
        return sent

    def send_item(self, call: Call, data: memoryview) -> bool:
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
            self._sending = True
            try:
                sent = self._transport.flush()
            except PjrtError as error:
                self._broken(error)
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
            self._sending = True
            try:
                self._transport.keep_alive()
            except PjrtError as error:
                self._broken(error)
            finally:
                self._sending = False

    def _check(self) -> None:
        if self._table.failure is not None:
            raise self._table.failure.again()
        if self._sending:
            raise FailedPrecondition(
                "a signal handler used a pjrtd client while the code that it interrupted was using it",
                hint="set a flag in the handler and act on it afterwards",
            )

    def _broken(self, error: PjrtError) -> NoReturn:
        """The link broke in the middle of sending."""
        self.on_broken(error)
        raise (self._table.failure or error).again() from error

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
        buffers, self._garbage = self._garbage, []
        self._garbage_bytes = 0
        programs, self._garbage_programs = self._garbage_programs, []
        for method, discarded in ((methods.BUFFER_DELETE, buffers), (methods.PROGRAM_RELEASE, programs)):
            for at in range(0, len(discarded), _MAX_IDS_IN_FRAME):
                packed = b"".join(discarded[at : at + _MAX_IDS_IN_FRAME])
                number = self._next_call
                self._next_call = number + 1
                self.quiet += 1
                frames += self._pack(_REQUEST, method, number, b"\x0a" + varint(len(packed)) + packed, 0, _QUIET)
        return frames

    def _collect(self) -> None:
        """Sends what was discarded if that is possible at once, without waiting for the lock or the socket."""
        held: list[bool] = []
        try:
            held.extend(map(self._lock.acquire, _TRY))  # one C call acquires and records it: see waiting.py
            if held[0] and not self._sending and self._table.failure is None and not self._transport.backlog:
                self._sending = True
                try:
                    garbage = self._take_garbage()
                    if garbage:
                        self._transport.write(garbage)
                finally:
                    self._sending = False
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
