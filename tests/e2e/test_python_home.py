"""Where the Python client's buffers and programs go, and who goes first: a session's home and its priority."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from daemon import Daemon

import pjrtd
from pjrtd import aio, errors
from pjrtd.session import Session

ADD = """
module @add { func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32> } }
"""


@pytest.fixture(scope="module")
def spread() -> Iterator[Daemon]:
    with Daemon(grpc=True, settings={"session_home": "least_loaded"}) as started:
        yield started


def use(client: pjrtd.Client) -> int:
    """Uses a session without naming a device anywhere, and returns where it all was."""
    a, b = client.buffer_from_host([1.0, 2.0]), client.from_dlpack(np.array([3, 4], np.float32))
    exe = client.compile(ADD)
    (c,) = exe(a, b)
    with Session(client) as s:
        devices: set[int] = set()

        def load(device: pjrtd.Device) -> list[float]:
            devices.add(device.id)
            return [10.0, 20.0]

        s.bind_many({"x": load, "y": load})
        step = s.program(ADD, ["x", "y"], outputs=["x"])
        step.advance()
        step.advance(y=c)
        x = s.buffer("x")
        s.unbind("y")
        s.bind("y", load)
        y = s.buffer("y")
        assert x.tolist() == [24, 46] and y.tolist() == [10, 20]
        (total,) = step.run(2, inputs={"y": [1.0, 1.0]}, fetch=["x"])
        assert total[1]["x"].tolist() == [26, 48]
        s.unbind("x", "y")
        devices.update(each.device().id for each in (a, b, c, x, y))
        for each in (a, b, c, x, y, exe):
            each.close()
    (device,) = devices
    return device


@pytest.mark.parametrize("over", ["unix", "grpc"])
def test_sessions_spread_without_naming_a_device(spread: Daemon, over: str) -> None:
    target = spread.target if over == "unix" else spread.grpc_target
    with ExitStack() as stack:
        clients = [stack.enter_context(pjrtd.Client.create(target)) for _ in range(4)]
        for at, client in enumerate(clients):
            assert client.home_device.id == at
            assert use(client) == at
        (own,) = [each for each in clients[3].sessions() if each.own]
        assert own.home_device == 3


def test_who_attaches_has_the_sessions_home(spread: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pjrtd.Client.create(spread.target) as other, pjrtd.Client.create(spread.target, session="at-home", ttl=60) as client:
        home = client.home_device.id
        assert home != other.home_device.id
        token = client.session().token
        for target in (spread.target, spread.grpc_target):
            with pjrtd.Client.create(target) as joined:
                assert joined.session(token=token, join=True).home.id == home
                assert use(joined) == home
        client.session().end()


def test_a_home_is_chosen(balanced: None, target: str) -> None:
    with pjrtd.Client.create(target) as client, Session(client) as s:
        before = client.buffer_from_host([1.0, 2.0])
        assert client.home_device is s.home is client.devices()[0]
        s.home = client.devices()[2]
        assert use(client) == 2
        client.home_device = 1
        assert s.home is client.devices()[1] and use(client) == 1
        assert before.device().id == 0 and before.tolist() == [1, 2]
        with client.buffer_from_host([1.0, 2.0], device=0) as named:
            assert named.device().id == 0, "who names a device gets it"
            with pytest.raises(errors.InvalidArgument, match="argument 0 must be on device 1, and is on device 0"):
                client.compile(ADD)(named, named)
        with pytest.raises(errors.InvalidArgument, match="no device 77"):
            client.home_device = 77
        assert client.home_device.id == 1
        before.close()


def test_a_priority_is_chosen(balanced: None, daemon: Daemon) -> None:
    with pjrtd.Client.create(daemon.target) as client, pjrtd.Client.create(daemon.grpc_target) as remote:
        s, far = Session(client), Session(remote)
        assert s.priority == far.priority == "normal"
        s.priority = far.priority = "low"
        assert s.priority == far.priority == "low"
        s.priority = "high"
        assert s.priority == "high"
        with pytest.raises(errors.PermissionDenied, match="high priority"):
            far.priority = "high"
        with pytest.raises(errors.InvalidArgument, match="no priority 'urgent'"):
            s.priority = "urgent"
        assert (s.priority, far.priority) == ("high", "low")
        assert {each.priority for each in client.sessions()} >= {"high", "low"}


def test_a_session_that_begins_anew_is_as_it_was_told_to_be() -> None:
    with Daemon() as own, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.SessionLost)
        with pjrtd.Client.create(own.target, session="phoenix", ttl=60) as client:
            s = client.session()
            s.home, s.priority = 3, "high"
            s.bind("x", [1.0, 2.0])
            step = s.program(ADD, ["x", "x"], outputs=["x"])
            step.advance()
            own.restart()
            assert s.buffer("x").tolist() == [1, 2] and s.times_lost == 1
            s.unbind("x")
            assert (s.home.id, s.priority) == (3, "high")
            assert use(client) == 3
            client.sync()
            s.end()


def test_home_and_priority_from_asyncio(balanced: None, target: str) -> None:
    async def choose() -> None:
        async with await aio.Client.create(target) as client, await client.session() as session:
            await session.configure(home=2, priority="low")
            assert session.home.id == 2 and session.sync_session.priority == "low"
            buffer = await client.buffer_from_host([1.0, 2.0])
            exe = await client.compile(ADD)
            assert await (await exe(buffer, buffer))[0].tolist() == [2, 4]

    asyncio.run(choose())
