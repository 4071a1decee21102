"""Against a real daemon on a real plugin, over each transport: values of every type, arguments, donation, results, deadlines."""

from __future__ import annotations

import gc
import os
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from conftest import PATIENCE

import pjrtd
from pjrtd import DType, errors

pytestmark = pytest.mark.live

ADD = """
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
DONATE = """
module @donate_first {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def test_the_daemon_says_what_it_serves(client: pjrtd.Client) -> None:
    assert client.platform_name == "cpu" and client.device_count == 2 and client.process_index == 0
    assert client.plugin.api_version[0] == 0 and client.plugin.api_version[1] > 80
    assert client.plugin.stablehlo_target("max").count(".") == 2
    assert client.plugin.extension("megascale") is None
    assert client.server_pid > 1 and client.server_epoch
    assert client.plugin.create_options["cpu_device_count"] == 2
    for device in client.devices():
        assert device.default_memory() in device.memories()


@pytest.mark.parametrize("dtype", [d for d in DType.members() if d is not DType.TOKEN], ids=str)
def test_values_of_every_element_type_come_back(client: pjrtd.Client, dtype: DType) -> None:
    """Up and down again, and both views of it. Types that this plugin does not hold say so."""
    rng = np.random.default_rng(int(dtype))
    if dtype is DType.PRED:
        raw = rng.integers(0, 2, 12, np.uint8)
    elif dtype.bits < 8 and dtype.name[0] == "s":
        raw = rng.integers(-(1 << dtype.bits - 1), 1 << dtype.bits - 1, 12, np.int8).view(np.uint8)
    else:
        top = 1 << dtype.bits if dtype.bits < 8 else 256
        raw = rng.integers(0, top, 12 * dtype.itemsize, np.uint8)
    try:
        with client.buffer_from_host(raw, dtype, [3, 4]) as buffer:
            data = buffer.to_host()
            assert data == raw.tobytes()
            array, values = buffer.numpy(), buffer.tolist()
    except (errors.Unimplemented, errors.InvalidArgument) as error:
        assert dtype.bits == 1 or dtype.name.startswith("f6"), error  # what the XLA CPU plugin does not have
        return
    assert array.dtype == dtype.dtype and array.shape == (3, 4)
    kinds = {"c": np.complex128, "f": np.float64, "b": np.float64, "u": np.uint64}
    wide = array.astype(kinds.get(dtype.name[0], np.int64))
    assert np.array_equal(np.array(values, wide.dtype), wide, equal_nan=dtype.name[0] in "cfb")


def test_nan_payloads_keep_their_bits(client: pjrtd.Client) -> None:
    bits = bytes.fromhex("0100c07f4523c1ff0000807f000080ff00000080010000000100807f")
    with client.buffer_from_host(bits, "f32", [7]) as buffer:
        assert buffer.to_host() == bits


def test_arguments_by_value_and_by_buffer(client: pjrtd.Client) -> None:
    with client.compile(ADD) as add, client.buffer_from_host([1.0, 2.0, 3.0, 4.0]) as a:
        for second in (a, [1.0, 2.0, 3.0, 4.0], np.arange(1, 5, dtype=np.float32)):
            (out,) = add(a, second)
            assert out.tolist() == [2.0, 4.0, 6.0, 8.0]
            out.close()


def test_large_arguments_travel_in_pieces(client: pjrtd.Client) -> None:
    text = "func.func @main(%a: tensor<300000xf32>) -> tensor<300000xf32> { return %a : tensor<300000xf32> }"
    value = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    with client.compile(text) as same:
        (out,) = same(value)
        assert (out.numpy() == value).all()
        out.close()


def test_the_daemon_checks_arguments_itself(client: pjrtd.Client) -> None:
    """What the client would have refused."""
    wrong = [np.zeros(4, np.int32), np.zeros(2, np.float64), np.zeros((2, 2), np.float32), np.float32(1), np.zeros(4, ml_dtypes.bfloat16)]
    with client.compile(ADD) as add, client.buffer_from_host(np.zeros(4, np.float32)) as a:
        for value in wrong:
            with client.buffer_from_host(value) as b:
                with pytest.raises(errors.InvalidArgument) as caught:
                    add._call_unchecked(a, b)  # pyright: ignore[reportPrivateUsage]
                detail = caught.value.argument
                assert detail is not None and detail.index == 1 and detail.expected == "f32[4]"
                with pytest.raises(errors.InvalidArgument) as here:
                    add(a, b)
                assert here.value.argument == detail  # both say the same
        with client.buffer_from_host(np.zeros(4, np.float32), device=1) as b, pytest.raises(errors.InvalidArgument):
            add._call_unchecked(a, b)  # pyright: ignore[reportPrivateUsage]
        for count in (0, 1, 3):
            with pytest.raises(errors.InvalidArgument):
                add._call_unchecked(*[a] * count)  # pyright: ignore[reportPrivateUsage]


def test_donation(client: pjrtd.Client) -> None:
    with client.compile(DONATE) as step, client.buffer_from_host([10.0, 20.0, 30.0, 40.0]) as b:
        assert [tensor.donated for tensor in step.arguments] == [True, False]
        a = client.buffer_from_host([1.0, 2.0, 3.0, 4.0])
        with pytest.raises(errors.InvalidArgument, match="donated"):
            step(a, a)
        assert a.tolist() == [1.0, 2.0, 3.0, 4.0]
        with pytest.raises(errors.InvalidArgument):
            step(a)
        (out,) = step(a, b)
        assert out.tolist() == [11.0, 22.0, 33.0, 44.0]
        assert a.is_deleted and not b.is_deleted
        with pytest.raises(errors.HandleClosed, match="donated"):
            a.to_host()
        with pytest.raises(errors.HandleClosed, match="donated"):
            step(a, b)
        a.close()
        out.close()


def test_a_thousand_steps_keep_two_buffers(client: pjrtd.Client) -> None:
    before = client.stats()["buffers"]
    with client.compile(DONATE) as step, client.buffer_from_host([10.0, 20.0, 30.0, 40.0]) as b:
        a = client.buffer_from_host([1.0, 2.0, 3.0, 4.0])
        for _ in range(1000):
            (a,) = step(a, b)  # the old one was consumed
        assert a.tolist() == [10001.0, 20002.0, 30003.0, 40004.0]
        assert client.stats()["buffers"] == before + 2
        a.close()


def test_results_none_tuple_and_many(client: pjrtd.Client) -> None:
    with client.compile("func.func @main() { return }") as none:
        assert none() == ()
    text = """func.func @main(%a: tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<i32>> {
      %c = stablehlo.constant dense<7> : tensor<i32>
      %0 = stablehlo.tuple %a, %c : tuple<tensor<2xf32>, tensor<i32>>
      return %0 : tuple<tensor<2xf32>, tensor<i32>> }"""
    with client.compile(text) as exe:
        first, second = exe([1.0, 2.0])
        assert (first.tolist(), second.item()) == ([1.0, 2.0], 7)
        first.close(), second.close()
    count = 600
    body = "\n".join(
        f"%c{i} = stablehlo.constant dense<{i}> : tensor<i32>\n%{i} = stablehlo.add %a, %c{i} : tensor<i32>" for i in range(count)
    )
    names, types = ", ".join(f"%{i}" for i in range(count)), ", ".join(["tensor<i32>"] * count)
    with client.compile(f"func.func @main(%a: tensor<i32>) -> ({types}) {{\n{body}\nreturn {names} : {types} }}") as exe:
        outputs = exe(1000)
        assert [out.item() for out in outputs] == list(range(1000, 1600))
        for out in outputs:
            out.close()


def test_a_tuple_argument_cannot_be_passed(client: pjrtd.Client) -> None:
    text = """func.func @main(%a: tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> {
      %0 = stablehlo.get_tuple_element %a[0] : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }"""
    with client.compile(text) as exe:
        for arguments in ([[1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]]):
            with pytest.raises(errors.InvalidArgument):
                exe(*arguments)


def test_zero_sized_tensors(client: pjrtd.Client) -> None:
    text = """func.func @main(%a: tensor<0xf32>, %b: tensor<2x0x3xf32>, %c: tensor<3xf32>)
        -> (tensor<3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x0x3xf32>) {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.concatenate %a, %c, dim = 0 : (tensor<0xf32>, tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<0xf32>, tensor<f32>) -> tensor<f32>
      %2 = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [1] : (tensor<2x0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
      %3 = stablehlo.negate %b : tensor<2x0x3xf32>
      return %0, %1, %2, %3 : tensor<3xf32>, tensor<f32>, tensor<2x3xf32>, tensor<2x0x3xf32> }"""
    a, b, c = np.zeros(0, np.float32), np.zeros((2, 0, 3), np.float32), np.array([1, 2, 3], np.float32)
    with client.compile(text) as exe:
        buffers = [client.buffer_from_host(value) for value in (a, b, c)]
        for arguments in ((a, b, c), buffers):
            outputs = exe(*arguments)
            assert [out.tolist() for out in outputs] == [[1, 2, 3], 0.0, [[0, 0, 0], [0, 0, 0]], [[], []]]
            assert outputs[3].to_host() == b"" and outputs[3].shape == (2, 0, 3)
            for out in outputs:
                out.close()
        for buffer in buffers:
            buffer.close()


COMPILE_ERRORS = {
    "does not parse": ("not a program", errors.InvalidArgument),
    "empty": ("", errors.InvalidArgument),
    "text and NUL": (ADD + "\0junk", errors.InvalidArgument),
    "unbounded shapes": (
        "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { %0 = stablehlo.add %a, %a : tensor<?xf32> return %0 : tensor<?xf32> }",
        errors.InvalidArgument,
    ),
    "an unknown custom call": (
        'func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call @nobody_has_this(%a) '
        "{api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32> return %0 : tensor<4xf32> }",
        errors.NotFound,
    ),
}


@pytest.mark.parametrize("name", COMPILE_ERRORS)
def test_compile_errors(client: pjrtd.Client, name: str) -> None:
    text, kind = COMPILE_ERRORS[name]
    client.sync()  # what the test before has released is gone
    programs = client.stats()["programs"]
    with pytest.raises(kind) as caught:
        client.compile(text)
    assert len(caught.value.message) > 10
    assert client.stats()["programs"] == programs
    client.compile(ADD).close()


def test_a_failed_call_poisons_its_results_and_their_users(client: pjrtd.Client) -> None:
    """210 GB are more than there is."""
    text = """func.func @main(%a: tensor<f32>) -> tensor<230000x230000xf32> {
      %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<230000x230000xf32>
      return %0 : tensor<230000x230000xf32> }"""
    slice_ = """func.func @main(%a: tensor<230000x230000xf32>) -> tensor<1x1xf32> {
      %0 = stablehlo.slice %a [0:1, 0:1] : (tensor<230000x230000xf32>) -> tensor<1x1xf32>
      return %0 : tensor<1x1xf32> }"""
    with client.compile(text) as huge, client.compile(slice_) as one:
        (out,) = huge(1.0)
        (element,) = one(out)
        with pytest.raises(errors.ResourceExhausted) as first:
            element.to_host()
        assert first.value.origin_call
        with pytest.raises(errors.ResourceExhausted):
            out.block_until_ready()
        out.close()
        element.close()
    client.sync()
    with client.compile(ADD) as add:
        (out,) = add([1.0] * 4, [2.0] * 4)
        assert out.tolist() == [3.0] * 4
        out.close()


@pytest.mark.parametrize("dims,dtype", [([-1, 4], "f32"), ([-2, -2], "f32"), ([1 << 62, 4], "f32"), ([1 << 40], "f32"), ([4], "f64")])
def test_bad_dimensions_never_leave_the_client(client: pjrtd.Client, dims: list[int], dtype: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.buffer_from_host(bytes(16), dtype, dims)


WHILE = """
func.func @main(%a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%i = %a) : tensor<i32>
  cond {
    %z = stablehlo.constant dense<0> : tensor<i32>
    %c = stablehlo.compare GT, %i, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %m = stablehlo.subtract %i, %one : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""


def test_a_program_past_its_deadline(client: pjrtd.Client) -> None:
    """It counts down for some seconds; the deadline comes first, for the program and for who reads its result."""
    with client.compile(WHILE) as exe:
        started = time.monotonic()
        with pjrtd.deadline(0.3):
            (out,) = exe(1 << 30)
            with pytest.raises(errors.DeadlineExceeded):
                out.to_host()
        assert time.monotonic() - started < 3 * PATIENCE
        with pytest.raises(errors.DeadlineExceeded) as caught:  # the result is poisoned
            out.to_host()
        assert caught.value.origin_call
        out.close()
        (quick,) = exe(3)
        assert quick.item() == 0
        quick.close()


def test_eight_mebibytes_and_a_long_program(client: pjrtd.Client) -> None:
    value = np.random.default_rng(0).integers(0, 1 << 30, 2 << 20, np.int32)
    with client.buffer_from_host(value) as buffer:
        out = np.empty_like(value)
        assert buffer.to_host(out) is out and (out == value).all()
    constant = np.arange(700_000, dtype="<i4").tobytes().hex()
    text = f"""func.func @main() -> tensor<1xi32> {{
      %0 = stablehlo.constant dense<"0x{constant}"> : tensor<700000xi32>
      %1 = stablehlo.slice %0 [699999:700000] : (tensor<700000xi32>) -> tensor<1xi32>
      return %1 : tensor<1xi32> }}"""
    assert len(text) > 5_600_000
    with client.compile(text) as exe:
        (last,) = exe()
        assert last.tolist() == [699999]
        last.close()


def memory_available() -> int:
    with open("/proc/meminfo") as file:
        fields = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
    return fields["MemAvailable"]


@pytest.mark.big
def test_over_two_gibibytes(client: pjrtd.Client) -> None:
    """The daemon and this process each hold the data once."""
    size = (1 << 31) + 4096
    assert memory_available() > 3 * size, "too little memory here: leave it out with -m 'not big'"
    value = np.zeros(size, np.int8)
    value[1 << 31], value[-1] = 7, 42
    text = f"""func.func @main(%a: tensor<{size}xi8>) -> (tensor<1xi8>, tensor<1xi8>) {{
      %0 = stablehlo.slice %a [{1 << 31}:{(1 << 31) + 1}] : (tensor<{size}xi8>) -> tensor<1xi8>
      %1 = stablehlo.slice %a [{size - 1}:{size}] : (tensor<{size}xi8>) -> tensor<1xi8>
      return %0, %1 : tensor<1xi8>, tensor<1xi8> }}"""
    with client.compile(text) as exe, client.buffer_from_host(value) as buffer:
        assert buffer.nbytes == size == 2147487744
        middle, last = exe(buffer)
        assert (middle.tolist(), last.tolist()) == ([7], [42])
        middle.close(), last.close()
        value[:] = 1
        buffer.to_host(value)
        assert value[1 << 31] == 7 and value[-1] == 42 and np.count_nonzero(value) == 2


def test_many_threads_on_one_client(client: pjrtd.Client) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(100):
                (out,) = add([float(number)] * 4, [float(turn)] * 4)
                assert out.tolist() == [float(number + turn)] * 4
                out.close()
        except BaseException as error:
            failures.append(error)

    with client.compile(ADD) as add:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60 * PATIENCE)
            assert not thread.is_alive()
    assert failures == []


def test_nothing_is_left_behind(live_target: str, client: pjrtd.Client) -> None:
    gc.collect()
    before = client.stats()
    with pjrtd.Client.create(live_target) as other:
        add = other.compile(ADD)
        kept = [add([1.0] * 4, [2.0] * 4) for _ in range(50)]
        other.sync()
        assert other.stats()["buffers"] >= before["buffers"] + 50
    stop = time.monotonic() + 10 * PATIENCE
    while (after := client.stats())["buffers"] > before["buffers"] or after["programs"] > before["programs"]:
        assert time.monotonic() < stop, (before, after)
        time.sleep(0.01)
    assert kept[0][0].is_deleted


@pytest.mark.filterwarnings("ignore:.*fork")
def test_the_exit_of_a_forked_child_leaves_the_parents_buffers(client: pjrtd.Client) -> None:
    buffers = [client.buffer_from_host([float(i)]) for i in range(20)]
    child = os.fork()
    if not child:
        buffers.clear()
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [buffer.item() for buffer in buffers] == list(range(20))
    for buffer in buffers:
        buffer.close()
