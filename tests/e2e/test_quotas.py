"""Quotas of sessions and of identities: what is refused, what the error says, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

import pjrtd
from daemon import PATIENCE, Daemon
from fake_plugin import FakeDaemon, program
from raw_frames import RESOURCE_EXHAUSTED, CallFailed, RawClient
from test_pjrtctl import ctl

KIB, MIB = 1 << 10, 1 << 20
SESSION, IDENTITY = 4 * MIB, 6 * MIB
DAEMON_SETTINGS = dict(max_session_device_bytes=SESSION, max_identity_device_bytes=IDENTITY)
RUN_OVER = ["unix", "channel"]

DOUBLE = """
func.func @main(%a: tensor<262144xf32>{attribute}) -> tensor<262144xf32> {{
  %0 = stablehlo.add %a, %a : tensor<262144xf32>
  return %0 : tensor<262144xf32>
}}
"""
DONATES = " {tf.aliasing_output = 0 : i32}"
# 1 MiB, made on the device; and slow, so that two of them are under way together.
SLOW = """
func.func @main(%n: tensor<i32>) -> tensor<262144xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.while(%x = %n) : tensor<i32> cond {
    %t = stablehlo.compare NE, %x, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %m = stablehlo.subtract %x, %one : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }
  %f = stablehlo.convert %0 : (tensor<i32>) -> tensor<f32>
  %1 = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<262144xf32>
  return %1 : tensor<262144xf32>
}
"""


def ramp(count: int) -> bytes:
    return struct.pack(f"<{count}f", *(i % 1000 for i in range(count)))


DATA = ramp(262144)  # 1 MiB


def megabytes(client: RawClient, count: int) -> list[int]:
    return [client.upload("f32", [262144], DATA) for _ in range(count)]


def refused(failed: CallFailed, *words: str) -> CallFailed:
    assert failed.code == RESOURCE_EXHAUSTED, failed
    for word in words:
        assert word in failed.message, failed.message
    return failed


def quotas(client: RawClient) -> dict[str, Any]:
    (own,) = (at for at in client.call("Session.List").sessions if at.own)
    return {quota.setting: quota for quota in own.quotas}


def used(client: RawClient, setting: str = "max_session_device_bytes") -> int:
    return int(quotas(client)[setting].used)


def becomes(value: int, of: Any) -> None:
    give_up = time.monotonic() + 20 * PATIENCE
    while of() != value:
        assert time.monotonic() < give_up, f"{of()}, not {value}"
        time.sleep(0.01)


# -- device bytes of a session ---------------------------------------------------


def test_a_session_has_all_that_it_may_and_no_more(balanced: None, bystander: object, client: RawClient) -> None:
    buffers = megabytes(client, 3)
    small = client.upload("f32", [2], bytes(8))
    refusal = client.start_upload("f32", [262144], DATA)
    failed = refused(client.failure_of(refusal[1]), "the upload needs 1.00 MiB of device memory",
                     "the session has 3.00 MiB of the 4.00 MiB that it may", "the biggest: buffer")
    error = failed.detail
    assert (error.quota.setting, error.quota.used, error.quota.allowed, error.needed) == (
        "max_session_device_bytes", 3 * MIB + 8, SESSION, MIB)
    assert [of.bytes for of in error.biggest] == [MIB, MIB, MIB, 8]
    assert sorted(of.buffer for of in error.biggest) == sorted([*buffers, small])
    assert {of.type for of in error.biggest} == {"f32[262144]", "f32[2]"} and {of.device for of in error.biggest} == {0}
    assert error.hint == "delete some, or raise max_session_device_bytes"
    assert used(client) == 3 * MIB + 8, "what was refused takes nothing"
    # Its id is poisoned with the same, and the others are what they were.
    later = client.failure("Buffer.Download", buffer=refusal[0])
    assert later.code == RESOURCE_EXHAUSTED and later.detail.origin_call == refusal[1] and later.message == failed.message
    assert client.download(buffers[1]) == DATA
    # Room is there at once.
    client.start("Buffer.Delete", buffers=[small])
    assert client.download(client.upload("f32", [262144], DATA)) == DATA
    assert used(client) == SESSION


def test_a_small_upload_is_refused_like_a_big_one(client: RawClient) -> None:
    megabytes(client, 4)
    refused(client.failure_of(client.start_upload("f32", [1], bytes(4))[1]), "needs 4 B of device memory")
    assert client.upload("f32", [0], b""), "nothing needs nothing"


def test_another_session_has_its_own(client: RawClient, daemon: Daemon, over: str) -> None:
    megabytes(client, 4)
    with daemon.connect(over) as other:
        assert other.download(*megabytes(other, 1)) == DATA


def test_uploads_under_way_count(balanced: None, daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as client:
        buffer = client.new_buffer()
        first = client.start("Buffer.Upload", buffer=buffer, type=dict(dtype=11, dims=[3 * 262144]), data_bytes=3 * MIB)
        _, second = client.start_upload("f32", [2 * 262144], DATA * 2)
        refused(client.failure_of(second), "the session has 3.00 MiB, with what calls under way will take, of the 4.00 MiB")
        (own,) = (at for at in client.call("Session.List").sessions if at.own)
        assert own.reserved_bytes == 3 * MIB and own.buffer_bytes == 0
        client.cancel(first, "Buffer.Upload")
        client.failure_of(first)
        assert used(client) == 0
        (made,) = megabytes(client, 1)
        assert client.download(made) == DATA


def test_an_upload_whose_client_dies_gives_back(balanced: None, daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as observer:
        before = used(observer, "max_identity_device_bytes")
        with daemon.connect(over) as client:
            client.start("Buffer.Upload", buffer=client.new_buffer(), type=dict(dtype=11, dims=[262144]), data_bytes=MIB)
            client.call("Runtime.Info")
            assert used(observer, "max_identity_device_bytes") == before + MIB
        becomes(before, lambda: used(observer, "max_identity_device_bytes"))


# -- executions --------------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 4], ids=["on the lane", "on the loop"])
def test_an_execution_is_refused_before_it_runs(balanced: None, client: RawClient, runs: int) -> None:
    double = client.compile(DOUBLE.format(attribute=""))
    (given,) = megabytes(client, 1)
    for _ in range(runs - 1):
        client.call("Buffer.Delete", buffers=client.execute(double, [given]))
    megabytes(client, 3)
    executes = client.stats().executes_on_loop + client.stats().executes_on_lane
    (output,), call = client.start_execute(double, [given])
    failed = refused(client.failure_of(call), "the program's output needs 1.00 MiB", "has 4.00 MiB of the 4.00 MiB")
    assert client.stats().executes_on_loop + client.stats().executes_on_lane == executes, "it did not run"
    assert failed.detail.needed == MIB
    (after,), second = client.start_execute(double, [output])
    poisoned = client.failure_of(second)
    assert (poisoned.code, poisoned.detail.origin_call) == (RESOURCE_EXHAUSTED, call)
    client.call("Buffer.Delete", buffers=[output, after])
    assert client.download(given) == DATA
    assert used(client) == SESSION


def test_a_donated_argument_gives_its_room(balanced: None, client: RawClient) -> None:
    double = client.compile(DOUBLE.format(attribute=DONATES))
    *_, given = megabytes(client, 4)
    for _ in range(3):  # on the lane, then on the loop
        (given,) = client.execute(double, [given])
        assert used(client) == SESSION
    assert client.download(given) == ramp_times(8)


def ramp_times(factor: int) -> bytes:
    return struct.pack("<262144f", *(i % 1000 * factor for i in range(262144)))


def test_of_two_executions_under_way_one_gets_the_room(balanced: None, daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as client, daemon.connect(over) as other:
        token = client.call("Session.Open").token
        other.attach(token=token, join=True)
        slow = client.compile(SLOW)
        rounds = client.upload("s32", [], struct.pack("<i", 300_000_000))
        none = client.upload("s32", [], struct.pack("<i", 0))
        kept = megabytes(client, 2)
        (first,), one = client.start_execute(slow, [rounds])
        client.call("Runtime.Info")
        (second,), two = other.start_execute(slow, [none])
        # 2 MiB and two scalars are there, 1 MiB is to come: another would be too much.
        refused(other.failure_of(two), "with what calls under way will take, of the 4.00 MiB")
        client.reply(one, "Execute.Execute")
        assert used(client) == 3 * MIB + 8
        client.call("Buffer.Delete", buffers=[*kept, first])
        (third,), three = other.start_execute(slow, [none])
        other.reply(three, "Execute.Execute")
        assert other.download(third) == bytes(MIB)
        assert used(client) == MIB + 8


def test_an_execution_that_is_cancelled_gives_back_when_it_is_over(balanced: None) -> None:
    """The plugin may still write its outputs, so until then their room is taken."""
    script = "LoadedExecutable_Execute=hold"
    settings = dict(max_session_device_bytes=64)
    with FakeDaemon(settings=settings, grpc=True) as daemon, daemon.connect() as client:
        add = client.compile(program(script=script, loops=True))
        given = [client.upload("f32", [4], bytes(16)), client.upload("f32", [4], bytes(16))]
        _, call = client.start_execute(add, given)
        becomes(48, lambda: used(client))
        becomes(0, lambda: sum(lane.queued for lane in client.stats().lanes))  # it is in the plugin
        client.cancel(call, "Execute.Execute")
        client.failure_of(call)
        assert used(client) == 48
        daemon.release()
        becomes(32, lambda: used(client))


def test_an_execution_that_fails_gives_back(balanced: None) -> None:
    with FakeDaemon(settings=dict(max_session_device_bytes=48)) as daemon, daemon.connect() as client:
        given = [client.upload("f32", [4], bytes(16)), client.upload("f32", [4], bytes(16))]
        fails = client.compile(program(script="LoadedExecutable_Execute@1=error:13:no; LoadedExecutable_Execute@3=error:13:no"))
        for good in (False, True, False, True):
            outputs, call = client.start_execute(fails, given)
            if good:
                client.reply(call, "Execute.Execute")
            else:
                assert client.failure_of(call).message == "no"
            client.call("Buffer.Delete", buffers=outputs)
            assert used(client) == 32


# -- slots and runs ----------------------------------------------------------------


def in_slot(client: RawClient, **buffers: int) -> None:
    client.call("Session.Bind", bindings=[dict(slot=slot, buffer=buffer) for slot, buffer in buffers.items()])
    client.call("Buffer.Delete", buffers=list(buffers.values()))


def test_what_a_slot_holds_counts_once(balanced: None, client: RawClient) -> None:
    (buffer,) = megabytes(client, 1)
    client.call("Session.Bind", bindings=[dict(slot=slot, buffer=buffer) for slot in ("theta", "again")])
    assert used(client) == MIB
    client.call("Buffer.Delete", buffers=[buffer])
    assert used(client) == MIB and used(client, "max_session_buffers") == 0
    failed = refused(client.failure_of(client.start_upload("f32", [4 * 262144], DATA * 4)[1]), "the biggest: slot ")
    (biggest,) = failed.detail.biggest
    assert (biggest.buffer, biggest.bytes) == (0, MIB) and biggest.slot in ("theta", "again")
    client.call("Session.Unbind", slots=["theta"])
    assert used(client) == MIB
    client.call("Session.Unbind", slots=["again"])
    assert used(client) == 0


def test_more_ids_of_one_buffer_are_more_buffers_but_no_more_bytes(balanced: None, client: RawClient) -> None:
    in_slot(client, theta=megabytes(client, 1)[0])
    more = [client.new_buffer() for _ in range(3)]
    client.call("Session.Lookup", bindings=[dict(slot="theta", buffer=buffer) for buffer in more])
    assert (used(client), used(client, "max_session_buffers")) == (MIB, 3)
    client.call("Buffer.Delete", buffers=more)
    assert (used(client), used(client, "max_session_buffers")) == (MIB, 0)
    client.call("Session.Unbind", slots=["theta"])


def step_of(program: int, **fields: Any) -> dict[str, Any]:
    return dict(program=program, args=[0], slot_args=[dict(position=0, slot="theta")], feed_back=[dict(output=0, slot="theta")]) | fields


def test_a_step_that_feeds_back_what_it_consumed_needs_no_more(balanced: None, client: RawClient) -> None:
    double = client.compile(DOUBLE.format(attribute=DONATES))
    *_, theta = megabytes(client, 4)
    in_slot(client, theta=theta)
    for _ in range(3):
        client.call("Execute.Execute", **step_of(double))
        assert used(client) == SESSION
    client.call("Execute.Run", step=step_of(double), steps=5)
    assert used(client) == SESSION
    shown = client.new_buffer()
    client.call("Session.Lookup", bindings=[dict(slot="theta", buffer=shown)])
    assert client.download(shown) == struct.pack("<262144f", *(i % 1000 * 2.0**8 for i in range(262144)))


def test_a_run_has_room_for_two_steps_outputs_or_does_not_begin(balanced: None, client: RawClient) -> None:
    double = client.compile(DOUBLE.format(attribute=""))
    more = megabytes(client, 3)
    in_slot(client, theta=megabytes(client, 1)[0])
    refused(client.failure("Execute.Run", step=step_of(double), steps=3), "the program's output needs 2.00 MiB",
            "the session has 3.00 MiB of the 4.00 MiB")  # what the slot had before is not counted any more
    client.call("Session.Slots")
    assert used(client) == 4 * MIB, "the slot has what it had"
    client.call("Buffer.Delete", buffers=more[:1])
    client.call("Execute.Run", step=step_of(double), steps=3)
    assert used(client) == 3 * MIB
    shown = client.new_buffer()
    client.call("Session.Lookup", bindings=[dict(slot="theta", buffer=shown)])
    assert client.download(shown) == ramp_times(8)


def test_what_others_borrowed_stays_on_the_account_that_it_was_on(balanced: None, daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as observer, daemon.connect(over) as borrower:
        with daemon.connect(over) as publisher:
            in_slot(publisher, weights=megabytes(publisher, 1)[0])
            publisher.call("Session.Publish", name="weights", everybody=True)
            borrower.call("Session.Borrow", name="weights")
            assert (used(publisher), used(borrower)) == (MIB, 0)
            assert used(observer, "max_identity_device_bytes") == MIB
        becomes(3, lambda: daemon.stats().sessions)  # theirs, and the one that asks
        assert used(borrower) == 0 and used(observer, "max_identity_device_bytes") == MIB, "somebody has it, so it counts"
        failed = refused(borrower.failure_of(borrower.start_upload("f32", [5 * 262144], DATA * 5)[1]))
        assert not failed.detail.biggest, "it is in nobody's way here"
        shown = borrower.new_buffer()
        borrower.call("Session.Lookup", bindings=[dict(slot="weights", buffer=shown)])
        assert borrower.download(shown) == DATA
        borrower.call("Buffer.Delete", buffers=[shown])
        borrower.call("Session.Unbind", slots=["weights"])
        assert used(observer, "max_identity_device_bytes") == 0


# -- identities ----------------------------------------------------------------------


def test_an_identitys_sessions_share_what_it_may_have(balanced: None, daemon: Daemon, over: str) -> None:
    with daemon.connect(over) as first, daemon.connect(over) as second:
        mine = megabytes(first, 4)
        megabytes(second, 2)
        failed = refused(second.failure_of(second.start_upload("f32", [262144], DATA)[1]),
                         "have 6.00 MiB of the 6.00 MiB that they may")
        assert failed.detail.quota.setting == "max_identity_device_bytes"
        session = {at.own: at.session for at in first.call("Session.List").sessions}
        if over == "unix":  # the other session is of the same user
            assert "uid " in failed.message and f"session {session[True]}'s buffer" in failed.message
        else:  # whose the others are, nobody knows
            assert "all sessions over gRPC together" in failed.message
            assert {of.session for of in failed.detail.biggest} != {session[True]} and len(failed.detail.biggest) == 2
            assert session[True] not in {of.session for of in failed.detail.biggest}
        first.call("Buffer.Delete", buffers=mine[:1])
        megabytes(second, 1)
    with daemon.connect(over) as third:
        becomes(0, lambda: used(third, "max_identity_device_bytes"))


def test_who_comes_otherwise_has_an_account_of_his_own(balanced: None, daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        local = [stack.enter_context(daemon.connect("unix")) for _ in range(2)]
        megabytes(local[0], 4)
        megabytes(local[1], 2)
        refused(local[1].failure_of(local[1].start_upload("f32", [262144], DATA)[1]))
        remote = [stack.enter_context(daemon.connect(over)) for over in ("channel", "unary")]
        for client in remote:
            megabytes(client, 3)
        for client in remote:
            refused(client.failure_of(client.start_upload("f32", [262144], DATA)[1]), "gRPC together have 6.00 MiB")


def test_who_attaches_by_token_hears_nothing_of_the_owners_other_sessions(balanced: None, daemon: Daemon) -> None:
    with daemon.connect("unix") as owner, daemon.connect("unix") as elsewhere, daemon.connect("channel") as guest:
        secret = megabytes(elsewhere, 4)
        token = owner.call("Session.Open").token
        shown = megabytes(owner, 1)
        guest.attach(token=token, join=True)
        megabytes(guest, 1)
        failed = refused(guest.failure_of(guest.start_upload("f32", [262144], DATA)[1]), "have 6.00 MiB of the 6.00 MiB")
        sessions = {of.session for of in failed.detail.biggest}
        assert len(failed.detail.biggest) == 2 and len(sessions) == 1 and shown[0] in {of.buffer for of in failed.detail.biggest}
        (hidden,) = (at.session for at in elsewhere.call("Session.List").sessions if at.own)
        assert hidden not in sessions and secret
        assert "max_identity_device_bytes" not in quotas(guest) and "max_identity_device_bytes" in quotas(owner)


@pytest.fixture
def tight() -> Iterator[Daemon]:
    settings = dict(max_identity_buffers=5, max_identity_programs=2, max_identity_sessions=2, max_identity_calls_in_flight=3,
                    max_session_buffers=4)
    with FakeDaemon(settings=settings, grpc=True) as started:
        yield started


@pytest.fixture(params=["unix", "channel"])
def link(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.over("unix")
def test_buffers_and_programs_of_all_sessions(tight: Daemon, link: str) -> None:
    with tight.connect(link) as first, tight.connect(link) as second:
        mine = [first.upload("f32", [n + 1], bytes(4 * n + 4)) for n in range(4)]
        failed = refused(first.failure_of(first.start_upload("f32", [1], bytes(4))[1]), "the session has 4 buffers, the most")
        assert [of.buffer for of in failed.detail.biggest] == mine[::-1]
        second.upload("f32", [1], bytes(4))
        failed = refused(second.failure_of(second.start_upload("f32", [1], bytes(4))[1]), "have 5 buffers, the most that they may")
        assert failed.detail.hint == "delete some, or raise max_identity_buffers"
        first.call("Buffer.Delete", buffers=mine[:1])
        second.upload("f32", [1], bytes(4))
        made = first.compile(program())
        second.compile(program())
        refused(second.failure_of(second.start_compile(program())[1]), "have 2 programs, the most that they may")
        first.call("Program.Release", programs=[made])
        second.compile(program())
    assert tight.settled()["programs"] == 0
    with tight.connect(link) as third:
        for setting in ("max_identity_buffers", "max_identity_programs", "max_identity_sessions"):
            becomes(0, lambda setting=setting: used(third, setting))


@pytest.mark.over("unix")
def test_sessions_that_are_only_attached_to_are_not_counted(tight: Daemon, link: str) -> None:
    with tight.connect(link) as first, tight.connect(link) as second, tight.connect(link) as third:
        first.call("Session.Open", ttl_ns=10**10)
        second.upload("f32", [1], bytes(4))
        for start in (lambda: third.start_upload("f32", [1], bytes(4))[1], lambda: third.start("Session.Open", ttl_ns=10**10)):
            refused(third.failure_of(start()), "have 2 sessions that hold something or are kept, the most that they may")
        # There is always a way in to end one.
        with tight.connect(link) as fourth:
            assert used(fourth, "max_identity_sessions") == 2
        first.call("Session.Close")
        third.upload("f32", [1], bytes(4))


@pytest.mark.over("unix")
def test_calls_of_all_connections(tight: Daemon, link: str) -> None:
    with tight.connect(link) as first, tight.connect(link) as second:
        holds = first.compile(program(script="LoadedExecutable_Execute=hold", loops=True))
        given = [first.upload("f32", [4], bytes(16)), first.upload("f32", [4], bytes(16))]
        calls = [first.start_execute(holds, given, 0)[1] for _ in range(3)]
        first.call("Runtime.Info")
        made, call = second.start_compile(program())
        failed = refused(second.failure_of(call), "have 3 calls under way, the most that they may")
        second.call("Program.Release", programs=[made])
        assert failed.detail.retry_after_ns and "max_identity_calls_in_flight" in failed.detail.hint
        assert len(failed.detail.biggest) == 0
        second.upload("f32", [1], bytes(4))  # what is done at once is no call under way
        tight.release()
        for call in calls:
            first.reply(call, "Execute.Execute")
        second.compile(program())
        becomes(0, lambda: used(second, "max_identity_calls_in_flight"))
        assert used(second, "max_identity_queued_bytes") == 0


@pytest.mark.over("unix")
def test_memory_of_all_calls() -> None:
    with FakeDaemon(settings=dict(max_identity_queued_bytes="64 KiB")) as daemon, daemon.connect() as first, \
            daemon.connect() as second:
        holds = first.compile(program(script="LoadedExecutable_Execute=hold", loops=True))
        given = [first.upload("f32", [4], bytes(16)), first.upload("f32", [4], bytes(16))]
        call = first.start_execute(holds, given, 0)[1]
        text = program() + "// " + "x" * (64 << 10)
        text = text[: 64 << 10]  # the most that a request carries
        failed = refused(second.failure_of(second.start_compile(text)[1]), "the call needs", "of the 64.00 KiB that they may")
        assert failed.detail.quota.setting == "max_identity_queued_bytes" and failed.detail.retry_after_ns
        daemon.release()
        first.reply(call, "Execute.Execute")
        second.compile(text)  # alone, one may be of any size


# -- settings and showing --------------------------------------------------------


@pytest.mark.over("unix")
def test_a_limit_that_is_lowered_refuses_more_and_takes_nothing_away(tmp_path: Any) -> None:
    import signal

    config = tmp_path / "pjrtd.conf"
    config.write_text("")
    with Daemon(args=["--config", str(config)]) as daemon, daemon.connect() as client:
        kept = megabytes(client, 2)
        config.write_text("max_session_device_bytes = 1 MiB\n")
        daemon.signal(signal.SIGHUP)
        becomes(MIB, lambda: quotas(client)["max_session_device_bytes"].allowed)
        refused(client.failure_of(client.start_upload("f32", [1], bytes(4))[1]), "has 2.00 MiB of the 1.00 MiB that it may")
        assert client.download(kept[0]) == DATA


@pytest.mark.over("unix")
def test_pjrtctl_shows_what_is_used_of_what_is_allowed(daemon: Daemon) -> None:
    with daemon.connect() as client:
        client.call("Session.Open", name="shown")
        megabytes(client, 1)
        shown = ctl(daemon, "session", "show", "shown").stdout
        rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith("max_")}
        assert rows == {"max_session_device_bytes": ["1.0", "MiB", "4.0", "MiB"], "max_session_buffers": ["1", "1000000"],
                        "max_session_programs": ["0", "10000"], "max_identity_device_bytes": ["1.0", "MiB", "6.0", "MiB"]}
        client.call("Session.Close")


@pytest.mark.over("unix")
def test_python_has_it_typed(daemon: Daemon) -> None:
    with pjrtd.Client.create(daemon.target) as client, pytest.raises(pjrtd.errors.ResourceExhausted) as caught:
        kept = [client.buffer_from_host([0.0] * 262144, "f32") for _ in range(4)]
        client.buffer_from_host([1.0] * 262144, "f32").to_host()
    error = caught.value
    assert error.quota is not None and error.quota.setting == "max_session_device_bytes"
    assert (error.quota.used, error.quota.allowed, error.quota.needed) == (SESSION, SESSION, MIB)
    assert [(of.bytes, of.type, of.device) for of in error.biggest] == [(MIB, "f32[262144]", 0)] * 4 and kept
    assert "the biggest: buffer" in str(error) and "hint: delete some" in str(error)
