"""Shared weights: slots that one session publishes, and others borrow without a copy and cannot consume."""

from __future__ import annotations

import os

import pytest

from case_programs import case
from daemon import Daemon
from raw_frames import (ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND,
                        PERMISSION_DENIED, RESOURCE_EXHAUSTED, RawClient)
from test_slots import bind, floats, states, step, value

RUN_OVER = ["unix", "channel"]
DAEMON_SETTINGS = {"max_session_slots": 4}
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

W, B = floats(1, 2, 3, 4), floats(10, 20, 30, 40)


@pytest.fixture
def publisher(daemon: Daemon, over: str):  # noqa: ANN201
    with daemon.connect(over) as connected:
        bind(connected, w=W, b=B)
        yield connected


def test_what_is_published_is_there_once(daemon: Daemon, publisher: RawClient, client: RawClient) -> None:
    before = daemon.stats()
    publisher.call("Session.Publish", name="model", everybody=True)
    client.call("Session.Borrow", name="model")
    assert value(client, "w") == W and value(client, "b") == B
    (info,) = client.call("Session.Published").publications
    assert (info.name, info.slots, info.bytes, info.borrowed, info.everybody) == ("model", 2, 32, 1, True)
    after = daemon.stats()
    assert (after.buffers, after.buffer_bytes) == (before.buffers, before.buffer_bytes), "no copy was made"
    own = [session for session in client.call("Session.List").sessions if session.own][0]
    assert (own.slots, own.buffer_bytes) == (2, 0), "it is on the publisher's account"
    program = client.compile(case("add").text)
    assert client.answer(step(client, program, ["w", "b"], {0: "sum"}, fetch=[0])).bulk == floats(11, 22, 33, 44)
    assert {slot.slot: slot.published for slot in client.call("Session.Slots").slots} == dict(w=True, b=True, sum=False)


def test_nobody_consumes_it(publisher: RawClient, client: RawClient) -> None:
    publisher.call("Session.Publish", name="model", slots=["w"], everybody=True)
    client.call("Session.Borrow", name="model", slots=[dict(slot="w", **{"as": "mine"})])
    bind(client, b=B)
    for who, slot in ((client, "mine"), (publisher, "w")):
        program = who.compile(case("donate_first").text)
        failed = who.failure_of(step(who, program, [slot, "b"], {0: "out"}))
        assert failed.code == INVALID_ARGUMENT
        assert f"argument 0 (slot '{slot}') is donated, but the buffer is published" in failed.message
        assert who.answer(step(who, program, [slot, "b"], {0: "out"}, fetch=[0], non_donatable=[0])).bulk == floats(11, 22, 33, 44)
    assert value(client, "mine") == value(publisher, "w") == W
    # Under an id it is the same buffer.
    buffer = client.new_buffer()
    client.call("Session.Lookup", bindings=[dict(slot="mine", buffer=buffer)])
    program = client.compile(case("donate_first").text)
    _, call = client.start_execute(program, [buffer, buffer])
    assert client.failure_of(call).code == INVALID_ARGUMENT


def test_feeding_back_to_a_borrowed_slot_leaves_the_others_alone(publisher: RawClient, client: RawClient) -> None:
    publisher.call("Session.Publish", name="model", everybody=True)
    client.call("Session.Borrow", name="model")
    program = client.compile(case("add").text)
    client.answer(step(client, program, ["w", "b"], {0: "w"}))
    assert value(client, "w") == floats(11, 22, 33, 44) and value(publisher, "w") == W
    publisher.call("Session.Unbind", slots=["w"])
    client.call("Session.Borrow", name="model", slots=[dict(slot="w")])
    assert value(client, "w") == W, "what is published stays what it was"


def test_names_and_slots_that_are_none(publisher: RawClient, client: RawClient) -> None:
    publisher.call("Session.Publish", name="model", everybody=True)
    for who, method, fields, code in (
        (client, "Session.Publish", dict(name="model"), ALREADY_EXISTS),
        (publisher, "Session.Publish", dict(name="m", slots=["none"]), NOT_FOUND),
        (publisher, "Session.Publish", dict(name=""), INVALID_ARGUMENT),
        (publisher, "Session.Publish", dict(name="a b"), INVALID_ARGUMENT),
        (publisher, "Session.Publish", dict(name="m", uids=[1] * 65), INVALID_ARGUMENT),
        (client, "Session.Publish", dict(name="empty"), INVALID_ARGUMENT),
        (client, "Session.Borrow", dict(name="none"), NOT_FOUND),
        (client, "Session.Borrow", dict(name="model", slots=[dict(slot="w"), dict(slot="none")]), NOT_FOUND),
        (client, "Session.Borrow", dict(name="model", slots=[{"slot": "w", "as": "a\n"}]), INVALID_ARGUMENT),
        (client, "Session.Withdraw", dict(name="none"), NOT_FOUND),
    ):
        assert who.failure(method, **fields).code == code, (method, fields)
    assert states(client) == {}


def test_all_is_borrowed_or_nothing(publisher: RawClient, client: RawClient) -> None:
    """Where the session cannot have so many slots."""
    publisher.call("Session.Publish", name="model", everybody=True)
    bind(client, x=W, y=W, z=W)
    for slots in ([], [dict(slot="w"), {"slot": "w", "as": "v"}]):
        failed = client.failure("Session.Borrow", name="model", slots=slots)
        assert failed.code == RESOURCE_EXHAUSTED and failed.message == "the session has 3 slots, and may have 4"
        assert sorted(states(client)) == ["x", "y", "z"]
    assert client.call("Session.Published").publications[0].borrowed == 0
    client.call("Session.Borrow", name="model", slots=[{"slot": "w", "as": "x"}, dict(slot="b")])
    assert sorted(states(client)) == ["b", "x", "y", "z"] and value(client, "b") == B


def test_it_outlives_its_publisher_with_who_borrowed_it(daemon: Daemon, over: str, client: RawClient) -> None:
    with daemon.connect(over) as first:
        bind(first, w=W)
        first.call("Session.Publish", name="model", everybody=True)
        client.call("Session.Borrow", name="model")
        first.call("Session.Withdraw", name="model")
        assert client.failure("Session.Borrow", name="model").code == NOT_FOUND
        first.call("Session.Publish", name="again", everybody=True)
        first.call("Session.Close")
    assert client.failure("Session.Borrow", name="again").code == NOT_FOUND
    assert not client.call("Session.Published").publications
    with daemon.connect(over) as other:
        bind(other, noise=bytes(1 << 16))
    assert value(client, "w") == W
    buffer = client.new_buffer()
    client.call("Session.Lookup", bindings=[dict(slot="w", buffer=buffer)])
    client.call("Session.Unbind", slots=["w"])
    assert client.download(buffer) == W


@pytest.mark.over("unix")
def test_others_borrow_only_what_is_for_them(daemon: Daemon) -> None:
    """A user of the host, by its uid; a client over TCP, which nobody knows."""
    with daemon.connect("unix") as owner, daemon.connect("channel") as remote:
        bind(owner, w=W)
        owner.call("Session.Publish", name="mine")
        owner.call("Session.Publish", name="theirs", uids=[os.getuid() + 1])
        assert sorted(info.name for info in owner.call("Session.Published").publications) == ["mine", "theirs"]
        assert not remote.call("Session.Published").publications
        assert remote.failure("Session.Borrow", name="mine").code == NOT_FOUND
        owner.call("Session.Publish", name="all", everybody=True)
        remote.call("Session.Borrow", name="all")
        assert value(remote, "w") == W
        assert remote.failure("Session.Withdraw", name="all").code == PERMISSION_DENIED
        assert remote.failure("Session.Publish", name="mine", everybody=True).code == ALREADY_EXISTS
        bind(remote, v=B)
        remote.call("Session.Publish", name="remote", slots=["v"])
        assert "remote" in [info.name for info in owner.call("Session.Published").publications], "an admin sees all"
        assert owner.failure("Session.Borrow", name="remote").code == NOT_FOUND, "and may borrow what he is let"
        owner.call("Session.Withdraw", name="remote")
        assert not [info for info in remote.call("Session.Published").publications if info.name == "remote"]


def test_publications_are_bounded(publisher: RawClient) -> None:
    for number in range(4096):
        publisher.start("Session.Publish", quiet=True, name=f"m{number}", slots=["w"])
    publisher.call("Session.Sync")
    assert publisher.failure("Session.Publish", name="more").code == RESOURCE_EXHAUSTED
    publisher.call("Session.Withdraw", name="m17")
    publisher.call("Session.Publish", name="more")
