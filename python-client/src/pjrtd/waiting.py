"""Who reads a connection while several threads wait on it, and how long.

One thread reads for everybody: the one that holds the lock, also while it sleeps in poll. The others sleep on their
call's gate, and are woken when their answer has come or when they should take over the reading. A thread that cannot
send, because the socket is full or the daemon's window is, reads meanwhile, so both sides' being full is no deadlock.

Whatever a signal handler raises leaves all this usable. So a lock that is not taken by `with` is acquired by
`held.extend(map(lock.acquire, (False,)))`: one call of a C function, which no signal can come into, takes it and
records that. The order of locks is this one, then the outbox's.
"""

from __future__ import annotations

import select
from _thread import allocate_lock, get_ident
from os import sched_yield
from time import monotonic

from . import timeouts
from ._proto.wire import DecodeError
from .call import Call
from .errors import DeadlineExceeded, FailedPrecondition, Internal, PjrtError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType

    from .call import CallTable
    from .inbox import Inbox
    from .outbox import Outbox
    from .transport import Transport

# A thread that sleeps on its gate looks again this often, so that a promotion that a signal cut off costs a moment.
_GATE_S = 0.1
_DRAIN_MS = 10
_MAX_SPIN_SKIPS = 256
# A processor that was given away for this long is one that others need.
_CROWDED_S = 0.0005
_TRY = (False,)
_IN_HANDLER = "a signal handler waits on a pjrtd client while the code that it interrupted does"
_IN_HANDLER_HINT = "set a flag in the handler and act on it afterwards"
_POLL_IN = select.POLLIN
_POLL_OUT = select.POLLOUT
_POLL_READ = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL


class Waiter:
    """See the module. Any thread may use it."""

    __slots__ = (
        *("_transport", "_table", "_outbox", "_inbox", "_lock", "_acquire", "_reader", "_parked", "_draining", "_poll"),
        *("_events", "_spin_s", "_spin_misses", "_spin_skips"),
    )

    def __init__(self, transport: Transport, table: CallTable, outbox: Outbox, inbox: Inbox, spin_s: float) -> None:
        """spin_s: for how long a wait polls before it sleeps, in seconds."""
        self._transport = transport
        self._table = table
        self._outbox = outbox
        self._inbox = inbox
        self._lock = allocate_lock()
        self._acquire = self._lock.acquire
        self._reader = 0  # the thread that holds the lock
        self._parked: list[Call] = []
        self._draining: list[Call] = []  # of threads that wait until the backlog is out
        self._poll = select.poll()
        self._events = _POLL_IN
        self._poll.register(transport.fileno(), _POLL_IN)
        self._spin_s = spin_s
        self._spin_misses = 0
        self._spin_skips = 0

    def wait(self, call: Call, until: float | None, credit: int) -> None:
        """Returns when the call is done, may have sent more than `credit` bytes, or has to send some again. Raises DeadlineExceeded if by
        `until` (time.monotonic seconds) and some grace the daemon has not answered."""
        while not (call.done or call.credit > credit or call.restart is not None):
            if self._table.failure is not None:
                self._recover(until)
                continue
            held: list[bool] = []
            try:
                held.extend(map(self._acquire, _TRY))
                if held[0]:
                    self._reader = get_ident()
                    self._read_for(call, until, credit)
                else:
                    self._park(call, until)
            finally:
                if held and held[0]:
                    self._reader = 0
                    self._lock.release()
                if self._parked:
                    self._promote()
            if until is not None and not call.done and monotonic() > until + timeouts.GRACE_S:
                raise DeadlineExceeded(
                    "the deadline passed, and the daemon did not answer in time either",
                    hint="the device may be busy or stuck; `pjrtctl stats` tells",
                )

    def drain(self, until: float | None) -> None:
        """Sends the backlog, and reads while the daemon does not take it. No lock is held on entry."""
        while not self._outbox.flush():
            if self._table.failure is not None:
                self._recover(until)
                continue
            transport = self._transport
            held: list[bool] = []
            try:
                held.extend(map(self._acquire, _TRY))
                blocked = transport.blocked
                if held[0] or blocked:
                    poller = select.poll()
                    poller.register(transport.fileno(), (_POLL_IN if held[0] else 0) | (_POLL_OUT if blocked else 0))
                    # Without the lock somebody else reads, but may stop to at any moment.
                    events = poller.poll((0 if transport.unfinished else 1000) if held[0] else _DRAIN_MS)
                    if held[0]:
                        self._reader = get_ident()
                        if transport.unfinished or events and events[0][1] & _POLL_READ:
                            self._receive()
                        elif not events and transport.keepalive_s:
                            self._outbox.keep_alive()
                else:
                    self._park_for_room(until)
            finally:
                if held and held[0]:
                    self._reader = 0
                    self._lock.release()
                if self._parked:
                    self._promote()
            if until is not None and monotonic() > until + timeouts.GRACE_S:
                raise DeadlineExceeded("the deadline passed while the daemon was not reading")

    def _park_for_room(self, until: float | None) -> None:
        """Sleeps until another thread, which reads, has heard that the daemon takes more, and has sent the backlog."""
        room = Call(0)
        try:
            self._draining.append(room)
            if self._transport.backlog:
                self._park(room, until)
        finally:
            self._draining.remove(room)

    def _send_on(self) -> bool:
        """Sends the backlog while reading; whether all of it is out."""
        all_out = self._outbox.flush()
        if all_out and self._draining:
            for room in tuple(self._draining):
                room.done = True
                room.notify()
        return all_out

    def _read_for(self, call: Call, until: float | None, credit: int) -> None:
        """Reads, for everybody, until the call has what it waits for or its time is over."""
        transport = self._transport
        poll = self._poll.poll
        if transport.unfinished:
            self._receive()
        if self._spin_s and not call.patient:
            if self._spin_skips > 0:
                self._spin_skips -= 1
            else:
                stop = monotonic() + self._spin_s
                while True:
                    if poll(0):
                        try:
                            transport.receive(self._inbox)
                        except (PjrtError, DecodeError) as error:
                            self._failed(error)
                        if call.done or call.credit > credit or self._table.failure is not None:
                            self._spin_misses = 0
                            return
                        if transport.backlog:
                            self._send_on()
                    else:
                        # Between two attempts the processor is for others that want it, such as the daemon. Where one
                        # keeps it for long, sleeping is better: who sleeps is woken at once, who yields comes last.
                        now = monotonic()
                        if now > stop:
                            break
                        sched_yield()
                        if monotonic() - now > _CROWDED_S:
                            self._spin_misses = max(self._spin_misses, 3)
                            break
                # Waiting in vain costs others the processor: try less and less often until it pays again.
                self._spin_misses += 1
                if self._spin_misses >= 4:
                    self._spin_skips = min(1 << self._spin_misses - 3, _MAX_SPIN_SKIPS)
        keepalive_s = transport.keepalive_s
        while not (call.done or call.credit > credit or self._table.failure is not None):
            wanted = _POLL_IN
            if transport.backlog and not self._send_on() and transport.blocked:
                wanted = _POLL_IN | _POLL_OUT
            if wanted != self._events:
                self._poll.modify(transport.fileno(), wanted)
                self._events = wanted
            if until is None:
                events = poll(keepalive_s * 1000) if keepalive_s else poll()
            else:
                left_s = until + timeouts.GRACE_S - monotonic()
                if left_s <= 0:
                    return
                events = poll((min(left_s, keepalive_s) if keepalive_s else left_s) * 1000 + 1)
            if not events:
                if keepalive_s:
                    self._outbox.keep_alive()
            elif events[0][1] & _POLL_READ:
                self._receive()

    def _recover(self, until: float | None) -> None:
        """Waits until a lost connection is back, or raises why it cannot be used."""
        if self._reader == get_ident() and self._table.suspended:
            raise FailedPrecondition(_IN_HANDLER, hint=_IN_HANDLER_HINT)
        self._table.recover(until)

    def install(self, transport: Transport) -> None:
        """What is read from here on comes over another link. With the lock held."""
        self._transport = transport
        self._poll = select.poll()
        self._events = _POLL_IN
        self._poll.register(transport.fileno(), _POLL_IN)

    def hold(self) -> LockType:
        """The lock of who reads."""
        return self._lock

    def read_alone(self, call: Call, until: float) -> None:
        """Reads until the call is done, for it alone. With the lock held, while nobody else sends or reads. Raises the
        failure of the link."""
        transport = self._transport
        while not call.done:
            all_out = transport.flush()
            poller = select.poll()
            poller.register(transport.fileno(), _POLL_IN if all_out or not transport.blocked else _POLL_IN | _POLL_OUT)
            left_s = until - monotonic()
            if left_s <= 0:
                raise DeadlineExceeded("the daemon does not answer in time")
            if transport.unfinished or poller.poll(left_s * 1000 + 1):
                try:
                    transport.receive(self._inbox)
                except DecodeError as error:
                    raise Internal(f"the daemon sent a broken message: {error}") from error

    def look(self) -> None:
        """Reads what is there, without waiting, unless somebody else reads."""
        held: list[bool] = []
        try:
            held.extend(map(self._acquire, _TRY))
            if held[0]:
                self._reader = get_ident()
                transport = self._transport
                while self._table.failure is None and (transport.unfinished or self._poll.poll(0)):
                    if transport.backlog:
                        self._send_on()
                    self._receive()
        finally:
            if held and held[0]:
                self._reader = 0
                self._lock.release()
            if self._parked:
                self._promote()

    def _receive(self) -> None:
        """Reads once what is there. A broken connection ends every call."""
        try:
            self._transport.receive(self._inbox)
        except (PjrtError, DecodeError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, PjrtError):
            error = Internal(f"the daemon sent a broken message: {error}")
        self._table.fail(error)

    def _park(self, call: Call, until: float | None) -> None:
        """Sleeps while another thread reads."""
        if self._reader == get_ident():
            raise FailedPrecondition(_IN_HANDLER, hint=_IN_HANDLER_HINT)
        gate = allocate_lock()
        gate.acquire()
        call.gate = gate
        try:
            self._parked.append(call)
            if not call.done and self._lock.locked():  # looked at again, now that the reader can see us
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
        if self._lock.locked():
            return
        for call in tuple(self._parked):
            if call.gate is not None:
                call.notify()
                if not call.done:
                    return

    def read_last_words(self, error: PjrtError) -> None:
        """Ends the connection after a send failed: for the reason that the daemon gave before it closed it, where it gave
        one, or that the receiving side knows."""
        if self._table.failure is not None:
            return
        held: list[bool] = []
        try:
            held.extend(map(self._acquire, _TRY))
            if held[0]:
                try:
                    while self._table.failure is None and self._transport.receive(self._inbox):
                        pass
                except PjrtError as last:
                    error = last
                except DecodeError:
                    pass
        finally:
            if held and held[0]:
                self._lock.release()
        self._table.fail(error)

    def close_transport(self) -> None:
        """Frees the descriptor once nobody reads. A signal handler that interrupted the reader cannot wait for that:
        then it goes with the transport."""
        if self._reader != get_ident():
            with self._lock:
                self._transport.close()

    def reset_in_child(self) -> None:
        """After a fork: threads that the child does not have may have held the lock, or sleep."""
        self._lock = allocate_lock()
        self._acquire = self._lock.acquire
        self._reader = 0
        self._parked.clear()
        self._draining.clear()
