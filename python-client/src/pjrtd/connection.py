"""A connection to a daemon: what can be asked for over it.

It is put together from the transport (frames), the outbox (what is sent, under which ids), the inbox (what comes) and
the waiter (who reads, and how long). Whatever a signal handler raises during a call abandons that call and leaves the
connection usable.
"""

from __future__ import annotations

from os import getpid
from time import monotonic, sleep

from . import frame, target, timeouts
from ._proto import methods
from ._proto.wire import varint
from .call import NEVER, Call, CallTable, RunCall, read_answer
from .errors import DeadlineExceeded, FailedPrecondition, HandleClosed, Internal, NotFound, PjrtError, from_wire, session_lost
from .ids import IdSequence
from .inbox import Inbox
from .outbox import ExecutePlan, Outbox
from .waiting import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Callable

    from ._proto.runtime import HelloReply
    from ._proto.session import SessionAttachReply, SessionAttachRequest, SessionOpenReply
    from .errors import SessionLost
    from .revival import KeptSession, Reviver
    from .transport import Transport
    from .watcher import Watcher

_DOWNLOAD = methods.BUFFER_DOWNLOAD

# Connections of this process, for os.fork().
_live: set[Connection] = set()
_fork_hook_is_set = False
_held_in_fork: list[RLock] = []


class Configured:
    """What was asked for about a session: None is what the daemon gives."""

    __slots__ = ("priority", "home")

    def __init__(self) -> None:
        self.priority: int | None = None
        self.home: int | None = None


class Connection:
    """Any thread may use it. One that takes part in a kept session (`keep`) is made anew when it is lost. Where a method takes `until`, that is a time.monotonic() time in seconds at which the call
    must be over, or None; DeadlineExceeded is raised after it."""

    def __init__(self, transport: Transport, busy_poll_us: float) -> None:
        """Takes a connected transport. `hello` comes before anything else."""
        self._transport = transport
        self._replaced: Transport | None = None  # threads may still look at it
        self._table = self.table = CallTable(transport)
        self._outbox = self.outbox = Outbox(transport, self._table)
        self._inbox = Inbox(self._table, self._outbox)
        self._waiter = self.waiter = Waiter(transport, self._table, self._outbox, self._inbox, busy_poll_us / 1e6)
        self._outbox.on_broken = self._waiter.read_last_words
        self.discard_buffer = self._outbox.discard_buffer
        self.discard_program = self._outbox.discard_program
        self._quiet_step = 64
        self._checkpoints: list[Call] = []
        self._reviver: Reviver | None = None
        self._watcher: Watcher | None = None
        self._unsaid: SessionLost | None = None
        #: Another number after each start of the daemon.
        self.server_epoch = 0
        #: How often the session was lost and began anew.
        self.generation = 0
        #: The top 16 bits of the ids that Hello gave it to choose.
        self.id_prefix = 0
        #: The device of what is placed nowhere in particular, by its id; and what was asked for about the session.
        self.home_device = 0
        self.configured = Configured()
        #: What happened to the session that is kept; None while none is.
        self.kept: KeptSession | None = None
        self._pid = getpid()
        self.max_inline_bytes = 0
        self.max_item_bytes = 1
        _watch_forks(self)

    # ---- opening ----

    def hello(self, client_name: str, until: float | None, *others: int) -> list[Call]:
        """Agrees on a protocol version. `others` are methods without arguments to ask at the same time: their calls
        are returned, for `finish`."""
        from ._proto.runtime import HelloReply, HelloRequest

        request = HelloRequest(frame.PROTOCOL_MIN, frame.PROTOCOL_MAX, client_name, frame.DOWNLOAD_CREDIT_BYTES, True)
        call = Call(methods.HELLO)
        calls = [Call(method) for method in others]
        self._outbox.send(call, request.encode(), 0)
        for other in calls:
            self._outbox.send(other, b"", 0)
        try:
            self.finish(call, until)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"the peer at {self.target} did not answer in time, though it accepted the connection",
                hint="is it a pjrtd, and alive? It may also be stuck, or busy for longer than `timeout`",
            ) from error
        reply = read_answer(HelloReply, call.payload)
        self.go_on(reply)
        self.home_device = reply.home_device
        self.id_prefix = reply.id_prefix
        self._outbox.buffers = IdSequence(reply.id_prefix)
        self._outbox.programs = IdSequence(reply.id_prefix)
        return calls

    def go_on(self, reply: HelloReply) -> None:
        """The daemon's limits are these from here on."""
        _check_limits(reply)
        self.server_epoch = reply.server_epoch
        self.max_inline_bytes = min(reply.max_inline_bytes, frame.MAX_INLINE_BYTES)
        self.max_item_bytes = min(reply.max_item_bytes, self._transport.item_bytes)
        self._outbox.upload_credit_bytes = reply.upload_credit_bytes
        # Up to three steps may be under way; the rest is for calls with an answer. (The daemon also bounds the memory of
        # a connection's calls, by 4 MiB or more.)
        self._quiet_step = max(1, min(reply.max_calls_in_flight or 1024, 4096) // 4)

    # ---- the session that it takes part in ----

    def attach(self, request: SessionAttachRequest, until: float | None) -> SessionAttachReply:
        """Takes part in another session, or names its own. Only before it has made anything, where that is another."""
        from ._proto.session import SessionAttachReply

        reply = read_answer(SessionAttachReply, self.request(methods.SESSION_ATTACH, request.encode(), until).payload)
        self.home_device = reply.home_device
        if not reply.created:
            self._outbox.buffers = IdSequence(reply.id_prefix, reply.highest_buffer)
            self._outbox.programs = IdSequence(reply.id_prefix, reply.highest_program)
        return reply

    def open_session(self, name: str, ttl_ns: int, until: float | None) -> SessionOpenReply:
        """Gives its session a name ("": none), a lease, or both."""
        from ._proto.session import SessionOpenReply, SessionOpenRequest

        request = SessionOpenRequest(name, ttl_ns).encode()
        return read_answer(SessionOpenReply, self.request(methods.SESSION_OPEN, request, until).payload)

    def configure(self, priority: int | None, home: int | None, until: float | None) -> None:
        """Changes what is not None, also of a session that takes the place of this one when it is lost."""
        from ._proto.session import ConfigureRequest

        self.ask(methods.SESSION_CONFIGURE, ConfigureRequest(priority or 0, home).encode(), until)
        if priority is not None:
            self.configured.priority = priority
        if home is not None:
            self.configured.home = self.home_device = home

    def keep(
        self, kept: KeptSession, open: Callable[[float], Transport], reconnect_s: float, on_lost: Callable[[], None]
    ) -> None:
        """The session outlives the link: when that breaks, another one, made by `open`, goes on with it, if it can be
        had within `reconnect_s` seconds. on_lost: see Reviver."""
        from .revival import Reviver

        self.kept = kept
        self._reviver = Reviver(self, open, reconnect_s, kept, on_lost)
        self._outbox.keep_journal()
        self._table.recover = self._recover
        self._table.resumes = True

    def install(self, transport: Transport) -> None:
        """The link is another one from here on; for the reviver."""
        replaced = self._replaced
        self._replaced = self._transport
        self._transport = self._table.transport = transport
        self._inbox.begin_anew()
        self._waiter.install(transport)
        self._outbox.install(transport)
        if replaced is not None:
            replaced.close()

    def begin_again(self, hello: HelloReply, session: SessionAttachReply, lost: SessionLost) -> None:
        """The session is another one: what was under way fails, and nothing of before is known any more. For the reviver."""
        self.go_on(hello)
        self.generation += 1
        self._outbox.begin_again(session.id_prefix, session.highest_buffer, session.highest_program)
        self._unsaid = lost
        for call in tuple(self._table.calls.values()):
            call.error = lost.again()
            call.end()
        self._table.calls.clear()
        self._table.quiet_failure = None
        self._configure_again(session.home_device)

    def _configure_again(self, home: int) -> None:
        """A session that began anew, at home on that device, gets what was asked for about the one before. Where it cannot
        have that, the next sync tells."""
        from ._proto.session import ConfigureRequest

        configured = self.configured
        if configured.priority is not None:
            self._outbox.post(methods.SESSION_CONFIGURE, ConfigureRequest(configured.priority).encode(), 0)
        if configured.home is not None:
            self._outbox.post(methods.SESSION_CONFIGURE, ConfigureRequest(device=configured.home).encode(), 0)
            home = configured.home
        self.home_device = home

    def _recover(self, until: float | None) -> None:
        """See CallTable.recover."""
        table = self._table
        pause = 0.0005
        while table.failure is not None:
            if not table.suspended:
                raise table.failure.again()
            assert self._reviver is not None
            self._reviver.see_to_it()
            if until is not None and monotonic() > until:
                raise DeadlineExceeded(f"the deadline passed while the connection to {self.target} was lost")
            sleep(pause)
            pause = min(pause * 2, 0.02)
        self.say_if_lost()

    def say_if_lost(self) -> None:
        """Warns that the session was lost, once."""
        lost, self._unsaid = self._unsaid, None
        if lost is not None:
            import warnings

            warnings.warn(lost, stacklevel=6)

    # ---- calls with an answer ----

    def request(self, method: int, payload: bytes = b"", until: float | None = None, bulk: bytes = b"") -> Call:
        """Makes a call and waits for its answer. Raises what the daemon answers."""
        call = Call(method)
        try:
            if not self._outbox.send(call, payload, timeouts.remaining_ns(until), bulk):
                self._waiter.drain(until)
        except BaseException:
            self._abandon(call)
            raise
        return self.finish(call, until)

    def ask(self, method: int, payload: bytes, until: float | None) -> None:
        """request(), for what may be done twice: where the answer is lost with a connection, it is done again."""
        while self.request(method, payload, until).answer_lost:
            pass

    def finish(self, call: Call, until: float | None) -> Call:
        """Waits for the answer to a call that was sent."""
        try:
            self._waiter.wait(call, until, NEVER)
        except BaseException:
            self._abandon(call)
            raise
        if self._table.notice is not None:
            self._warn()
        if call.error is not None:
            raise self.told(call.error)
        return call

    def told(self, error: PjrtError) -> PjrtError:
        """An error that a call ended with, as it is raised."""
        if self.generation and isinstance(error, NotFound):
            error.hint += f"; this client lost its session {self.generation} time(s), with all that it held"
        return self._inbox.reported(error)

    def _warn(self) -> None:
        """Passes on what the daemon said unasked. A warning that is made an error is raised after the call has ended."""
        from warnings import warn

        from .errors import SessionIdleWarning

        notice = self._table.notice
        self._table.notice = None
        if notice is not None:
            warn(notice, SessionIdleWarning, stacklevel=4)

    def _abandon(self, call: Call) -> None:
        """Nobody waits for the call any more: its memory is not touched from here on, its answer will be dropped."""
        call.destination = None
        call.abandoned = True
        if not call.done and self._table.calls.get(call.id) is call:
            self._outbox.cancel(call)

    def download(self, buffer: bytes, size: int, destination: memoryview | None, until: float | None) -> bytes | bytearray:
        """The data of a buffer, `size` bytes: put into `destination`, or returned where that is None."""
        call = Call(_DOWNLOAD, size)
        whole = b""
        if destination is not None:
            call.destination = destination
        elif size > self.max_inline_bytes:
            whole = bytearray(size)
            call.destination = memoryview(whole)
        call.granted = frame.DOWNLOAD_CREDIT_BYTES
        try:
            deadline_ns = 0 if until is None else timeouts.remaining_ns(until)
            if not self._outbox.send(call, b"\x08" + buffer, deadline_ns):
                self._waiter.drain(until)
            self._waiter.wait(call, until, NEVER)
        except BaseException:
            self._abandon(call)
            raise
        if self._table.notice is not None:
            self._warn()
        if call.error is not None:
            raise self.told(call.error)
        call.destination = None
        return whole or call.bulk

    def compile(self, rest: bytes, code: bytes, until: float | None) -> tuple[bytes, bytes]:
        """Makes a program. `rest` is the CompileRequest after its first field. Returns its id and the reply."""
        call = Call(methods.PROGRAM_COMPILE)
        try:
            self._create(call, self._outbox.programs, rest, code, 0, until)
            self.finish(call, until)
            if call.method == methods.PROGRAM_DESCRIBE:  # the answer was lost, and asked for again: the reply's description
                return call.made, b"\x0a" + varint(len(call.payload)) + call.payload
            return call.made, call.payload
        except BaseException:
            self._abandon(call)
            if call.made:
                self._outbox.discard_program(call.made)
            raise

    # ---- calls that are waited for later ----

    def start(self, call: Call, payload: bytes, until: float | None, bulk: bytes = b"", wait: bool = True) -> Call:
        """Sends a request whose answer is a future's. Where `wait` is false it does not wait until it is out: whoever waits
        for the answer sees to that."""
        if wait and self._outbox.quiet >= self._quiet_step:
            self._checkpoint(until)
        self._outbox.quiet += 1 + (len(payload) >> 6) + (len(bulk) >> 10)
        try:
            if not self._outbox.send(call, payload, timeouts.remaining_ns(until), bulk) and wait:
                self._waiter.drain(until)
        except BaseException:
            self._abandon(call)
            raise
        return call

    def start_execute(
        self, plan: ExecutePlan, args: bytes, fields: bytes, bulk: bytes, until: float | None, wait: bool = True
    ) -> tuple[Call, list[bytes]]:
        """Runs a program, for an answer; returns its call and the ids of the outputs that are kept."""
        if wait and self._outbox.quiet >= self._quiet_step:
            self._checkpoint(until)
        call = Call(methods.EXECUTE)
        outputs: list[bytes] = []
        try:
            if not self._outbox.start_execute(call, plan, args, fields, bulk, timeouts.remaining_ns(until), outputs) and wait:
                self._waiter.drain(until)
        except BaseException:
            self._abandon(call)
            for made in outputs if call.id else ():
                self._outbox.discard_buffer(made, 0)
            raise
        return call, outputs

    def start_run(
        self, plan: ExecutePlan, args: bytes, fields: bytes, rest: bytes, bulk: bytes, until: float | None
    ) -> tuple[RunCall, list[bytes]]:
        """Begins a run; returns its call and the ids of the outputs that are kept."""
        call = RunCall()
        outputs: list[bytes] = []
        try:
            if not self._outbox.start_run(call, plan, args, fields, rest, bulk, timeouts.remaining_ns(until), outputs):
                self._waiter.drain(until)
        except BaseException:
            self._abandon(call)
            for made in outputs if call.id else ():
                self._outbox.discard_buffer(made, 0)
            raise
        return call, outputs

    @property
    def is_crowded(self) -> bool:
        """Whether the next call waits until earlier ones have ended."""
        return self._outbox.quiet >= self._quiet_step

    def make_room(self) -> None:
        """Waits where the connection is crowded."""
        if self.is_crowded:
            self._checkpoint(timeouts.current.get())

    def start_download(
        self, buffer: bytes, size: int, destination: memoryview | None, until: float | None, wait: bool = True
    ) -> Call:
        """Asks for a buffer's data: it comes into `destination`, or becomes call.bulk where that is None and the data fits
        into a frame."""
        call = Call(_DOWNLOAD, size)
        call.destination = destination
        call.granted = frame.DOWNLOAD_CREDIT_BYTES
        return self.start(call, b"\x08" + buffer, until, wait=wait)

    def watcher(self) -> Watcher:
        """Who sees to futures that nobody waits for."""
        if self._watcher is None:
            from .watcher import Watcher

            self._watcher = Watcher(self._waiter)
        return self._watcher

    # ---- quiet calls ----

    def upload(self, rest: bytes, data: bytes | memoryview, until: float | None) -> bytes:
        """Makes a buffer of `data` and returns its id. `rest` is the UploadRequest after its first field. All of the
        data is out, or copied, when it returns; the daemon's own opinion shows at the buffer's first use."""
        if self._outbox.quiet >= self._quiet_step:
            self._checkpoint(until)
        call = Call(methods.BUFFER_UPLOAD)
        # Where the link may be lost and come back, the data is needed until the daemon has all of it.
        flags = frame.QUIET if not self._table.resumes or len(data) <= self.max_inline_bytes else 0
        try:
            generation = self.generation
            self._create(call, self._outbox.buffers, rest, data, flags, until)
            self._check_generation(generation)
            self._table.calls.pop(call.id, None)
            if call.error is not None:
                raise call.error
            return call.made
        except BaseException:
            self._abandon(call)
            if call.made:
                self._outbox.discard_buffer(call.made, 0)
            raise

    def _create(
        self, call: Call, ids: IdSequence, rest: bytes, data: bytes | memoryview, flags: int, until: float | None
    ) -> None:
        """Sends a request that makes something, and its bulk: as ITEM frames under the daemon's credit where it does
        not fit into the request, until it has gone or the call has failed."""
        deadline_ns = timeouts.remaining_ns(until)
        size = len(data)
        if size <= self.max_inline_bytes:
            if not self._outbox.send(call, rest, deadline_ns, bytes(data), flags, ids):
                self._waiter.drain(until)
        else:
            call.streams = True
            if not self._outbox.send(call, rest, deadline_ns, b"", flags, ids):
                self._waiter.drain(until)
            view = memoryview(data)
            sent = 0
            while not call.done:
                if call.restart is not None:
                    sent, call.restart = call.restart, None
                room = call.credit - sent
                if sent == size:
                    if flags or not self._table.resumes:
                        break
                    self._waiter.wait(call, until, NEVER)
                elif room > 0:
                    count = min(self.max_item_bytes, room, size - sent)
                    out = self._outbox.send_item(call, view[sent : sent + count])
                    if out is None:
                        continue
                    sent += count
                    if not out:
                        self._waiter.drain(until)
                else:
                    self._waiter.wait(call, until, sent)

    def execute(self, plan: ExecutePlan, args: bytes, inline: bytes, bulk: bytes, until: float | None) -> list[bytes]:
        """Runs a program without waiting for it and returns the ids of its outputs. The arguments are Outbox.execute's;
        what goes wrong shows when an output is used."""
        if self._outbox.quiet >= self._quiet_step:
            self._checkpoint(until)
        outputs: list[bytes] = []
        generation = self.generation
        try:
            deadline_ns = 0 if until is None else timeouts.remaining_ns(until)
            if not self._outbox.execute(plan, args, inline, bulk, deadline_ns, outputs):
                self._waiter.drain(until)
                self._check_generation(generation)
        except BaseException:
            for made in outputs:
                self._outbox.discard_buffer(made, 0)
            raise
        return outputs

    def post(self, method: int, payload: bytes, until: float | None) -> None:
        """Makes a quiet call that makes nothing. What goes wrong shows in sync, or where it is used."""
        if self._outbox.quiet >= self._quiet_step:
            self._checkpoint(until)
        generation = self.generation
        deadline_ns = 0 if until is None else timeouts.remaining_ns(until)
        if not self._outbox.post(method, payload, deadline_ns):
            self._waiter.drain(until)
            self._check_generation(generation)

    def _check_generation(self, generation: int) -> None:
        """Raises SessionLost where a request was made for a session that was lost before it got there."""
        if self.generation != generation:
            raise session_lost()

    def lookup(self, name: bytes, until: float | None) -> bytes:
        """A new id for what a slot holds now; `name` is slot.wire_name's. What goes wrong shows when it is used."""
        call = Call(methods.SESSION_LOOKUP)
        try:
            if not self._outbox.send_lookup(call, name, timeouts.remaining_ns(until)):
                self._waiter.drain(until)
        except BaseException:
            if call.made:
                self._outbox.discard_buffer(call.made, 0)
            raise
        return call.made

    def sync(self, until: float | None) -> None:
        """Waits until everything that was sent has ended, and raises the first failure of a quiet call that nobody
        has been told of."""
        call = self.request(methods.SESSION_SYNC, b"", until)
        self._table.forget_before(call)
        if self._table.resumes:
            self._hear(call)
        failure = self._table.quiet_failure
        self._table.quiet_failure = None
        if failure is not None:
            raise failure[1].again()

    def _hear(self, sync: Call) -> None:
        """Notes the failure that a Sync tells of, where the frame that told of it was lost with a connection."""
        from ._proto.session import SyncReply

        table = self._table
        heard = table.heard
        table.heard = {number for number in heard if number > sync.id}
        reply = read_answer(SyncReply, sync.payload)
        if reply.error is not None and reply.failed_call not in heard and table.quiet_failure is None:
            table.quiet_failure = (reply.failed_call, from_wire(reply.error))

    def _checkpoint(self, until: float | None) -> None:
        """Keeps the number of quiet calls under way within the daemon's limit: after every step a Sync is sent, and
        no more than two may be unanswered before the next step begins."""
        call = Call(methods.SESSION_SYNC)
        self._outbox.quiet = 0
        all_out = self._outbox.send(call, b"", 0)
        self._checkpoints.append(call)
        if not all_out:
            self._waiter.drain(until)
        while len(self._checkpoints) > 2:
            oldest = self._checkpoints[0]
            self._waiter.wait(oldest, until, NEVER)
            self._table.forget_before(oldest)
            if self._table.resumes and oldest.error is None:
                self._hear(oldest)
            try:
                self._checkpoints.remove(oldest)
            except ValueError:
                pass  # another thread did
            if self._table.end is not None:
                raise self._table.end.again()

    # ---- the end ----

    @property
    def failure(self) -> PjrtError | None:
        """Why the connection cannot be used any more, or None."""
        return self._table.end

    @property
    def target(self) -> str:
        return self._transport.target

    def close(self, timeout_s: float) -> None:
        """Ends the connection, and its session unless that is kept, giving the daemon `timeout_s` seconds to get what was
        sent, or to free what it holds."""
        if self._table.failure is None and timeout_s and self.kept is not None:
            try:
                self.request(methods.INFO, b"", monotonic() + timeout_s)
            except PjrtError:
                pass
        elif self._table.end is None and timeout_s:
            try:
                self.request(methods.SESSION_CLOSE, b"", monotonic() + timeout_s)
            except PjrtError:
                pass  # the daemon frees everything when the connection goes, too
        if self.kept is not None:
            self.send_held()
        self._table.fail(HandleClosed("the client is closed"))
        _live.discard(self)
        self._waiter.close_transport()
        if self._replaced is not None:
            self._replaced.close()

    def send_held(self) -> None:
        """Sends what is held back, as far as that is possible at once: nothing follows that would."""
        try:
            if self._outbox.holds_something:
                self._outbox.flush()
        except PjrtError:
            pass  # who asks is told

    def close_in_child(self) -> None:
        """In a forked child: gives up this process's copy of the descriptor. The parent's session is not touched."""
        self._table.suspended = False
        self._table.failure = FailedPrecondition(
            f"this client belongs to process {self._pid}, and this is its forked child {getpid()}",
            hint="connect in the child with Client.create(); buffers and programs stay with the parent",
        )
        self._table.calls.clear()
        self._outbox.reset_in_child()
        self._waiter.reset_in_child()
        self._transport.close()
        if self._replaced is not None:
            self._replaced.close()


def _check_limits(reply: HelloReply) -> None:
    if not frame.PROTOCOL_MIN <= reply.version <= frame.PROTOCOL_MAX:
        raise Internal(
            f"the daemon chose protocol {reply.version}; this client speaks {frame.PROTOCOL_MIN} to {frame.PROTOCOL_MAX}"
        )
    if not reply.max_item_bytes or not reply.upload_credit_bytes or reply.id_prefix >> 16:
        raise Internal("the daemon's limits make no sense", hint="is it another program's socket?")


def _watch_forks(connection: Connection) -> None:
    global _fork_hook_is_set
    _live.add(connection)
    if not _fork_hook_is_set:
        import atexit
        import os

        _fork_hook_is_set = True
        atexit.register(_send_all_held)
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )


def _send_all_held() -> None:
    """The interpreter goes down, and takes the threads with it that would have sent it."""
    for connection in tuple(_live):
        connection.send_held()


# Modules that are imported when they are first needed.
_ON_DEMAND = (
    *("_proto.admin", "_proto.buffer", "_proto.frame", "_proto.program", "_proto.runtime"),
    *("compile_options", "dlpack", "element", "memory", "plugin"),
    *("grpc_failures", "grpc_transport", "late_sender", "local_transport"),
    *("_proto.session", "revival", "named_program", "publication", "session", "session_info", "tokens", "future", "watcher", "value", "submitted", "run", "progress", "aio"),
)


def _before_fork() -> None:
    """A child that is forked while another thread imports a module can never import it: its lock stays taken. So there
    is nothing left to import when a process with connections forks."""
    from importlib import import_module

    for name in _ON_DEMAND:
        import_module(f"{__package__}.{name}")
    if target.tls_is_used:  # `ssl` costs more than all of the above
        from .grpcs_transport import openssl_lock

        openssl_lock.acquire()  # OpenSSL has locks of its own, which stay taken in the child where a thread holds one
        _held_in_fork.append(openssl_lock)


def _after_fork_in_parent() -> None:
    while _held_in_fork:
        _held_in_fork.pop().release()


def _after_fork_in_child() -> None:
    _after_fork_in_parent()
    for connection in tuple(_live):
        connection.close_in_child()
    _live.clear()
