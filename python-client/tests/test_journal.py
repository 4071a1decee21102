"""What is remembered of a connection that can be resumed, and what is made of it when the link is back."""

from __future__ import annotations

from pjrtd._proto import methods
from pjrtd._proto.session import PendingCall
from pjrtd.call import Call, CallTable
from pjrtd.errors import Aborted, Unavailable
from pjrtd.frame import QUIET
from pjrtd.ids import BELOW_PREFIX, IdSequence
from pjrtd.journal import Journal, ask_again
from pjrtd.outbox import Outbox


class Link:
    """A transport that keeps what is written: (call, method) of each request, by the fake `pack`."""

    held = False
    backlog = ()
    writes = 0

    def __init__(self) -> None:
        self.sent: list[str] = []

    def pack(self, kind, method, call, payload=b"", bulk_bytes=0, flags=0, deadline_ns=0) -> bytes:  # type: ignore[no-untyped-def]
        return f"{kind}:{call}:{payload.hex()};".encode()

    def write(self, first: bytes, *more: bytes) -> bool:
        self.sent += [each for each in first.decode("latin-1").split(";") if each]
        self.writes += 1
        return True

    def write_later(self, first: bytes) -> bool:
        return self.write(first)

    def shut_down(self) -> None:
        pass


def outbox() -> tuple[Outbox, CallTable, Link]:
    link = Link()
    table = CallTable(link)  # type: ignore[arg-type]
    made = Outbox(link, table)  # type: ignore[arg-type]
    table.resumes = True
    made.keep_journal()
    return made, table, link


def break_and_renew(made: Outbox, table: CallTable) -> Link:
    table.fail(Unavailable("cut"))
    assert table.suspended
    fresh = Link()
    made.install(fresh)  # type: ignore[arg-type]
    return fresh


def test_only_what_the_daemon_has_not_got_is_sent_again_in_order() -> None:
    made, table, _ = outbox()
    for number in range(1, 6):
        made.post(methods.EXECUTE, bytes([number]), 0)
    fresh = break_and_renew(made, table)
    made.post(methods.EXECUTE, bytes([6]), 0)
    assert fresh.sent == [], "nothing goes out before the link is back"
    made.take_call()
    made.resume(3, {})
    assert fresh.sent == ["1:8:04", "1:9:05", "1:10:06"], "under new call ids, above all others"
    table.failure = None
    again = break_and_renew(made, table)
    made.resume(9, {})
    assert again.sent == ["1:11:06"]


def test_what_was_acknowledged_is_forgotten() -> None:
    journal = Journal()
    for number in range(1, 200):
        journal.add(number, methods.EXECUTE, b"", b"", QUIET, None, None, number - 5)
        assert len(journal.entries) <= 70
    assert journal.entries[-1][0] == 199


def test_what_is_acknowledged_without_a_link_forgets_nothing() -> None:
    """It is of the next link, whose first calls have higher ids than what is still to be sent."""
    made, table, _ = outbox()
    for _ in range(100):
        made.post(methods.EXECUTE, b"", 0)
    fresh = break_and_renew(made, table)
    table.acked = 1000
    made.post(methods.EXECUTE, b"", 0)
    made.resume(40, {})
    assert len(fresh.sent) == 61


def test_calls_are_pending_lost_or_sent_again() -> None:
    made, table, _ = outbox()
    stat, pending, execute, compiled, late = (
        Call(methods.BUFFER_STAT), Call(methods.BUFFER_STAT), Call(methods.EXECUTE), Call(methods.PROGRAM_COMPILE), Call(methods.EXECUTE),
    )  # fmt: skip
    compiled.made = b"\x07"
    for call in (stat, pending, execute, compiled, late):
        made.send(call, b"\x01", 0)
    fresh = break_and_renew(made, table)
    made.resume(4, {2: PendingCall(2)})
    assert execute.done and execute.answer_lost and execute.error is None
    assert not pending.done and table.calls[2] is pending
    assert compiled.method == methods.PROGRAM_DESCRIBE
    assert fresh.sent == [f"1:{stat.id}:01", f"1:{compiled.id}:0807", f"1:{late.id}:01"]
    assert table.calls == {2: pending, stat.id: stat, compiled.id: compiled, late.id: late}


def test_an_upload_goes_on_or_begins_again() -> None:
    made, table, _ = outbox()
    made.upload_credit_bytes = 100
    half, unknown = Call(methods.BUFFER_UPLOAD), Call(methods.BUFFER_UPLOAD)
    for call in (half, unknown):
        call.streams = True
        made.send(call, b"", 0)
    break_and_renew(made, table)
    made.resume(1, {1: PendingCall(1, 30, 50)})
    assert (half.restart, half.credit) == (30, 80)
    assert (unknown.restart, unknown.credit) == (0, 100)
    assert made.send_item(half, memoryview(b"x")) is None, "what comes next has changed"


def test_an_abandoned_call_is_cancelled_again() -> None:
    made, table, _ = outbox()
    kept, gone = Call(methods.EXECUTE), Call(methods.BUFFER_DOWNLOAD, 10)
    for call in (kept, gone):
        made.send(call, b"", 0)
        call.abandoned = True
    fresh = break_and_renew(made, table)
    made.resume(2, {1: PendingCall(1)})
    assert fresh.sent == ["6:1:"] and 2 not in table.calls
    assert ask_again(gone) == []


def test_what_ends_a_connection_for_good() -> None:
    _, table, _ = outbox()
    call = Call(methods.BUFFER_STAT)
    table.calls[1] = call
    table.fail(Unavailable("cut"))
    assert table.end is None and not call.done
    table.fail(Aborted("another took over"))
    assert isinstance(table.end, Aborted) and isinstance(call.error, Aborted)
    table.fail(Unavailable("cut"))
    assert isinstance(table.end, Aborted), "the first reason stays"


def test_a_new_session_forgets_the_old_one() -> None:
    made, table, _ = outbox()
    made.buffers = IdSequence(3)
    old = [made.buffers.take() for _ in range(5)]
    made.post(methods.EXECUTE, b"", 0)
    fresh = break_and_renew(made, table)
    made.begin_again(1, 2, 0)
    table.failure, table.suspended = None, False
    assert made.buffers.next == 1 << 48 | 6, "above all ids of before"
    new = made.buffers.take()
    made.discard_buffer(old[0], 1 << 21)
    assert fresh.sent == []
    made.discard_buffer(new, 1 << 21)
    assert len(fresh.sent) == 1 and fresh.sent[0].endswith(new.hex())


def test_ids_go_on_above_a_number() -> None:
    ids = IdSequence(2, 2 << 48 | 40)
    assert ids.next == 2 << 48 | 41 and ids.above == 40
    assert IdSequence(0, 7).take() == b"\x08" and BELOW_PREFIX == (1 << 48) - 1
