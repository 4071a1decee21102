"""Named slots of the Python client: programs by name, lazy loaders, feed-back, several devices, and what survives what."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cutting_proxy import CuttingProxy
from daemon import Daemon

import pjrtd
from pjrtd import errors
from pjrtd.session import Session, Slot

DAEMON_SETTINGS: dict[str, object] = {}
STEP = """
module @step { func.func @main(%theta: tensor<4xf32>, %grad: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %theta, %grad : tensor<4xf32>
  return %0 : tensor<4xf32> } }
"""
LOSS = """
module @with_loss { func.func @main(%theta: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %grad: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<f32>) {
  %0 = stablehlo.add %theta, %grad : tensor<4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32> } }
"""
REPLICAS = """
module @replicas attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32> } }
"""


class Loaders:
    """Loaders that count."""

    def __init__(self, client: pjrtd.Client) -> None:
        self.client = client
        self.calls: list[str] = []

    def __call__(self, name: str, values: Any) -> Callable[[pjrtd.Device], Any]:
        def load(device: pjrtd.Device) -> Any:
            self.calls.append(name)
            return self.client.buffer_from_host(np.array(values, np.float32), device=device)

        return load


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(grpc=True, args=["--option", "cpu_device_count=2"]) as started:
        yield started


@pytest.fixture
def client(balanced: None, target: str) -> Iterator[pjrtd.Client]:
    with pjrtd.Client.create(target) as connected:
        yield connected


def test_the_seeds_example(client: pjrtd.Client) -> None:
    loaders = Loaders(client)
    with Session(client) as s:
        step = s.program(STEP, [Slot("theta"), Slot("grad")], outputs=["theta"])
        s.bind_many({"theta": loaders("theta", [0, 0, 0, 0]), "grad": loaders("grad", [1, 2, 3, 4]), "other": loaders("other", 1)})
        assert s.pending == ["grad", "other", "theta"] and s.resident == []
        for _ in range(10):
            s.feed_back(step())
        assert s.buffer("theta").tolist() == [10, 20, 30, 40]
        assert sorted(loaders.calls) == ["grad", "theta"], "only what a program names is uploaded, once"
        assert s.pending == ["other"] and s.resident == ["grad", "theta"]
        assert step.donate_alias_count == 0
        client.sync()


def test_a_step_is_one_request(client: pjrtd.Client) -> None:
    with Session(client) as s:
        step = s.program(STEP, ["theta", "grad"], outputs=["theta"])
        s.bind_many({"theta": np.zeros(4, np.float32), "grad": [1.0, 2.0, 3.0, 4.0]})
        assert step.advance() == {}
        for _ in range(2000):
            step.advance()
        client.sync()
        assert s.buffer("theta").tolist() == [2001, 4002, 6003, 8004]
        step.advance(grad=[0.0, 0.0, 0.0, 1.0])
        with client.buffer_from_host([1.0, 0.0, 0.0, 0.0]) as grad:
            step.advance(grad=grad)
        assert s.resolve("theta").tolist() == [2002, 4002, 6003, 8005]
        assert s.resolve("nothing") is None


def test_other_outputs_are_given_and_donation_goes_on(client: pjrtd.Client) -> None:
    with Session(client) as s:
        step = s.program(LOSS, [Slot("theta", "f32", [4]), "grad"], outputs=["theta", "loss"])
        s.bind_many({"theta": [0.0] * 4, "grad": [1.0] * 4})
        for number in range(1, 6):
            assert step.advance()["loss"].item() == 4 * number
        out = step()
        with pytest.raises(errors.InvalidArgument, match="donated"):
            step()["loss"].item()
        s.feed_back({"theta": out["theta"]})
        assert step.advance()["loss"].item() == 28
        assert step.fed_back == {"theta": "theta"} and step.donate_alias_count == 1
        client.sync()


def test_a_step_that_fails_leaves_its_slot(client: pjrtd.Client) -> None:
    with Session(client) as s:
        step = s.program(STEP, ["theta", "grad"], outputs=["theta"])
        s.bind_many({"theta": [0.0] * 4, "grad": [1.0] * 4})
        step.advance()
        gone = client.buffer_from_host([1.0] * 4)
        client.sync()
        client._connection.discard_buffer(gone._id, 1 << 20)
        step.advance(grad=gone)
        gone._id = b""
        step.advance()
        with pytest.raises(errors.NotFound, match="no buffer"):
            client.sync()
        assert s.buffer("theta").tolist() == [2.0] * 4


def test_what_does_not_fit_is_said(client: pjrtd.Client) -> None:
    with Session(client) as s:
        with pytest.raises(errors.InvalidArgument, match="1 input name"):
            s.program(STEP, ["theta"])
        with pytest.raises(errors.InvalidArgument, match="2 output name"):
            s.program(STEP, ["theta", "grad"], outputs=["a", "b"])
        with pytest.raises(errors.InvalidArgument, match=r"slot 'theta' takes f64 \[4\], and is f32\[4\]"):
            s.program(STEP, [Slot("theta", "f64", [4]), "grad"])
        step = s.program(STEP, ["theta", "grad"], outputs=["new"], feed_back={"new": "theta"})
        with pytest.raises(errors.NotFound, match="there is no slot 'theta'") as missing:
            step()
        assert "set_global" in missing.value.hint
        with pytest.raises(errors.InvalidArgument, match=r"unknown input\(s\) \['x'\]"):
            step(x=1)
        s.set_global("theta", client.buffer_from_host([1.0, 2.0]))
        s.bind("grad", [1.0] * 4)
        with pytest.raises(errors.InvalidArgument, match=r"argument 0 must be f32\[4\], and is slot 'theta', f32\[2\]"):
            step()
        with pytest.raises(errors.InvalidArgument, match="takes a buffer"):
            s.set_global("theta", [1.0])
        s.set_global("theta", client.buffer_from_host([1.0] * 4))
        assert step()["new"].tolist() == [2.0] * 4
        with pytest.raises(errors.InvalidArgument, match="255 bytes"):
            s.bind("x" * 256, 1.0)
        with pytest.raises(errors.NotFound, match="no slot 'x'"):
            s.unbind("x")
        s.unbind("theta")
        assert s.resident == ["grad"]
    with pytest.raises(errors.HandleClosed, match="the session is closed"):
        step()


def test_slots_among_the_arguments_of_an_executable(client: pjrtd.Client) -> None:
    with Session(client) as s:
        s.set_global("x", client.buffer_from_host([1.0, 2.0, 3.0, 4.0]))
        exe = client.compile(STEP)
        assert exe(Slot("x"), [1.0, 1.0, 1.0, 1.0])[0].tolist() == [2, 3, 4, 5]
        step = s.program_from_executable(exe, ["x", "y"])
        assert step(y=[0.5] * 4)["out0"].tolist() == [1.5, 2.5, 3.5, 4.5]


def test_slots_of_several_devices(client: pjrtd.Client) -> None:
    options = pjrtd.CompileOptions(num_replicas=2)
    with Session(client) as s:
        step = s.program(REPLICAS, ["x"], outputs=["x"], options=options)
        s.bind("x", lambda device: np.array([device.id, 10], np.float32))
        rows = step()
        assert [row["x"].tolist() for row in rows] == [[0, 20], [2, 20]]
        s.feed_back(rows)
        assert step.advance() == {}
        assert s.buffer("x").tolist() == [0, 40] and s.buffer("x", 1).tolist() == [4, 40]
        assert s.resident == ["x", "x@1"]
        s.set_global("x", client.buffers_from_host([[1.0, 1.0], [2.0, 2.0]], "f32", [2], client.devices()))
        assert [row["x"].tolist() for row in step([{}, {}])] == [[2, 2], [4, 4]]
        with pytest.raises(errors.InvalidArgument, match="got inputs for 1"):
            step([{}])
        s.unbind("x")
        assert s.resident == []


def test_non_donatable_arguments_stay(client: pjrtd.Client) -> None:
    exe = client.compile(LOSS)
    theta = client.buffer_from_host([1.0] * 4)
    assert exe(theta, [1.0] * 4, non_donatable=[0])[1].item() == 8
    assert not theta.is_deleted and theta.tolist() == [1.0] * 4
    exe(theta, [1.0] * 4)
    assert theta.is_deleted


def test_bound_slots_are_not_loaded_again(balanced: None, target: str) -> None:
    def attach(expected: list[str], total: list[float]) -> Session:
        client = pjrtd.Client.create(target, session="weights", ttl=60)
        loaders = Loaders(client)
        with client.session() as s:
            step = s.program(STEP, ["theta", "grad"], outputs=["theta"])
            s.bind_many({"theta": loaders("theta", [0, 0, 0, 0]), "grad": loaders("grad", [1, 2, 3, 4])})
            step.advance()
            assert s.buffer("theta").tolist() == total
            assert loaders.calls == expected
        client.close()
        return s

    attach(["theta", "grad"], [1, 2, 3, 4])
    attach([], [2, 4, 6, 8])
    attach([], [3, 6, 9, 12])
    with pjrtd.Client.create(target, session="weights") as client:
        client.session().end()


def test_no_step_is_lost_or_doubled_with_slots(balanced: None, target: str, tmp_path: Path) -> None:
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="cut", ttl=60) as client:
        with client.session() as s:
            step = s.program(LOSS, ["theta", "grad"], outputs=["theta", "loss"])
            quiet = s.program(STEP, ["theta", "grad"], outputs=["theta"])
            s.bind_many({"theta": [0.0] * 4, "grad": [1.0] * 4})
            for number in range(1, 1001):
                (step if number % 3 == 0 else quiet).advance()
                if number % 50 == 0:
                    proxy.cut()
                if number % 120 == 0:
                    assert s.buffer("theta").tolist() == [number] * 4
            client.sync()
            assert s.buffer("theta").tolist() == [1000.0] * 4
            assert proxy.made > 5
        client.session().end()


def test_a_session_that_was_lost_loads_again_and_goes_on(tmp_path: Path) -> None:
    with Daemon(grpc=True) as own:
        for target in (own.target, own.grpc_target):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                port = own.listen[1]
                with pjrtd.Client.create(target, session="phoenix", ttl=60) as client:
                    s = client.session()
                    loaders = Loaders(client)
                    step = s.program(STEP, ["theta", "grad"], outputs=["theta"])
                    s.bind_many({"theta": loaders("theta", [0] * 4), "grad": loaders("grad", [1] * 4)})
                    for _ in range(10):
                        step.advance()
                    assert s.buffer("theta").tolist() == [10] * 4
                    own.command = [port if each == "grpc://127.0.0.1:0" else each for each in own.command]
                    own.asked = own.listen
                    own.restart()
                    assert s.buffer("theta").tolist() == [0] * 4
                    for _ in range(10):
                        step.advance()
                    s.feed_back(step())
                    assert s.buffer("theta").tolist() == [11] * 4
                    assert loaders.calls == ["theta", "grad", "theta", "grad"] and s.times_lost == 1
                    client.sync()
                    s.set_global("plain", client.buffer_from_host([1.0]))
                    s.end()
            assert [each.category for each in caught if issubclass(each.category, errors.SessionLost)] == [errors.SessionLost]
