"""Weights that sessions of the Python client share: published by one, borrowed by others, also after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon

import pjrtd
from pjrtd import aio, errors
from pjrtd.session import Session, Slot

DAEMON_SETTINGS: dict[str, object] = {}
MODEL = """
module @model { func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %w, %x : tensor<4xf32>
  return %0 : tensor<4xf32> } }
"""
DONATING = MODEL.replace("%w: tensor<4xf32>", "%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}")
REPLICAS = """
module @replicas attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32> } }
"""
X = [1.0, 10.0, 100.0, 1000.0]


@pytest.fixture
def publisher(balanced: None, target: str) -> Iterator[Session]:
    with pjrtd.Client.create(target) as client, Session(client) as session:
        session.bind_many({"w": [1.0, 2.0, 3.0, 4.0], "b": [5.0] * 4})
        yield session


@pytest.fixture
def borrower(publisher: Session) -> Iterator[Session]:
    with pjrtd.Client.create(publisher.client.target) as client, Session(client) as session:
        yield session


def test_what_one_session_loads_others_use(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", ["w"], everybody=True)
    assert publisher.resident == ["w"], "what is published is loaded"
    (info,) = borrower.client.published()
    assert (info.name, info.slots, info.device_bytes, info.borrowed, info.everybody) == ("model", 1, 16, 0, True)
    assert repr(info) == "<pjrtd.Publication 'model': 1 slot(s), 16 bytes>"
    borrower.borrow("model")
    run = borrower.program(MODEL, ["w", "x"], outputs=["y"])
    assert run(x=X)["y"].tolist() == [1, 20, 300, 4000]
    assert borrower.resident == ["w"] and borrower.buffer("w").tolist() == [1, 2, 3, 4]
    assert borrower.client.published()[0].borrowed == 1
    (own,) = [each for each in borrower.client.sessions() if each.own]
    assert own.buffer_bytes < 16 * 3, "the weights are on the publisher's account"


def test_slots_may_have_other_names_here(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", ["w", "b"], everybody=True)
    borrower.borrow("model", {"w": "mine", "b": "yours"})
    assert borrower.resident == ["mine", "yours"]
    run = borrower.program(MODEL, ["mine", "yours"], outputs=["y"])
    assert run()["y"].tolist() == [5, 10, 15, 20]
    borrower.borrow("model", ["b"])
    assert borrower.resident == ["b", "mine", "yours"]
    for wrong, match in (({"w": "a", "b": "a"}, "two slots would be called 'a'"), ([], "no slot is named"), (["x" * 256], "255 bytes")):
        with pytest.raises(errors.InvalidArgument, match=match):
            borrower.borrow("model", wrong)
    with pytest.raises(errors.InvalidArgument, match="no slot is named"):
        publisher.publish("wrong", [])
    for call in (borrower.borrow, publisher.publish):
        with pytest.raises(TypeError, match="list of names"):
            call("model", "w")
    with pytest.raises(errors.NotFound, match="nothing called 'z' is published in 'model'"):
        borrower.borrow("model", ["w", "z"])
    assert borrower.resident == ["b", "mine", "yours"], "all or none"
    with pytest.raises(errors.NotFound, match="no slot 'z'"):
        publisher.publish("wrong", ["z"])
    with pytest.raises(errors.InvalidArgument, match="name"):
        publisher.publish("no/name", ["w"])
    with pytest.raises(errors.InvalidArgument, match="-1"):
        publisher.publish("wrong", ["w"], uids=[-1])


def test_a_borrowed_slot_has_a_type(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", ["w"], everybody=True)
    for take in (lambda: borrower.borrow("model"), lambda: borrower.borrow("model", ["w"])):
        take()
        run = borrower.program(MODEL.replace("4xf32", "5xf32"), ["w", "x"])
        with pytest.raises(errors.InvalidArgument, match=r"argument 0 must be f32\[5\], and is slot 'w', f32\[4\]"):
            run(x=[1.0] * 5)
        borrower.unbind("w")


def test_nobody_consumes_it(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", ["w"], everybody=True)
    borrower.borrow("model")
    for session in (publisher, borrower):
        run = session.program(DONATING, ["w", "x"], outputs=["y"])
        with pytest.raises(errors.InvalidArgument, match=r"argument 0 \(slot 'w'\) is donated, but the buffer is published"):
            run(x=X)["y"].tolist()
        exe = run.executable
        assert exe(Slot("w"), X, non_donatable=[0])[0].tolist() == [1, 20, 300, 4000]
        assert session.buffer("w").tolist() == [1, 2, 3, 4]


def test_feeding_back_leaves_the_others_alone(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", everybody=True, slots=["w"])
    borrower.borrow("model")
    step = borrower.program(MODEL, ["w", "x"], outputs=["w"])
    step.advance(x=X)
    borrower.feed_back(step(x=X))
    assert borrower.buffer("w").tolist() == [1, 200, 30000, 4000000]
    assert publisher.buffer("w").tolist() == [1, 2, 3, 4]
    borrower.borrow("model", ["w"])
    assert borrower.buffer("w").tolist() == [1, 2, 3, 4]


def test_it_is_withdrawn_and_stays_with_who_has_it(publisher: Session, borrower: Session) -> None:
    publisher.publish("model", ["w"], everybody=True)
    publisher.publish("other", ["w"], everybody=True)
    with pytest.raises(errors.AlreadyExists):
        publisher.publish("model", ["b"])
    borrower.borrow("model")
    publisher.withdraw("model")
    (info,) = publisher.client.published()
    assert info.name == "other" and info.own
    info.withdraw()
    with pytest.raises(errors.NotFound, match="nothing is published as 'model'"):
        borrower.borrow("model")
    with pytest.raises(errors.NotFound):
        publisher.withdraw("model")
    publisher.close()
    publisher.client.close()
    assert borrower.buffer("w").tolist() == [1, 2, 3, 4]
    borrower.unbind("w")
    with pytest.raises(errors.NotFound, match="no slot 'w'\n"):
        borrower.buffer("w")


def test_others_borrow_only_what_is_for_them(balanced: None, daemon: Daemon) -> None:
    with pjrtd.Client.create(daemon.target) as client, pjrtd.Client.create(daemon.grpc_target) as remote:
        with Session(client) as mine, Session(remote) as theirs:
            mine.set_global("w", client.buffer_from_host([1.0]))
            mine.publish("private")
            mine.publish("for-others", uids=[os.getuid() + 1])
            assert not remote.published()
            assert {info.name for info in client.published()} == {"private", "for-others"}
            with pytest.raises(errors.NotFound):
                theirs.borrow("private")
            mine.publish("public", everybody=True)
            theirs.borrow("public")
            assert theirs.buffer("w").tolist() == [1]
            with pytest.raises(errors.PermissionDenied):
                theirs.withdraw("public")


def test_slots_of_several_devices_go_together(publisher: Session, borrower: Session) -> None:
    options = pjrtd.CompileOptions(num_replicas=2)
    publisher.bind("x", lambda device: np.array([device.id, 10], np.float32))
    publisher.program(REPLICAS, ["x"], outputs=["y"], options=options)()
    publisher.publish("model", ["x"], everybody=True)
    run = borrower.program(REPLICAS, ["z"], outputs=["y"], options=options)
    borrower.borrow("model", {"x": "z"})
    assert [row["y"].tolist() for row in run()] == [[0, 20], [2, 20]]
    assert borrower.resident == ["z", "z@1"]


def test_the_latest_that_was_said_of_a_slot_counts() -> None:
    """Where it is loaded anew, after a loss of the session."""
    with Daemon() as own, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.SessionLost)
        with pjrtd.Client.create(own.target, session="from", ttl=60) as a, pjrtd.Client.create(own.target, session="to", ttl=60) as b:
            source, to = a.session(), b.session()
            source.bind_many({"w": [1.0], "b": [2.0], "c": [3.0]})

            def publish() -> None:
                source.publish("one", ["w", "b"])
                source.publish("two", ["w", "c"])

            publish()
            to.bind_many({"w": [7.0], "n": [8.0]})
            to.buffer("n")
            to.borrow("one")
            to.borrow("two")
            to.bind("c", [9.0])
            to.borrow("one", {"b": "mine"})
            assert (to.resident, to.pending) == (["b", "c", "mine", "n", "w"], [])
            own.restart()
            with pytest.raises(errors.NotFound, match="nothing is published as 'one'"):
                to.buffer("mine")
            with pytest.raises(errors.NotFound, match="lost with the session.*; nothing is published as 'two'; nothing is published as 'one'"):
                to.buffer("w")
            assert (to.resident, to.pending) == ([], ["c", "mine", "n"])
            publish()
            assert [to.buffer(name).tolist() for name in ("w", "b", "c", "n", "mine")] == [[1], [2], [9], [8], [2]]
            a.session().end()
            b.session().end()


@pytest.mark.parametrize("over", ["unix", "grpc"])
@pytest.mark.parametrize("whole", [True, False])
def test_what_was_borrowed_is_borrowed_again_after_a_restart(over: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Daemon(grpc=True) as own, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", errors.SessionLost)
        target = own.target if over == "unix" else own.grpc_target
        own.command = [own.listen[1] if each == "grpc://127.0.0.1:0" else each for each in own.command]
        own.asked = own.listen
        with pjrtd.Client.create(own.target, session="weights", ttl=60) as client, pjrtd.Client.create(target, session="user", ttl=60) as user:
            weights, s = client.session(), user.session()
            weights.bind("w", [1.0, 2.0, 3.0, 4.0])
            weights.publish("model", ["w"], everybody=True)
            s.borrow("model", None if whole else ["w"])
            run = s.program(MODEL, ["w", "x"], outputs=["y"])
            assert run(x=X)["y"].tolist() == [1, 20, 300, 4000]
            own.restart()
            weights.publish("model", ["w"], everybody=True)
            with contextlib.suppress(errors.SessionLost):
                user.sync()
            assert run(x=X)["y"].tolist() == [1, 20, 300, 4000]
            assert s.times_lost == weights.times_lost == 1 and len(caught) == 2
            assert s.resident == ["w"]
            s.end()
            weights.end()


def test_sessions_share_from_asyncio_too(publisher: Session) -> None:
    async def use() -> None:
        async with await aio.Client.create(publisher.client.target) as client, await client.session() as session:
            own = aio.Session(publisher)
            await own.publish("model", ["w"], everybody=True)
            assert [each.name for each in await client.published()] == ["model"]
            await session.borrow("model", {"w": "v"})
            run = await session.program(MODEL, ["v", "x"], outputs=["y"])
            (values,) = [await run(fetch=["y"], x=X)]
            assert values["y"].tolist() == [1, 20, 300, 4000]
            await own.withdraw("model")
            assert not await client.published()

    asyncio.run(use())
