"""Futures and the asyncio client: order, errors, cancelling, values, callbacks, and connections that are cut."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cutting_proxy import CuttingProxy
from daemon import PATIENCE, Daemon

import pjrtd
from pjrtd import aio, errors
from pjrtd.session import Slot

ADD_ONE = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %y = stablehlo.add %x, %one : tensor<f32>
  return %y : tensor<f32>
}
"""
TWO = """
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<100000xf32>) {
  %y = stablehlo.add %x, %x : tensor<f32>
  %all = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<100000xf32>
  return %y, %all : tensor<f32>, tensor<100000xf32>
}
"""
# Takes about a second.
SLOW = """
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %rounds = stablehlo.constant dense<100000000> : tensor<i32>
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
  return %r#1 : tensor<f32>
}
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def client(balanced: None, target: str) -> Iterator[pjrtd.Client]:
    with pjrtd.Client.create(target) as connected:
        yield connected


def gone(client: pjrtd.Client) -> "pjrtd.Buffer":
    """A buffer that the daemon has not got."""
    buffer = client.buffer_from_host(1.0, "f32")
    client._connection.discard_buffer(buffer._id, 1 << 20)
    client.sync()
    return buffer


def test_hundreds_are_under_way_and_order_holds(client: pjrtd.Client) -> None:
    exe = client.compile(ADD_ONE)
    value = client.buffer_from_host(0.0, "f32")
    futures = []
    for _ in range(1500):
        (value,) = exe(value)
        futures.append(exe.submit(value, fetch=True))
    assert [future.result()[0].item() for future in futures] == [float(n) for n in range(2, 1502)]


def test_values_and_buffers(client: pjrtd.Client) -> None:
    exe = client.compile(TWO)
    both = exe.submit(3.0, fetch=True).result()
    assert both[0].item() == 6 and np.array_equal(both[1].numpy(), np.full(100_000, 3, np.float32))
    buffers = exe.submit(3.0).result()
    assert buffers[0].item() == 6 and isinstance(buffers[1], pjrtd.Buffer)
    mixed = exe.submit(3.0, fetch=[0]).result(timeout=20 * PATIENCE)
    assert isinstance(mixed[0], pjrtd.Value) and isinstance(mixed[1], pjrtd.Buffer)
    assert mixed[0].shape == () and float(mixed[0]) == 6 and mixed[0].tolist() == 6
    out = np.empty(100_000, np.float32)
    assert mixed[1].to_host_async(out).result() is out and out[99_999] == 3
    with pytest.raises(errors.InvalidArgument, match="no result 2"):
        exe.submit(3.0, fetch=[2])


def test_a_poisoned_result_carries_the_first_error(client: pjrtd.Client) -> None:
    exe = client.compile(ADD_ONE)
    lost = gone(client)
    first = exe.submit(lost)
    with pytest.raises(errors.NotFound, match="no buffer") as failed:
        first.result()
    again = first.exception()
    assert again is not None and again.message == failed.value.message
    (value,) = exe(lost)
    for _ in range(10):
        (value,) = exe(value)
    last = exe.submit(value, fetch=True)
    with pytest.raises(errors.NotFound, match="no buffer") as failed:
        last.result()
    assert failed.value.origin_call
    client.sync()
    lost._id = b""


def test_timeouts_and_cancelling(client: pjrtd.Client) -> None:
    exe = client.compile(SLOW)
    slow = exe.submit(1.0, fetch=True)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        slow.result(timeout=0.05)
    assert time.monotonic() - began < 0.5 and not slow.done()
    waiting = exe.submit(2.0)
    assert waiting.cancel()
    with pytest.raises(errors.Cancelled):
        waiting.result()
    assert waiting.cancelled() and not waiting.cancel()
    assert slow.result()[0].item() == 1.0
    assert slow.done() and not slow.cancelled()
    with pytest.raises(errors.DeadlineExceeded):
        exe.submit(3.0, timeout=0.05).result()


def test_callbacks_run_though_nobody_waits(client: pjrtd.Client) -> None:
    exe = client.compile(ADD_ONE)
    seen: list[float] = []
    all_there = threading.Event()

    def note(future: "pjrtd.Future[tuple[pjrtd.Value]]") -> None:
        seen.append(future.result()[0].item())
        if len(seen) == 100:
            all_there.set()

    for number in range(100):
        exe.submit(float(number), fetch=True).add_done_callback(note)
    assert all_there.wait(20 * PATIENCE)
    assert sorted(seen) == [float(n) for n in range(1, 101)]
    late: list[bool] = []
    future = exe.submit(1.0)
    future.result()
    future.add_done_callback(lambda done: late.append(done.done()))
    assert late == [True]


def test_done_becomes_true_by_itself(client: pjrtd.Client) -> None:
    future = client.compile(ADD_ONE).submit(1.0)
    give_up = time.monotonic() + 20 * PATIENCE
    while not future.done():
        assert time.monotonic() < give_up
    assert future.result()[0].item() == 2


def test_a_dropped_future_leaves_nothing(client: pjrtd.Client) -> None:
    exe = client.compile(TWO)
    for _ in range(50):
        exe.submit(1.0, fetch=[0])
    client.sync()
    with client.buffer_from_host(1.0):
        pass
    client.sync()
    assert client.stats()["buffers"] <= 1


def test_a_closed_client_ends_futures(balanced: None, target: str) -> None:
    client = pjrtd.Client.create(target)
    exe = client.compile(SLOW)
    future = exe.submit(1.0)
    told = threading.Event()
    future.add_done_callback(lambda _: told.set())
    client.close()
    with pytest.raises(errors.HandleClosed):
        future.result()
    assert told.wait(10 * PATIENCE)


def test_programs_give_futures_by_name(client: pjrtd.Client) -> None:
    with client.session() as s:
        step = s.program(ADD_ONE, ["x"], outputs=["x"])
        s.bind("x", np.float32(0))
        assert step.submit(fetch=["x"]).result()["x"].item() == 1
        futures = [step.submit(fetch=["x"], advance=True) for _ in range(100)]
        assert [future.result()["x"].item() for future in futures] == [float(n) for n in range(1, 101)]
        assert step.submit(advance=True).result() == {}
        assert s.buffer("x").item() == 101
        assert step.submit(x=5.0).result()["x"].item() == 6
        with pytest.raises(errors.InvalidArgument, match="no output 'y'"):
            step.submit(fetch=["y"])


def test_values_whose_answer_was_lost_are_asked_for_again(balanced: None, daemon: Daemon, target: str, tmp_path: Path) -> None:
    """No step is doubled by that: each adds one."""
    with CuttingProxy(tmp_path, target) as proxy, pjrtd.Client.create(proxy.target, session="values", ttl=60) as client:
        with client.session() as s:
            step = s.program(ADD_ONE, ["x"], outputs=["x"])
            s.bind("x", np.float32(0))
            step.advance()
            client.sync()
            got: list[float] = []
            waiting: list[pjrtd.Future[dict[str, pjrtd.Value]]] = []
            for number in range(1, 601):
                waiting.append(step.submit(fetch=["x"], advance=True))
                if number % 40 == 0:
                    proxy.cut()
                if len(waiting) > 20:
                    got.append(waiting.pop(0).result()["x"].item())
            got += [future.result()["x"].item() for future in waiting]
            assert got == [float(n) for n in range(2, 602)]
            assert proxy.made > 5
        client.session().end()


# ---- asyncio ----


def test_asyncio(balanced: None, target: str) -> None:
    async def main() -> None:
        async with await aio.Client.create(target) as client:
            exe = await client.compile(ADD_ONE)
            value = await client.buffer_from_host(1.0, "f32")
            (out,) = await exe(value)
            assert await out.item() == 2 and out.shape == ()
            outs = await asyncio.gather(*(exe(float(n), fetch=True) for n in range(300)))
            assert [each[0].item() for each in outs] == [n + 1.0 for n in range(300)]
            big = await client.buffer_from_host(np.arange(500_000, dtype=np.float32))
            assert np.array_equal(await big.numpy(), np.arange(500_000, dtype=np.float32))
            assert (await (await client.compile(ADD_ONE))(value))[0].dtype == pjrtd.DType.F32
            with pytest.raises(errors.InvalidArgument):
                await exe(big)
            with pytest.raises(errors.InvalidArgument, match="parse"):
                await client.compile("nonsense")
            session = await client.session()
            async with session as s:
                step = await s.program(ADD_ONE, ["x"], outputs=["x"])
                s.bind("x", 0.0)
                for number in range(10):
                    assert (await step.advance(fetch=["x"]))["x"].item() == number + 1
                assert await (await s.buffer("x")).item() == 10
                await s.set_global("x", value)
                assert (await step(fetch=["x"]))["x"].item() == 2
            await client.sync()
            out.close()

    asyncio.run(main())


def test_a_loop_goes_on_while_calls_are_awaited(balanced: None, target: str) -> None:
    async def main() -> None:
        async with await aio.Client.create(target) as client:
            slow = await client.compile(SLOW)
            ticks = 0
            call = asyncio.ensure_future(slow(1.0))
            while not call.done():
                await asyncio.sleep(0.01)
                ticks += 1
            assert (await (await call)[0].item()) == 1 and ticks > 5
            call = asyncio.ensure_future(slow(1.0))
            behind = asyncio.ensure_future(slow(2.0))
            await asyncio.sleep(0.05)
            behind.cancel()
            with pytest.raises(asyncio.CancelledError):
                await behind
            with pytest.raises(TimeoutError), pjrtd.deadline(0.1):
                await slow(3.0)
            assert (await call)[0].shape == ()

    asyncio.run(main())


def test_a_sync_future_is_awaited_in_any_loop(balanced: None, target: str) -> None:
    with pjrtd.Client.create(target) as client:
        exe = client.compile(ADD_ONE)

        async def main(number: float) -> float:
            results = await asyncio.gather(*(exe.submit(number + n, fetch=True) for n in range(10)))
            return sum(value.item() for (value,) in results)

        assert [asyncio.run(main(float(n))) for n in range(3)] == [55.0, 65.0, 75.0]
