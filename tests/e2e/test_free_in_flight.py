"""Buffers that are freed, sessions that are closed and a daemon that stops while an execution is using them."""

from __future__ import annotations

import struct
import time

import pytest

from daemon import PATIENCE, Daemon
from raw_frames import NOT_FOUND, RawClient, deadline

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

SIZE = 1500  # a product takes a tenth of a second and more
ONES = struct.pack("<f", 1) * SIZE * SIZE
RIGHT = struct.pack("<f", SIZE) * SIZE * SIZE
MATMUL = f"""func.func @main(%a: tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32> {{
  %0 = stablehlo.dot %a, %a : (tensor<{SIZE}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32>
  return %0 : tensor<{SIZE}x{SIZE}xf32> }}"""


def prepared(client: RawClient) -> tuple[int, int]:
    return client.compile(MATMUL), client.upload("f32", [SIZE, SIZE], ONES)


def answered_first(client: RawClient, first: int, then: int) -> None:
    """Answers come in any order: the quick one's while the slow one runs."""
    assert client.receive().call == first
    client.reply(then, "Execute.Execute")


def test_by_the_same_connection(client: RawClient) -> None:
    program, ones = prepared(client)
    (result,), execute = client.start_execute(program, [ones])
    (second,), behind = client.start_execute(program, [ones])
    free = client.start("Buffer.Delete", buffers=[ones])
    answered_first(client, free, execute)
    assert client.failure("Buffer.Stat", buffer=ones).code == NOT_FOUND
    client.reply(behind, "Execute.Execute")
    assert client.download(result) == RIGHT and client.download(second) == RIGHT


def test_by_another_connection_of_the_session(daemon: Daemon, client: RawClient, over: str) -> None:
    token = client.call("Session.Open", ttl_ns=10**9).token
    program, ones = prepared(client)
    with daemon.connect(over) as other:
        other.attach(token=token, join=True)
        (result,), execute = client.start_execute(program, [ones])
        client.call("Runtime.Info")  # the execution was admitted before it
        other.call("Buffer.Delete", buffers=[ones])
        assert other.failure("Buffer.Stat", buffer=ones).code == NOT_FOUND
        download = other.start("Buffer.Download", buffer=result)
        client.reply(execute, "Execute.Execute")
        assert other.finish_download(download) == RIGHT
    client.call("Session.Close")


def test_by_somebody_else_s_session(daemon: Daemon, client: RawClient, over: str) -> None:
    program, ones = prepared(client)
    with daemon.connect(over) as other:
        (result,), execute = client.start_execute(program, [ones])
        other._last_id["buffer"] = ones
        assert other.failure("Buffer.Delete", buffers=[ones + 1000]).code == NOT_FOUND
        client.reply(execute, "Execute.Execute")
    assert client.download(result) == RIGHT and client.download(ones) == ONES


def test_the_result_is_freed_too_but_was_asked_for(client: RawClient) -> None:
    program, ones = prepared(client)
    (result,), execute = client.start_execute(program, [ones])
    download = client.start("Buffer.Download", buffer=result)
    client.start("Program.Release", programs=[program], quiet=True)
    free = client.start("Buffer.Delete", buffers=[ones, result])
    answered_first(client, free, execute)
    assert client.finish_download(download) == RIGHT


def test_a_slot_that_gets_something_else(client: RawClient) -> None:
    program, ones = prepared(client)
    client.call("Session.Bind", bindings=[dict(slot="a", buffer=ones)])
    client.call("Buffer.Delete", buffers=[ones])
    (result,), execute = client.start_execute(program, [0], slot_args=[dict(position=0, slot="a")])
    unbind = client.start("Session.Unbind", slots=["a"])
    answered_first(client, unbind, execute)
    assert client.download(result) == RIGHT


def test_the_session_is_closed(daemon: Daemon, client: RawClient) -> None:
    program, ones = prepared(client)
    (result,), execute = client.start_execute(program, [ones])
    close = client.start("Session.Close")
    assert client.reply(close, "Session.Close").buffers_freed == 2
    client.reply(execute, "Execute.Execute")  # it ends, for nobody
    client.call("Session.Open")
    assert client.failure("Buffer.Download", buffer=result).code == NOT_FOUND
    assert client.download(client.upload("u8", [3], b"abc")) == b"abc"


def test_the_daemon_stops_with_all_of_that(over: str) -> None:
    """Buffers of connected clients, of kept sessions, in slots, and in an execution: it ends with 0, and nothing is said by
    a sanitizer or the C library."""
    with Daemon(over=over, settings={"drain_seconds": 10}) as own:
        with own.connect() as kept:
            kept.call("Session.Open", ttl_ns=60 * 10**9)
            program, ones = prepared(kept)
            kept.call("Session.Bind", bindings=[dict(slot="a", buffer=ones)])
        with own.connect() as idle, own.connect() as client:
            idle.upload("u8", [1 << 20], bytes(1 << 20))
            program, ones = prepared(client)
            _, execute = client.start_execute(program, [ones])
            client.start("Buffer.Delete", buffers=[ones], quiet=True)
            client.call("Runtime.Info")
            time.sleep(0.02)
            with deadline(8 * PATIENCE, "the stop"):
                own.stop()
            (answer,) = [frame for frame in client.receive_until_closed() if frame.call == execute]
            assert answer.kind == 2, "it had time to end"
