"""Makes a lost connection anew and goes on with its session where it was cut.

One thread does it, started by the first call that needs the link, and gone when it is back. No signal handler comes
into that thread, and nobody else sends or receives until it is done, so it can do one step after the other. What the
daemon has of the calls under way, and what of the answers is to be asked for again, is the outbox's: `Outbox.resume`.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from time import monotonic, sleep

from . import frame
from ._proto import methods
from ._version import __version__
from .call import Call, read_answer
from .errors import Aborted, AlreadyExists, DeadlineExceeded, HandleClosed, Internal, NotFound, PjrtError, SessionLost, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ._proto.runtime import HelloReply
    from ._proto.session import PendingCall
    from ._proto.wire import Message
    from .connection import Connection
    from .transport import Transport

    M = TypeVar("M", bound=Message)

#: How long one attempt may take, and the pauses between two, in seconds.
ATTEMPT_S = 5.0
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


class KeptSession:
    """What is needed to come back to a session: its token, or to begin it again: its name ("" for none) and lease."""

    __slots__ = ("name", "token", "ttl_ns", "epoch", "prefix", "conversation", "times_lost")

    def __init__(self, name: str, token: str, ttl_ns: int, epoch: int, prefix: int, conversation: int) -> None:
        self.name = name
        self.token = token
        self.ttl_ns = ttl_ns
        self.epoch = epoch
        self.prefix = prefix
        self.conversation = conversation
        self.times_lost = 0


class Reviver:
    """See the module. `open` makes a connected transport within so many seconds; `reconnect_s`: for how long it is
    tried."""

    __slots__ = ("_connection", "_open", "_reconnect_s", "_kept", "_on_lost", "_running", "_guard")

    def __init__(
        self,
        connection: Connection,
        open: Callable[[float], Transport],
        reconnect_s: float,
        kept: KeptSession,
        on_lost: Callable[[], None],
    ) -> None:
        """on_lost: called, in the thread, when the session is gone and another has begun in its place."""
        self._connection = connection
        self._open = open
        self._reconnect_s = reconnect_s
        self._kept = kept
        self._on_lost = on_lost
        self._running = False
        self._guard = allocate_lock()

    def see_to_it(self) -> None:
        """Starts the thread unless it runs."""
        if self._running:
            return
        with self._guard:
            if self._running:
                return
            self._running = True
            started = False
            try:
                start_new_thread(self._run, ())
                started = True
            finally:
                if not started:
                    self._running = False

    def _run(self) -> None:
        table = self._connection.table
        try:
            give_up = monotonic() + self._reconnect_s
            pause = FIRST_PAUSE_S
            while table.suspended and table.failure is not None:
                try:
                    self._attempt(min(ATTEMPT_S, max(0.1, give_up - monotonic())))
                except (Unavailable, DeadlineExceeded) as error:
                    if monotonic() + pause > give_up:
                        error.message = f"{error.message} (tried for {self._reconnect_s:g} s)"
                        table.give_up(error)
                        return
                    sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE_S)
                except PjrtError as error:
                    table.give_up(error)
        except Exception as error:  # nobody is there to see it: whoever waits is told
            table.give_up(Internal(f"the connection was lost, and making it anew failed: {error!r}"))
        finally:
            self._running = False

    def _attempt(self, limit_s: float) -> None:
        connection, table = self._connection, self._connection.table
        until = monotonic() + limit_s
        transport = self._open(limit_s)
        installed = False
        try:
            with connection.waiter.hold():
                if not table.suspended:
                    return
                connection.install(transport)
                installed = True
                try:
                    hello, last_call = self._greet(until)
                    if not table.suspended:
                        return
                    if last_call is not None:
                        connection.go_on(hello)
                    connection.outbox.resume(*(last_call or (0, {})))
                except PjrtError:
                    transport.shut_down()
                    raise
            if last_call is None:
                self._on_lost()
        finally:
            if not installed:
                transport.close()

    def _greet(self, until: float) -> tuple[HelloReply, tuple[int, dict[int, PendingCall]] | None]:
        """Says hello and attaches. None for the calls to go on with where the session was lost, and is another now."""
        from ._proto.runtime import HelloReply, HelloRequest
        from ._proto.session import SessionAttachReply, SessionAttachRequest

        kept = self._kept
        name = f"pjrtd-python {__version__}"
        hello = HelloRequest(frame.PROTOCOL_MIN, frame.PROTOCOL_MAX, name, frame.DOWNLOAD_CREDIT_BYTES, True)
        greeting = self._ask(methods.HELLO, hello, HelloReply, until)
        attach = SessionAttachRequest(token=kept.token, resume=True, id_prefix=kept.prefix, conversation=kept.conversation)
        try:
            reply = self._ask(methods.SESSION_ATTACH, attach, SessionAttachReply, until)
        except NotFound as error:
            self._begin_again(greeting, error, until)
            return greeting, None
        return greeting, (reply.last_call, {each.call: each for each in reply.pending})

    def _begin_again(self, greeting: HelloReply, why: NotFound, until: float) -> None:
        """The session is gone: another one takes its place."""
        from ._proto.session import SessionAttachReply, SessionAttachRequest, SessionOpenReply, SessionOpenRequest

        kept, connection = self._kept, self._connection
        if connection.kept is None:
            raise HandleClosed("the session was ended")
        restarted = greeting.server_epoch != kept.epoch
        try:
            if restarted and kept.name and connection.target.startswith("unix:"):
                # It may be there already: made by an attempt whose answer was lost.
                attach = SessionAttachRequest(kept.name, create=True, ttl_ns=kept.ttl_ns)
                session = self._ask(methods.SESSION_ATTACH, attach, SessionAttachReply, until)
            else:
                opening = SessionOpenRequest(kept.name, kept.ttl_ns)
                opened = self._ask(methods.SESSION_OPEN, opening, SessionOpenReply, until)
                session = SessionAttachReply(
                    token=opened.token,
                    id_prefix=greeting.id_prefix,
                    conversation=opened.conversation,
                    home_device=greeting.home_device,
                )
        except AlreadyExists:
            raise Aborted(
                f"another connection took the session {kept.name!r} over while this one was lost",
                hint="attach with join=True to share a session",
            ) from why
        lost = SessionLost(
            "the daemon was restarted: what the session held is gone, and it began anew"
            if restarted
            else "the session's lease ended, or it was closed: what it held is gone, and it began anew",
            hint="slots with loaders are loaded again when a program names them",
        )
        kept.token, kept.epoch, kept.prefix = session.token, greeting.server_epoch, session.id_prefix
        kept.conversation = session.conversation
        kept.times_lost += 1
        connection.begin_again(greeting, session, lost)

    def _ask(self, method: int, request: Message, kind: type[M], until: float) -> M:
        connection, table = self._connection, self._connection.table
        call = Call(method)
        call.id = connection.outbox.take_call()
        table.calls[call.id] = call
        transport = table.transport
        try:
            transport.write(transport.pack(frame.REQUEST, method, call.id, request.encode()))
            connection.waiter.read_alone(call, until)
        finally:
            table.calls.pop(call.id, None)
        if call.error is not None:
            raise call.error
        return read_answer(kind, call.payload)
