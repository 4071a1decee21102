"""Execute checks count, element type, dimensions, device and liveness of every argument before the plugin sees it: the
plugin itself compares byte sizes only."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

import pjrtd
from bystander import Bystander
from case_programs import case
from daemon import Daemon
from raw_frames import INVALID_ARGUMENT, NOT_FOUND, CallFailed, RawClient

pytestmark = pytest.mark.usefixtures("balanced", "bystander")

WRONG_SECOND_ARGUMENTS = [
    ("s32", (4,), 16), ("f64", (2,), 16), ("f32", (2, 2), 16), ("f32", (2,), 8), ("bf16", (4,), 8), ("f32", (), 4),
    ("u32", (4,), 16), ("c64", (2,), 16), ("f32", (4, 1), 16), ("f32", (1, 4), 16), ("f32", (0,), 0), ("s8", (16,), 16),
    ("f32", (8,), 32), ("c128", (1,), 16), ("pred", (16,), 16), ("f32", (4, 1, 1), 16), ("f32", (4, 0), 0),
]


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@pytest.mark.every_plugin
@pytest.mark.parametrize("dtype,dims,size", WRONG_SECOND_ARGUMENTS)
def test_a_wrong_type_is_named(client: RawClient, dtype: str, dims: tuple[int, ...], size: int) -> None:
    program = client.compile(case("add").text)
    first = client.upload("f32", [4], floats(1, 2, 3, 4))
    wrong = client.upload(dtype, dims, bytes(size))
    outputs, call = client.start_execute(program, [first, wrong])
    failed = client.failure_of(call)
    actual = f"{dtype}[{','.join(map(str, dims))}]"
    assert failed.code == INVALID_ARGUMENT
    assert (failed.detail.argument.index, failed.detail.argument.expected, failed.detail.argument.actual) == (1, "f32[4]", actual)
    assert "f32[4]" in failed.message and actual in failed.message and "1" in failed.message
    assert client.download(first) == floats(1, 2, 3, 4), "a refused call leaves its arguments alive"
    again = client.failure("Buffer.Download", buffer=outputs[0])
    assert (again.code, again.message, again.detail.origin_call) == (failed.code, failed.message, call)


@pytest.mark.every_plugin
@pytest.mark.parametrize("dtype,dims,size", WRONG_SECOND_ARGUMENTS)
def test_a_wrong_inline_type_is_named(client: RawClient, dtype: str, dims: tuple[int, ...], size: int) -> None:
    import wire_messages as wire

    program = client.compile(case("add").text)
    first = client.upload("f32", [4], floats(1, 2, 3, 4))
    _, call = client.start_execute(
        program, [first, 0], bulk=bytes(size),
        inline_args=[dict(position=1, type=dict(dtype=wire.dtype_numbers()[dtype], dims=dims), data_bytes=size)],
    )
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT and failed.detail.argument.index == 1
    assert failed.detail.argument.expected == "f32[4]"


@pytest.mark.parametrize("count", [0, 1, 3, 4, 100, 5000])
def test_wrong_counts_give_both(client: RawClient, count: int) -> None:
    the = case("unused_argument_dropped")
    program = client.compile(the.text)
    buffers = [client.upload("f32", [2], the.args[0].data), client.upload("f32", [2], the.args[1].data)]
    _, call = client.start_execute(program, (buffers * (count // 2 + 1))[:count])
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT
    assert str(count) in failed.message and "2" in failed.message
    (result,) = client.execute(program, buffers)
    assert struct.unpack("<2f", client.download(result)) == (9, 18)


def test_what_jax_drops_shows_in_the_description(daemon: Daemon) -> None:
    """jax.jit drops unused parameters when it lowers; with keep_unused it does not."""
    import jax

    def subtract(a, unused, b):  # noqa: ANN001, ANN202
        return a - b

    values = np.array([10, 20], np.float32), np.array([5, 5], np.float32), np.array([1, 2], np.float32)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        dropped = jax.jit(subtract).lower(*values).as_text()
        kept = jax.jit(subtract, keep_unused=True).lower(*values).as_text()
    with daemon.connect() as client:
        for text, right_count in ((dropped, 2), (kept, 3)):
            program = client.compile(text)
            assert len(client.call("Program.Describe", program=program).args) == right_count
            buffers = [client.upload("f32", [2], value.tobytes()) for value in values]
            chosen = [buffers[0], buffers[2]] if right_count == 2 else buffers
            wrong = buffers if right_count == 2 else [buffers[0], buffers[2]]
            _, call = client.start_execute(program, wrong)
            failed = client.failure_of(call)
            assert failed.code == INVALID_ARGUMENT and str(len(wrong)) in failed.message and str(right_count) in failed.message
            assert struct.unpack("<2f", client.download(client.execute(program, chosen)[0])) == (9, 18)


def test_arguments_on_another_device(client: RawClient) -> None:
    program = client.compile(case("add").text)
    here = client.upload("f32", [4], floats(1, 2, 3, 4), device=0)
    there = client.upload("f32", [4], floats(5, 6, 7, 8), device=1)
    _, call = client.start_execute(program, [here, there])
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT and failed.detail.argument.index == 1
    assert "0" in failed.detail.argument.expected and "1" in failed.detail.argument.actual
    elsewhere = client.compile(case("add").text, options=dict(device_assignment=[1]))
    _, call = client.start_execute(elsewhere, [here, there])
    assert client.failure_of(call).detail.argument.index == 0
    (result,) = client.execute(elsewhere, [there, there])
    assert client.download(result) == floats(10, 12, 14, 16)
    assert client.call("Buffer.Stat", buffer=result).device == 1


def test_ids_that_name_nothing(client: RawClient, bystander: Bystander) -> None:
    """An id out of thin air, of another session and a deleted one get the same answer."""
    client._last_id["buffer"] = 1000  # the bystander's ids are other numbers
    program = client.compile(case("add").text)
    good = client.upload("f32", [4], floats(1, 2, 3, 4))
    deleted = client.upload("f32", [4], floats(1, 2, 3, 4))
    client.call("Buffer.Delete", buffers=[deleted])
    seen = set()
    for missing in (deleted, bystander.kept, 2**64 - 1, client.hello.id_prefix << 48 | 2**40, 12345):
        _, call = client.start_execute(program, [good, missing])
        failed = client.failure_of(call)
        assert failed.code == NOT_FOUND, (hex(missing), failed)
        seen.add(failed.message.removesuffix(str(missing)))
    assert len(seen) == 1, seen
    client._last_id["program"] = 1000
    client.call("Program.Release", programs=[program])
    _, call = client.start_execute(bystander.program, [good, good])
    assert client.failure_of(call).code == NOT_FOUND


def test_a_zero_id_without_an_inline_argument(client: RawClient) -> None:
    program = client.compile(case("add").text)
    good = client.upload("f32", [4], floats(1, 2, 3, 4))
    _, call = client.start_execute(program, [good, 0])
    assert client.failure_of(call).code in (INVALID_ARGUMENT, NOT_FOUND)


@pytest.mark.parametrize("inline,size", [
    ([dict(position=2, type=dict(dtype=11, dims=[4]), data_bytes=16)], 16),
    ([dict(position=2**32 - 1, type=dict(dtype=11, dims=[4]), data_bytes=16)], 16),
    ([dict(position=0, type=dict(dtype=11, dims=[4]), data_bytes=16)], 16),
    ([dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)] * 2, 32),
    ([dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)], 0),
    ([dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=16)], 17),
    ([dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=2**64 - 16), dict(position=0)], 16),
    ([dict(position=1, type=dict(dtype=11, dims=[4]), data_bytes=2**64 - 1)], 16),
    ([dict(position=1, data_bytes=16)], 16),
    ([], 16),
])
def test_inline_arguments_that_contradict_the_list(client: RawClient, inline: list[dict], size: int) -> None:
    """A position beyond the list, over an id, twice; bulk that is missing, too long, or overflows; none at all."""
    program = client.compile(case("add").text)
    good = client.upload("f32", [4], floats(1, 2, 3, 4))
    _, call = client.start_execute(program, [good, 0], inline_args=inline, bulk=bytes(size))
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, NOT_FOUND), failed
    assert client.download(good) == floats(1, 2, 3, 4)


def test_inline_arguments_alone_and_beside_ids(client: RawClient) -> None:
    program = client.compile(case("unused_argument_dropped").text)
    first = dict(position=0, type=dict(dtype=11, dims=[2]), data_bytes=8)
    second = dict(position=1, type=dict(dtype=11, dims=[2]), data_bytes=8)
    (result,) = client.execute(program, [0, 0], inline_args=[first, second], bulk=floats(10, 20, 1, 2))
    assert client.download(result) == floats(9, 18)
    _, call = client.start_execute(program, [0, 0], inline_args=[second, first], bulk=floats(1, 2, 10, 20))
    assert client.failure_of(call).code == INVALID_ARGUMENT, "positions increase"
    kept = client.upload("f32", [2], floats(10, 20))
    (result,) = client.execute(program, [kept, 0], inline_args=[second], bulk=floats(1, 2))
    assert client.download(result) == floats(9, 18)


def test_results_in_the_reply(client: RawClient) -> None:
    program = client.compile(case("divide_by_zero").text)
    a, b = (client.upload("s32", [4], arg.data) for arg in case("divide_by_zero").args)
    rights = [output.data for output in case("divide_by_zero").outputs]
    for fetch in ([0], [1], [0, 1], [1, 0]):
        _, call = client.start_execute(program, [a, b], 2, fetch=fetch)
        answered = client.answer(call)
        reply = __import__("wire_messages").message_class("ExecuteReply").FromString(answered.payload)
        assert [fetched.position for fetched in reply.fetched] == fetch
        assert [(f.type.dtype, list(f.type.dims), f.data_bytes) for f in reply.fetched] == [(4, [4], 16)] * len(fetch)
        assert answered.bulk == b"".join(rights[position] for position in fetch)
    _, call = client.start_execute(program, [a, b], 0, fetch=[1], outputs=[])
    assert client.answer(call).bulk == rights[1]
    kept, call = client.start_execute(program, [a, b], outputs=[0, client.new_buffer()], fetch=[0])
    assert client.answer(call).bulk == rights[0]
    assert client.download(kept[1]) == rights[1]


@pytest.mark.parametrize("fetch", [[2], [2**32 - 1], [0, 0], [0] * 100])
def test_fetches_that_cannot_be(client: RawClient, fetch: list[int]) -> None:
    program = client.compile(case("divide_by_zero").text)
    a, b = (client.upload("s32", [4], arg.data) for arg in case("divide_by_zero").args)
    _, call = client.start_execute(program, [a, b], 2, fetch=fetch)
    if fetch[0] == 0:  # the same output twice: refused, or given twice
        try:
            assert len(client.answer(call).bulk) == 16 * len(fetch)
        except CallFailed as failed:
            assert failed.code == INVALID_ARGUMENT
    else:
        assert client.failure_of(call).code == INVALID_ARGUMENT


@pytest.mark.parametrize("outputs", [1, 3, 100])
def test_a_wrong_number_of_output_ids(client: RawClient, outputs: int) -> None:
    program = client.compile(case("divide_by_zero").text)
    a, b = (client.upload("s32", [4], arg.data) for arg in case("divide_by_zero").args)
    _, call = client.start_execute(program, [a, b], outputs)
    failed = client.failure_of(call)
    assert failed.code == INVALID_ARGUMENT and str(outputs) in failed.message and "2" in failed.message


def test_a_fetch_beyond_what_a_reply_carries(client: RawClient) -> None:
    from case_programs import elementwise

    program = client.compile(elementwise("f32", (16 * 1024 + 1,)))
    a = client.upload("f32", [16 * 1024 + 1], np.ones(16 * 1024 + 1, np.float32).tobytes())
    _, call = client.start_execute(program, [a], 1, fetch=[0])
    failed = client.failure_of(call)
    assert failed.code in (INVALID_ARGUMENT, 8)
    program = client.compile(elementwise("f32", (16 * 1024,)))
    a = client.upload("f32", [16 * 1024], np.ones(16 * 1024, np.float32).tobytes())
    _, call = client.start_execute(program, [a], 1, fetch=[0])
    assert client.answer(call).bulk == np.full(16 * 1024, 2, np.float32).tobytes()


def test_the_python_client_says_what_was_wrong(target: str) -> None:
    with pjrtd.Client.create(target) as client:
        program = client.compile(case("add").text)
        good = np.array([1, 2, 3, 4], np.float32)
        for wrong in (np.zeros(4, np.int32), np.zeros(2), np.zeros((2, 2), np.float32), np.zeros(2, np.float32),
                      np.zeros(4, ml_dtypes.bfloat16), np.float32(1)):
            with client.buffer_from_host(good) as a, client.buffer_from_host(np.asarray(wrong)) as b:
                with pytest.raises(pjrtd.errors.InvalidArgument, match=r"f32\[4\]"):
                    program(a, b)
            with pytest.raises((pjrtd.errors.InvalidArgument, TypeError, ValueError), match=r"f32\[4\]|argument 1"):
                program(good, wrong)
        for count in (0, 1, 3):
            with pytest.raises(pjrtd.errors.InvalidArgument, match="2"):
                program(*[good] * count)
        (result,) = program(good, good)
        assert result.numpy().tolist() == [2, 4, 6, 8]


@pytest.mark.every_plugin
def test_a_tuple_argument_is_described_as_unsupported(client: RawClient) -> None:
    program = client.compile(case("tuple_argument").text)
    described = client.call("Program.Describe", program=program)
    assert any(arg.unsupported for arg in described.args)
    for count in (0, 1, 2):
        buffers = [client.upload("f32", [2], floats(1, 2)) for _ in range(count)]
        _, call = client.start_execute(program, buffers)
        assert client.failure_of(call).code == INVALID_ARGUMENT
