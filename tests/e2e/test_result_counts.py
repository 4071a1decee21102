"""Programs without results, with one and with hundreds; zero-sized values in every place."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import pjrtd
from case_programs import case, elementwise, many_results
from daemon import Daemon
from raw_frames import RawClient

pytestmark = [pytest.mark.every_plugin, pytest.mark.usefixtures("balanced", "bystander")]


@pytest.mark.parametrize("count", [1, 2, 16, 17, 32, 33, 600])
def test_results_keep_their_order(client: RawClient, count: int) -> None:
    program = client.compile(many_results(count))
    assert len(client.call("Program.Describe", program=program).outputs) == count
    argument = client.upload("s32", [], struct.pack("<i", 1000))
    outputs = client.execute(program, [argument], count)
    values = [struct.unpack("<i", client.download(buffer))[0] for buffer in outputs]
    assert values == list(range(1000, 1000 + count))
    if count == 600:
        assert sum(values) == 779700
    _, call = client.start_execute(program, [argument], outputs=[], fetch=list(range(count)))
    assert struct.unpack(f"<{count}i", client.answer(call).bulk) == tuple(range(1000, 1000 + count))
    client.call("Buffer.Delete", buffers=outputs)


def test_600_results_through_the_python_client(target: str) -> None:
    with pjrtd.Client.create(target) as client:
        program = client.compile(many_results(600))
        outputs = program(np.int32(1000))
        assert [int(output.numpy()) for output in outputs] == list(range(1000, 1600))


def test_no_arguments_and_no_results(client: RawClient, daemon: Daemon) -> None:
    program = client.compile(case("no_results").text)
    for _ in range(3):
        assert client.execute(program, [], 0) == []
    reply = client.call("Execute.Execute", program=program)
    assert not reply.fetched and not reply.consumed
    with pjrtd.Client.create(daemon.target) as python:
        assert python.compile(case("no_results").text)() == ()


@pytest.mark.parametrize("dims", [(0,), (0, 0), (3, 0), (0, 3), (1, 0, 1)])
def test_empty_arguments_and_results(client: RawClient, dims: tuple[int, ...]) -> None:
    program = client.compile(elementwise("f32", dims))
    argument = client.upload("f32", dims, b"")
    (result,) = client.execute(program, [argument])
    assert client.download(result) == b""
    assert tuple(client.call("Buffer.Stat", buffer=result).type.dims) == dims
    inline = dict(position=0, type=dict(dtype=11, dims=dims), data_bytes=0)
    _, call = client.start_execute(program, [0], outputs=[], inline_args=[inline], fetch=[0])
    assert client.answer(call).bulk == b""


def test_empty_numpy_arrays_in_every_form(target: str) -> None:
    the = case("zero_size")
    with pjrtd.Client.create(target) as client:
        program = client.compile(the.text)
        empty, hollow, three = np.zeros(0, np.float32), np.zeros((2, 0, 3), np.float32), np.array([1, 2, 3], np.float32)
        for a, b in ((empty, hollow), (np.ones(4, np.float32)[4:], np.ones((3, 0, 2), np.float32).T)):
            for outputs in (program(a, b, three),
                            program(client.buffer_from_host(a), client.buffer_from_host(b), client.buffer_from_host(three))):
                first, second, third, fourth = (output.numpy() for output in outputs)
                assert first.tolist() == [1, 2, 3] and second.shape == () and second == 0
                assert third.tolist() == [[0, 0, 0], [0, 0, 0]] and fourth.shape == (2, 0, 3)
        for data in (b"", bytearray(), memoryview(b"")):
            with client.buffer_from_host(data, pjrtd.DType.F32, [0]) as buffer:
                assert buffer.nbytes == 0 and buffer.numpy().shape == (0,)
                buffer.to_host(bytearray())
        with client.buffer_from_host([], pjrtd.DType.F32, [2, 0]) as buffer:
            assert buffer.tolist() == [[], []]
