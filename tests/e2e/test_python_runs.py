"""Runs from Python: steps in the daemon, values as they come, left early, stacked inputs, until, and cut connections."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cutting_proxy import CuttingProxy
from daemon import PATIENCE, Daemon

import pjrtd
from pjrtd import errors

COUNT = """module @count { func.func @main(%i: tensor<i32>, %end: tensor<i32>) -> (tensor<i32>, tensor<i1>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.add %i, %one : tensor<i32>
  %1 = stablehlo.compare GE, %0, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %0, %1 : tensor<i32>, tensor<i1> } }"""
SUM = """module @sum { func.func @main(%total: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %total, %x : tensor<2xf32>
  return %0 : tensor<2xf32> } }"""
SLOW = """module @slow { func.func @main(%a: tensor<192x192xf32>, %i: tensor<i32>) -> (tensor<192x192xf32>, tensor<i32>) {
  %0 = stablehlo.dot %a, %a : (tensor<192x192xf32>, tensor<192x192xf32>) -> tensor<192x192xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.add %i, %one : tensor<i32>
  return %0, %1 : tensor<192x192xf32>, tensor<i32> } }"""
REPLICAS = """
module @replicas attributes {mhlo.num_replicas = 2 : i32} { func.func @main(%x: tensor<f32>, %d: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %d : tensor<f32>
  return %0 : tensor<f32> } }
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(grpc=True, args=["--option", "cpu_device_count=2"]) as started:
        yield started


@pytest.fixture
def session(balanced: None, target: str) -> Iterator[pjrtd.Session]:
    with pjrtd.Client.create(target) as client, client.session() as s:
        yield s


def test_steps_are_made_in_one_call(session: pjrtd.Session) -> None:
    step = session.program(COUNT, ["i", "end"], outputs=["i", "done"])
    session.bind_many({"i": np.int32(0), "end": np.int32(10**9)})
    assert step.run(1000).wait() == (1000, {})
    assert session.buffer("i").item() == 1000
    told = [(at, values["i"].item()) for at, values in step.run(25, fetch=["i"], every=10)]
    assert told == [(10, 1010), (20, 1020), (25, 1025)]
    run = step.run(5, fetch=["i", "done"])
    ((at, values),) = run
    assert (at, values["i"].item(), values["done"].item()) == (5, 1030, False)
    assert run.steps == 5 and not run.stopped and run.execute_s > 0 and run.results == {}


def test_an_output_ends_a_run(session: pjrtd.Session) -> None:
    step = session.program(COUNT, ["i", "end"], outputs=["i", "done"])
    session.bind_many({"i": np.int32(0), "end": np.int32(7)})
    run = step.run(10**6, until="done", fetch=["i"])
    assert [(at, values["i"].item()) for at, values in run] == [(7, 7)] and run.stopped


def test_stacked_inputs(session: pjrtd.Session) -> None:
    step = session.program(SUM, ["total", "x"], outputs=["total"])
    session.bind("total", np.zeros(2, np.float32))
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    sums = [values["total"].tolist() for _, values in step.run(stacked={"x": rows}, fetch=["total"], every=1)]
    assert np.array_equal(sums, np.cumsum(rows, axis=0))
    with session.client.buffer_from_host(rows) as buffer:
        assert step.run(4, stacked={"x": buffer}, fetch=["total"]).wait()[0] == 4
        with pytest.raises(errors.InvalidArgument):
            step.run(11, stacked={"x": buffer}).wait()
    with pytest.raises(errors.InvalidArgument, match=r"argument 1 must be f32\[steps,2\], and is f32\[2\]"):
        step.run(2, stacked={"x": np.zeros(2, np.float32)})
    with pytest.raises(errors.InvalidArgument, match="no input 'y'"):
        step.run(2, stacked={"y": rows})


def test_inputs_that_are_given_go_round_by_themselves(session: pjrtd.Session) -> None:
    step = session.program(COUNT, ["i", "end"], outputs=["i", "done"])
    run = step.run(10, inputs={"i": 5, "end": 100}, keep=["done"])
    assert run.wait() == (10, {})
    assert run.results["i"].item() == 15 and run.results["done"].item() is False
    assert session.resident == []


def test_a_run_is_left_early(session: pjrtd.Session) -> None:
    step = session.program(SLOW, ["a", "i"], outputs=["a", "i"])
    session.bind_many({"a": np.zeros((192, 192), np.float32), "i": np.int32(0)})
    began = time.monotonic()
    with step.run(10**7, fetch=["i"], every=5) as run:
        for at, values in run:
            assert values["i"].item() == at
            if at >= 20:
                break
    reached = session.buffer("i").item()
    assert 20 <= reached < 10**6 and time.monotonic() - began < 20 * PATIENCE
    assert list(run) == []
    del run
    for _ in step.run(10**7, fetch=["i"], every=5):
        break
    assert session.buffer("i").item() > reached
    step.advance()
    session.client.sync()


def test_a_run_that_fails_says_so(session: pjrtd.Session) -> None:
    step = session.program(COUNT, ["i", "end"], outputs=["i", "done"])
    session.bind_many({"i": np.int32(0), "end": np.int32(1)})
    with pytest.raises(errors.InvalidArgument, match="pred"):
        step.run(10, until="i").wait()
    with pytest.raises(errors.InvalidArgument, match="no output 'x'"):
        step.run(10, fetch=["x"])
    with pytest.raises(errors.InvalidArgument):
        step.run(-1)
    slow = session.program(SLOW, ["a", "i"], outputs=["a", "i"])
    session.bind("a", np.zeros((192, 192), np.float32))
    with pjrtd.deadline(0.2), pytest.raises(errors.DeadlineExceeded):
        slow.run(10**7).wait()
    assert session.buffer("i").item() > 0


def test_several_devices(session: pjrtd.Session) -> None:
    step = session.program(REPLICAS, ["x", "d"], outputs=["x"], options=pjrtd.CompileOptions(num_replicas=2))
    session.bind_many({"x": np.float32(0), "d": lambda device: np.float32(device.id + 1)})
    (told,) = step.run(10, fetch=["x"])
    assert [row["x"].item() for row in told[1]] == [10, 20]
    stacks = [np.ones(3, np.float32), np.full(3, 5, np.float32)]
    assert step.run(stacked={"d": stacks}).wait()[0] == 3
    assert session.buffer("x").item() == 13 and session.buffer("x", 1).item() == 35


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals(session: pjrtd.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    step = session.program(COUNT, ["i", "end"], outputs=["i", "done"])
    session.bind_many({"i": np.int32(0), "end": np.int32(1)})
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        monkeypatch.setattr(sys, "stderr", stream)
        step.run(100, progress=True).wait()
    monkeypatch.setattr(sys, "stderr", terminal)
    step.run(100).wait()
    assert "100/100 100%" in terminal.getvalue() and terminal.getvalue().endswith("steps/s\n")
    assert terminal.getvalue().count("\n") == 1 and file.getvalue() == ""


def test_a_run_goes_on_though_its_connection_is_cut(balanced: None, target: str, tmp_path: Path) -> None:
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="run", ttl=60) as client:
        with client.session() as s:
            step = s.program(SLOW, ["a", "i"], outputs=["a", "i"])
            s.bind_many({"a": np.zeros((192, 192), np.float32), "i": np.int32(0)})
            seen: list[int] = []
            cut_at = 100
            for at, values in step.run(600, fetch=["i"], every=2):
                assert values["i"].item() == at
                seen.append(at)
                if at >= cut_at:  # what is on its way is lost
                    cut_at = at + 40
                    proxy.cut()
            assert seen == sorted(set(seen)) and seen[-1] == 600
            assert s.buffer("i").item() == 600, "no step is lost or doubled, though values may be"
            assert proxy.made > 1
        client.session().end()
