"""Sessions that outlive their connections: names, leases, attaching, fencing, resuming, listing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import time
from typing import Any

import grpc
import pytest

import wire_messages as wire
from daemon import PATIENCE, Daemon
from grpc_bridges import OPTIONS
from raw_frames import (ABORTED, ALREADY_EXISTS, ERROR, FAILED_PRECONDITION,
                        INVALID_ARGUMENT, ITEM, NOT_FOUND, PERMISSION_DENIED,
                        RESOURCE_EXHAUSTED, RawClient, header)
from test_pjrtctl import ctl

SECOND_NS = 1_000_000_000
DATA = struct.pack("<4f", 1, 2, 3, 4)


@pytest.fixture(params=["unix", "channel"])
def link(request: pytest.FixtureRequest) -> str:
    return request.param


def kept(daemon: Daemon, link: str, ttl_s: float = 60) -> tuple[str, int]:
    """A session with one buffer, whose connection has gone: its token and the buffer."""
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=int(ttl_s * SECOND_NS)).token
        buffer = client.upload("f32", [4], DATA)
    return token, buffer


def close(client: RawClient) -> None:
    client.call("Session.Close")


def test_a_session_with_a_lease_outlives_its_connection(balanced: None, daemon: Daemon, link: str) -> None:
    token, buffer = kept(daemon, link)
    with daemon.connect(over=link) as client:
        reply = client.attach(token=token)
        assert reply.token == token and not reply.created
        assert client.download(buffer) == DATA
        assert client.new_buffer() > buffer or reply.id_prefix, "ids are never used again"
        second = client.upload("f32", [4], DATA)
        assert second != buffer
        close(client)


def test_a_lease_ends(balanced: None, daemon: Daemon, link: str) -> None:
    before = daemon.stats().sessions
    token, _ = kept(daemon, link, ttl_s=0.3)
    deadline = time.monotonic() + 20 * PATIENCE
    while daemon.stats().sessions > before and time.monotonic() < deadline:
        time.sleep(0.05)
    with daemon.connect(over=link) as client:
        failed = client.failure("Session.Attach", token=token)
        assert failed.code == NOT_FOUND and failed.message == "the token is of no session"


def test_a_session_by_name(balanced: None, daemon: Daemon) -> None:
    with daemon.connect() as client:
        client.call("Session.Open", name="exp1")
        buffer = client.upload("f32", [4], DATA)
    with daemon.connect() as client:
        assert client.failure("Session.Open", name="exp1").code == ALREADY_EXISTS
        reply = client.attach(name="exp1")
        assert client.download(buffer) == DATA
        assert reply.connections == 1
        close(client)
    with daemon.connect() as client:
        assert client.failure("Session.Attach", name="exp1").code == NOT_FOUND
        assert client.attach(name="exp1", create=True).created
        close(client)


def test_names_are_for_the_local_socket(daemon: Daemon) -> None:
    with daemon.connect() as owner, daemon.connect(over="channel") as remote:
        owner.call("Session.Open", name="private")
        failed = remote.failure("Session.Attach", name="private")
        assert failed.code == PERMISSION_DENIED
        assert "over the local socket only" in failed.message
        close(owner)


@pytest.mark.parametrize("name", ["a b", "x" * 65, "ü", "a/b", "\n"])
def test_a_name_that_is_none(daemon: Daemon, name: str) -> None:
    with daemon.connect() as client:
        assert client.failure("Session.Open", name=name).code == INVALID_ARGUMENT
        assert client.failure("Session.Attach", name=name, create=True).code == INVALID_ARGUMENT


def test_attaching_takes_over_and_fences(balanced: None, daemon: Daemon, link: str) -> None:
    with daemon.connect(over=link) as first, daemon.connect(over=link) as second:
        token = first.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        buffer = first.upload("f32", [4], DATA)
        second.attach(token=token)
        assert second.download(buffer) == DATA
        frames = first.receive_until_closed()
        assert [frame.kind for frame in frames] == [ERROR] and frames[0].call == 0
        error = wire.message_class("Error").FromString(frames[0].payload)
        assert error.code == ABORTED and "took this one's session over" in error.message
        close(second)


def test_joining_shares_the_session(balanced: None, daemon: Daemon, link: str) -> None:
    with daemon.connect(over=link) as first:
        token = first.call("Session.Open", ttl_ns=SECOND_NS).token
        buffer = first.upload("f32", [4], DATA)
        with daemon.connect(over=link) as second:
            reply = second.attach(token=token, join=True)
            assert reply.connections == 2 and reply.id_prefix == 1
            theirs = second.upload("f32", [4], DATA[::-1])
            assert second.download(buffer) == DATA
            assert first.download(theirs) == DATA[::-1]
        assert first.download(theirs) == DATA[::-1], "a connection that goes leaves what it made"
        with daemon.connect(over=link) as third:
            reply = third.attach(token=token, join=True)
            assert reply.id_prefix == 1 and reply.highest_buffer == theirs, "the ids go on"
        close(first)


def test_attaching_comes_first(daemon: Daemon, link: str) -> None:
    with daemon.connect(over=link) as first, daemon.connect(over=link) as second:
        token = first.call("Session.Open", ttl_ns=SECOND_NS).token
        second.upload("f32", [4], DATA)
        failed = second.failure("Session.Attach", token=token)
        assert failed.code == FAILED_PRECONDITION and "attach first" in failed.hint
        assert first.failure("Session.Attach", token=token).code == INVALID_ARGUMENT
        close(first)


def test_resuming_loses_and_doubles_no_step(balanced: None, daemon: Daemon, link: str) -> None:
    """A chain of steps whose connection breaks at any place: what was applied is told, and the rest is sent again."""
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %one = stablehlo.constant dense<1.0> : tensor<f32> " \
           "%y = stablehlo.add %x, %one : tensor<f32> return %y : tensor<f32> }"
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        prefix = client.hello.id_prefix
        program = client.compile(text)
        buffers = [client.upload("f32", [], struct.pack("<f", 0))]
        sent = {}
        for _ in range(100):
            outputs, call = client.start_execute(program, [buffers[-1]], quiet=True)
            sent[call] = (buffers[-1], outputs[0])
            buffers += outputs
        last = client.last_call
        # Gone before anything is known.
    with daemon.connect(over=link, last_call=last) as client:
        reply = client.attach(token=token, resume=True, id_prefix=prefix)
        assert reply.id_prefix == prefix
        for call, (argument, output) in sent.items():
            if call > reply.last_call:
                client.start_execute(program, [argument], outputs=[output])
        assert struct.unpack("<f", client.download(buffers[-1])) == (100.0,)
        close(client)


def test_an_attach_whose_answer_was_lost_is_made_again(balanced: None, daemon: Daemon, link: str) -> None:
    """What it told is told again: the attach itself is no call of the program's."""
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        client.upload("f32", [4], DATA)
        last, highest = client.last_call, client.last_call
    for _ in range(3):
        with daemon.connect(over=link, last_call=highest) as client:
            assert client.attach(token=token, resume=True).last_call == last
            highest = client.last_call
    with daemon.connect(over=link, last_call=highest) as client:
        client.attach(token=token, resume=True)
        buffer = client.upload("f32", [4], DATA)
        last, highest = client.last_call, client.last_call
    with daemon.connect(over=link, last_call=highest) as client:
        assert client.attach(token=token, resume=True).last_call == last
        assert client.download(buffer) == DATA
        close(client)


def test_a_fenced_connection_resumes_nobody_elses(balanced: None, daemon: Daemon, link: str) -> None:
    """The one that took the session over has the same prefix, and another conversation."""
    with daemon.connect(over=link) as client:
        opened = client.call("Session.Open", ttl_ns=60 * SECOND_NS)
        assert opened.conversation
        prefix, last = client.hello.id_prefix, client.last_call
    with daemon.connect(over=link) as other:
        reply = other.attach(token=opened.token)
        assert reply.id_prefix == prefix and reply.conversation != opened.conversation
        with daemon.connect(over=link, last_call=last + 10) as client:
            failed = client.failure("Session.Attach", token=opened.token, resume=True, id_prefix=prefix, conversation=opened.conversation)
            assert failed.code == ABORTED
        last = other.last_call
    for _ in range(2):
        with daemon.connect(over=link, last_call=last) as again:
            resumed = again.attach(token=opened.token, resume=True, id_prefix=prefix, conversation=reply.conversation)
            assert resumed.conversation == reply.conversation
            last = again.last_call
            if _:
                close(again)


def begin_upload(client: RawClient, data: bytes) -> tuple[int, int]:
    """(buffer, call) of an upload whose bytes are still to be sent."""
    buffer = client.new_buffer()
    type_ = dict(dtype=wire.dtype_numbers()["u8"], dims=[len(data)])
    return buffer, client.start("Buffer.Upload", buffer=buffer, type=type_, data_bytes=len(data))


def finish_upload(client: RawClient, reply: Any, call: int, buffer: int, data: bytes, received: int) -> None:
    """After a resume: sends what has not arrived, by the credit that the reply tells."""
    (pending,) = reply.pending
    assert (pending.call, pending.received_bytes) == (call, received)
    client.send_items(call, "Buffer.Upload", data[received:], pending.credit_bytes)
    client.reply(call, "Buffer.Upload")
    assert client.download(buffer) == data
    close(client)


def test_an_upload_goes_on_where_it_was_cut(balanced: None, daemon: Daemon, link: str) -> None:
    data = os.urandom(3 << 20)
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        buffer, call = begin_upload(client, data)
        client.send_items(call, "Buffer.Upload", data[: 1 << 20], client.hello.upload_credit_bytes)
        client.call("Admin.Stats")
        last = client.last_call
    with daemon.connect(over=link, last_call=last) as client:
        reply = client.attach(token=token, resume=True)
        assert reply.last_call == last
        finish_upload(client, reply, call, buffer, data, 1 << 20)


@pytest.mark.parametrize("cuts", [1, 20])
@pytest.mark.parametrize("alive", [False, True], ids=["gone", "alive"])
def test_an_upload_goes_on_that_was_cut_within_an_item(balanced: None, daemon: Daemon, alive: bool, cuts: int) -> None:
    """The bytes of the item that came do not count, and the credit for it is not lost, however often that happens. Where
    the old connection still lives, what else it sends is nobody's."""
    data = os.urandom(20 << 20)
    client = daemon.connect()
    token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
    buffer, call = begin_upload(client, data)
    item_bytes = min(client.hello.upload_credit_bytes, client.hello.max_item_bytes)
    number = wire.methods()["Buffer.Upload"].number
    for _ in range(cuts):
        client.call("Admin.Stats")
        client.send_bytes(header(ITEM, number, call, 0, item_bytes) + bytes(item_bytes // 2))
        if not alive:
            client.close()
        other = daemon.connect(last_call=client.last_call)
        reply = other.attach(token=token, resume=True)
        if alive:
            with contextlib.suppress(OSError):
                client.send_bytes(bytes(item_bytes - item_bytes // 2))
            client.close()
        client = other
    finish_upload(client, reply, call, buffer, data, 0)
    client.close()


def test_resuming_needs_higher_call_ids(daemon: Daemon, link: str) -> None:
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        for _ in range(10):
            client.call("Admin.Stats")
    with daemon.connect(over=link) as client:
        failed = client.failure("Session.Attach", token=token, resume=True)
        assert failed.code == INVALID_ARGUMENT and "is not above 12" in failed.message
        assert client.failure("Session.Attach", token=token, resume=True, id_prefix=7).code == ABORTED
        client.attach(token=token)
        close(client)


def test_what_is_listed(balanced: None, daemon: Daemon) -> None:
    with daemon.connect(name="lister") as client, daemon.connect(over="channel", name="remote") as remote:
        client.call("Session.Open", name="listed", ttl_ns=5 * SECOND_NS)
        buffer = client.upload("f32", [4], DATA)
        (info,) = client.call("Session.List", name="listed", buffers=10).sessions
        assert (info.name, info.own, info.local, info.uid) == ("listed", True, True, os.getuid())
        assert (info.buffers, info.programs, info.buffer_bytes, info.ttl_ns, info.lease_left_ns) == (1, 0, 16, 5 * SECOND_NS, 0)
        (connection,) = info.connections
        assert (connection.pid, connection.client_name, connection.transport) == (os.getpid(), "lister", "unix")
        assert connection.command
        (largest,) = info.largest
        assert (largest.buffer, largest.bytes, list(largest.type.dims)) == (buffer, 16, [4])
        everyone = client.call("Session.List").sessions
        assert {"lister", "remote"} <= {each.client_name for info in everyone for each in info.connections}
        (own,) = remote.call("Session.List").sessions
        assert own.own, "who is no admin sees no more than its own"
        assert remote.failure("Session.List", name="listed").code == NOT_FOUND
        assert remote.failure("Session.Close", name="listed").code == NOT_FOUND
        close(client)


def test_a_list_looks_at_so_many_buffers_and_no_more(balanced: None, daemon: Daemon) -> None:
    with daemon.connect() as many, daemon.connect() as few:
        for _ in range(140):
            for _ in range(500):
                many.start_upload("u8", [1], b"x", quiet=True)
            many.call("Session.Sync")
        sizes = [1, 300, 20]
        for size in sizes:
            few.upload("u8", [size], bytes(size))
        listed = few.call("Session.List", buffers=64).sessions
        counts = [(len(each.largest), each.buffers) for each in listed if each.buffers]
        assert counts in ([(64, 70_000), (0, 3)], [(3, 3), (64, 70_000)])
        (own,) = few.call("Session.List", session=few.call("Session.Open").session, buffers=64).sessions
        assert [each.bytes for each in own.largest] == sorted(sizes, reverse=True)


def test_a_session_is_closed_from_elsewhere(balanced: None, daemon: Daemon) -> None:
    with daemon.connect() as client, daemon.connect() as other:
        client.call("Session.Open", name="closed")
        client.upload("f32", [4], DATA)
        assert other.call("Session.Close", name="closed").buffers_freed == 1
        assert client.failure("Buffer.Stat", buffer=1).code == FAILED_PRECONDITION
    kept_token, _ = kept(daemon, "unix")
    with daemon.connect() as client:
        (absent,) = [info for info in client.call("Session.List").sessions if info.lease_left_ns]
        assert not absent.connections and absent.lease_left_ns > 50 * SECOND_NS
        assert client.call("Session.Close", session=absent.session).buffers_freed == 1
        assert client.failure("Session.Attach", token=kept_token).code == NOT_FOUND


SLOW = """
func.func @main(%x: tensor<f32>) -> tensor<15000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %rounds = stablehlo.constant dense<20000000> : tensor<i32>
  %step = stablehlo.constant dense<1.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f32>
  cond {
    %go = stablehlo.compare LT, %i, %rounds : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %b = stablehlo.maximum %a, %step : tensor<f32>
    stablehlo.return %j, %b : tensor<i32>, tensor<f32>
  }
  %all = stablehlo.broadcast_in_dim %r#1, dims = [] : (tensor<f32>) -> tensor<15000xf32>
  return %all : tensor<15000xf32>
}
"""
SLOW_RESULT = struct.pack("<f", 7) * 15000
MANY = 600  # answers of 60 KB, twice as many as may wait for a client


def many_downloads(client: RawClient) -> tuple[int, list[int]]:
    """Downloads of what takes a while, so that all of them are under way: answers of 36 MB for who does not read."""
    program = client.compile(SLOW)
    (buffer,), _ = client.start_execute(program, [client.upload("f32", [], struct.pack("<f", 7))], quiet=True)
    return buffer, [client.start("Buffer.Download", buffer=buffer) for _ in range(MANY)]


def wait_until_full(daemon: Daemon) -> None:
    """Some are answered, the others wait for the client to read."""
    give_up = time.monotonic() + 30 * PATIENCE
    with daemon.connect() as watcher:
        while not 50 < watcher.stats().calls_in_flight < MANY - 50 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert 50 < watcher.stats().calls_in_flight < MANY - 50


def test_answers_that_waited_for_a_slow_reader_go_to_who_resumes(balanced: None, daemon: Daemon) -> None:
    with daemon.connect(receive_buffer_bytes=4096) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        buffer, _ = many_downloads(client)
        wait_until_full(daemon)
        last = client.last_call
        with daemon.connect(last_call=last) as other:
            reply = other.attach(token=token, resume=True)
            assert reply.last_call == last and 50 < len(reply.pending) < MANY - 50
            for pending in reply.pending:
                assert other.answer(pending.call).bulk == SLOW_RESULT
            assert other.download(buffer) == SLOW_RESULT
            close(other)


def test_what_a_fenced_reader_had_under_way_leaves_nothing(balanced: None, daemon: Daemon) -> None:
    with daemon.connect(receive_buffer_bytes=4096) as client, daemon.connect() as other:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        buffer, _ = many_downloads(client)
        client.start("Buffer.Upload", buffer=client.new_buffer(), data_bytes=1 << 20,
                     type=dict(dtype=wire.dtype_numbers()["u8"], dims=[1 << 20]))
        wait_until_full(daemon)
        other.attach(token=token)
        assert other.download(buffer) == SLOW_RESULT
        close(other)


def test_sessions_are_bounded() -> None:
    with Daemon(settings={"max_sessions": 3}) as own:
        tokens = []
        for _ in range(2):
            with own.connect() as client:
                tokens.append(client.call("Session.Open", ttl_ns=60 * SECOND_NS).token)
        with own.connect() as client:
            refused = own.connect(hello=False)
            failed = refused.failure("Runtime.Hello", min_version=1, max_version=1)
            assert failed.code == RESOURCE_EXHAUSTED and "pjrtctl session" in failed.hint
            refused.close()
            client.attach(token=tokens[0])
            close(client)
        with own.connect() as first, own.connect() as second:
            second.attach(token=tokens[1])
            close(first)
            close(second)


def test_unary_calls_take_part_by_the_token(balanced: None, daemon: Daemon, link: str) -> None:
    token, buffer = kept(daemon, link, ttl_s=2)
    with grpc.insecure_channel(daemon.grpc_target.removeprefix("grpc://"), options=OPTIONS) as channel:
        metadata = (("pjrtd-session", token),)
        stat = channel.unary_unary("/pjrtd.v1.Buffer/Stat")
        request = wire.make("BufferRequest", buffer=buffer).SerializeToString()
        assert wire.message_class("StatReply").FromString(stat(request, metadata=metadata)).device_bytes == len(DATA)
        with daemon.connect(over=link) as client:
            assert client.attach(token=token, join=True).connections == 2
            assert client.download(buffer) == DATA
            stat(request, metadata=metadata)
            with pytest.raises(grpc.RpcError) as failed:
                channel.unary_unary("/pjrtd.v1.Session/Attach")(b"", metadata=metadata)
            assert failed.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        channel.unary_unary("/pjrtd.v1.Session/Close")(b"", metadata=metadata)
        with pytest.raises(grpc.RpcError) as failed:
            stat(request, metadata=metadata)
        assert failed.value.code() == grpc.StatusCode.NOT_FOUND


def test_calls_under_way_go_on_without_their_connection(balanced: None, daemon: Daemon, link: str) -> None:
    """A program that takes a while, and what waits for it, are done though nobody is there."""
    slow = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %zero = stablehlo.constant dense<0> : tensor<i32> " \
           "%n = stablehlo.constant dense<3000000> : tensor<i32> %one = stablehlo.constant dense<1> : tensor<i32> " \
           "%step = stablehlo.constant dense<1.0> : tensor<f32> " \
           "%r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f32> cond { " \
           "%go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %go : tensor<i1> } do { " \
           "%j = stablehlo.add %i, %one : tensor<i32> %b = stablehlo.add %a, %step : tensor<f32> " \
           "stablehlo.return %j, %b : tensor<i32>, tensor<f32> } return %r#1 : tensor<f32> }"
    with daemon.connect(over=link) as client:
        token = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token
        program = client.compile(slow)
        start = client.upload("f32", [], struct.pack("<f", 0))
        (first,), _ = client.start_execute(program, [start], quiet=True)
        (second,), _ = client.start_execute(program, [first], quiet=True)
        client.call("Admin.Stats")
    with daemon.connect(over=link) as client:
        client.attach(token=token)
        assert struct.unpack("<f", client.download(second)) == (6_000_000.0,)
        close(client)


def test_pjrtctl_lists_shows_and_closes(balanced: None, daemon: Daemon) -> None:
    with daemon.connect(name="trainer") as client, daemon.connect(over="channel", name="far") as far:
        client.call("Session.Open", name="shown", ttl_ns=90 * SECOND_NS)
        far.call("Session.Open", ttl_ns=SECOND_NS)
        client.upload("s8", [5], bytes(5))
        client.upload("f32", [1000, 1000], bytes(4_000_000))
        with daemon.connect() as left:
            left.call("Session.Open", name="left", ttl_ns=60 * SECOND_NS)
        give_up = time.monotonic() + 10 * PATIENCE
        while "ends in" not in (listed := ctl(daemon, "session").stdout) and time.monotonic() < give_up:
            time.sleep(0.01)
        rows = {line.split()[1]: line for line in listed.splitlines()[1:]}
        assert set(rows) == {"shown", "left", "-"}, "its own session is not among them"
        assert re.search(rf"1 attached +2 +0 +3.8 MiB .* \({os.getpid()}\)$", rows["shown"])
        assert re.search(r"ends in 5?[0-9.]+ s +0 +0 +0 B .* -$", rows["left"])
        assert re.search(r"remote +1 attached +0 +0 +0 B .* far over grpc$", rows["-"])
        shown = ctl(daemon, "session", "show", "shown").stdout
        for line in (r"name +shown", r"state +1 attached", r"buffers +2", r"outlives its connections by +1 min 30 s",
                     r" +2 +3.8 MiB +0 +f32\[1000,1000\]", r" +1 +5 B +0 +s8\[5\]"):
            assert re.search(rf"^{line}$", shown, re.M), shown
        (info,) = [each for each in json.loads(ctl(daemon, "session", "--json").stdout)["sessions"] if each["name"] == "shown"]
        assert (info["buffers"], info["buffer_bytes"], info["connections"][0]["pid"]) == (2, 4_000_005, os.getpid())
        number = str(info["session"])
        assert json.loads(ctl(daemon, "session", "show", number, "--json").stdout)["largest"][0]["bytes"] == 4_000_000
        assert ctl(daemon, "session", "close", "left").stdout == "freed 0 buffers and 0 programs\n"
        assert ctl(daemon, "session", "close", number).stdout == "freed 2 buffers and 0 programs\n"
        assert client.failure("Buffer.Stat", buffer=1).code == FAILED_PRECONDITION
        for words, status, said in ((["show", "nobody"], 1, "you have no session nobody"), (["show"], 2, "of which?"),
                                    (["ls", "x"], 2, "takes no session"), (["drop", "x"], 2, 'knows no "drop"')):
            done = ctl(daemon, "session", *words)
            assert done.returncode == status and said in done.stderr, done


def test_a_failure_whose_telling_may_be_lost_is_told_again(balanced: None, daemon: Daemon, link: str) -> None:
    """A Sync forgets what it tells; but its answer may go with the connection."""
    with daemon.connect(over=link) as client:
        token, prefix = client.call("Session.Open", ttl_ns=60 * SECOND_NS).token, client.hello.id_prefix
        failing = client.start("Buffer.Delete", buffers=[77], quiet=True)
        assert client.call("Session.Sync").failed_call == failing
        assert client.call("Session.Sync").failed_call == 0
        last = client.last_call
    with daemon.connect(over=link, last_call=last) as client:
        client.attach(token=token, resume=True, id_prefix=prefix)
        synced = client.call("Session.Sync")
        assert (synced.failed_call, synced.error.code) == (failing, NOT_FOUND)
        assert client.call("Session.Sync").failed_call == 0
        later = client.start("Buffer.Delete", buffers=[78], quiet=True)
        client.call("Admin.Stats")
        last = client.last_call
    with daemon.connect(over=link, last_call=last) as client:
        client.attach(token=token, resume=True, id_prefix=prefix)
        assert client.call("Session.Sync").failed_call == later, "what nobody was told comes before what is told again"
        close(client)
