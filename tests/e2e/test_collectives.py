"""Programs of several devices: replicas that exchange values, partitions of one program (SPMD, by GSPMD's and by Shardy's
annotations), on the plugin's default devices and on those that the caller names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from daemon import Daemon
from raw_frames import INVALID_ARGUMENT, RawClient
from test_run import answer, start
from test_slots import floats, value

RUN_OVER = ["unix", "channel"]
pytestmark = pytest.mark.usefixtures("balanced", "bystander")

Array = np.ndarray


def run(client: RawClient, text: str, inputs: Sequence[Sequence[Array]], options: dict[str, object],
        out: np.dtype | type = np.float32) -> list[Array]:
    """`inputs` of each device in turn; the first result of each device. Everything is where it belongs, and freed."""
    program = client.compile(text, options=options)
    devices = list(client.call("Program.Describe", program=program).devices)
    assert len(devices) == len(inputs)
    args = [client.upload({np.dtype(np.float32): "f32", np.dtype(np.int32): "s32"}[array.dtype], array.shape, array.tobytes(), device=device)
            for device, arrays in zip(devices, inputs, strict=True) for array in arrays]
    outputs = client.execute(program, args, len(devices))
    results = []
    for device, output in zip(devices, outputs, strict=True):
        stat = client.call("Buffer.Stat", buffer=output)
        assert stat.device == device
        results.append(np.frombuffer(client.download(output), out).reshape(list(stat.type.dims)))
    client.call("Buffer.Delete", buffers=[*args, *outputs])
    client.call("Program.Release", programs=[program])
    return results


def replicas(count: int, body: str, result: str = "tensor<4xf32>", argument: str = "tensor<4xf32>") -> str:
    return f"""module attributes {{mhlo.num_replicas = {count} : i32}} {{
      func.func @main(%a: {argument}) -> {result} {{
        {body}
        return %0 : {result} }} }}"""


def groups(*lists: Sequence[int]) -> str:
    return f"dense<{[list(each) for each in lists]}> : tensor<{len(lists)}x{len(lists[0])}xi64>"


def all_reduce(operation: str, *lists: Sequence[int], element: str = "f32") -> str:
    return f"""%0 = "stablehlo.all_reduce"(%a) ({{ ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
      %s = stablehlo.{operation} %x, %y : tensor<{element}>
      stablehlo.return %s : tensor<{element}> }}) {{replica_groups = {groups(*lists)}}} : (tensor<4x{element}>) -> tensor<4x{element}>"""


def inputs_of(count: int) -> list[list[Array]]:
    return [[np.arange(4, dtype=np.float32) + 10 * device + 1] for device in range(count)]


# What a device gets: from the arrays of all devices and its place among them.
EXCHANGES = {
    "all_reduce sum": (lambda n: replicas(n, all_reduce("add", range(n))), lambda a, _: sum(a)),
    "all_reduce maximum": (lambda n: replicas(n, all_reduce("maximum", range(n))), lambda a, _: np.maximum.reduce(a)),
    "all_reduce in pairs": (lambda n: replicas(n, all_reduce("add", *[(i, i + 1) for i in range(0, n, 2)])),
                            lambda a, i: a[i // 2 * 2] + a[i // 2 * 2 + 1]),
    "all_gather": (lambda n: replicas(n, f'%0 = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64, replica_groups = {groups(range(n))}}}'
                                         f" : (tensor<4xf32>) -> tensor<{4 * n}xf32>", f"tensor<{4 * n}xf32>"),
                   lambda a, _: np.concatenate(a)),
    "collective_permute": (lambda n: replicas(n, '%0 = "stablehlo.collective_permute"(%a) {source_target_pairs = '
                                                 f"{groups(*[(i, (i + 1) % n) for i in range(n)])}}} : (tensor<4xf32>) -> tensor<4xf32>"),
                           lambda a, i: a[i - 1]),
    "collective_permute to one": (lambda n: replicas(n, '%0 = "stablehlo.collective_permute"(%a) {source_target_pairs = '
                                                        f"{groups((0, n - 1))}}} : (tensor<4xf32>) -> tensor<4xf32>"),
                                  lambda a, i: a[0] if i == len(a) - 1 else np.zeros(4, np.float32)),
    "reduce_scatter": (lambda n: replicas(n, f"""%0 = "stablehlo.reduce_scatter"(%a) ({{ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32> }}) {{scatter_dimension = 0 : i64, replica_groups = {groups(range(n))}}}
        : (tensor<4xf32>) -> tensor<{4 // n}xf32>""", f"tensor<{4 // n}xf32>"),
                       lambda a, i: np.split(sum(a), len(a))[i]),
    "all_to_all": (lambda n: replicas(n, f"""%0 = "stablehlo.all_to_all"(%a) {{split_dimension = 0 : i64, concat_dimension = 0 : i64,
        split_count = {n} : i64, replica_groups = {groups(range(n))}}} : (tensor<4xf32>) -> tensor<4xf32>"""),
                   lambda a, i: np.concatenate([np.split(each, len(a))[i] for each in a])),
}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", EXCHANGES)
def test_replicas_exchange_values(client: RawClient, name: str, count: int) -> None:
    text, right = EXCHANGES[name]
    inputs = inputs_of(count)
    arrays = [arrays[0] for arrays in inputs]
    for _ in range(3):
        results = run(client, text(count), inputs, dict(num_replicas=count))
        for place, result in enumerate(results):
            np.testing.assert_array_equal(result, right(arrays, place))


REPLICA = replicas(2, """%r = stablehlo.replica_id : tensor<ui32>
        %c = stablehlo.convert %r : (tensor<ui32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
        %0 = stablehlo.add %a, %b : tensor<4xf32>""")


@pytest.mark.parametrize("devices", [[0, 1], [2, 3], [3, 1], [1, 0]])
def test_replicas_run_on_the_devices_that_are_named(client: RawClient, devices: list[int]) -> None:
    """In that order: the replica on the second of them is number 1."""
    options = dict(num_replicas=2, device_assignment=devices)
    first, second = run(client, REPLICA, [[np.zeros(4, np.float32)], [np.full(4, 5, np.float32)]], options)
    assert first.tolist() == [0] * 4 and second.tolist() == [6] * 4
    permute = EXCHANGES["collective_permute"][0](2)
    first, second = run(client, permute, inputs_of(2), options)
    assert (first[0], second[0]) == (11, 1)
    program = client.compile(permute, options=options)
    assert list(client.call("Program.Describe", program=program).devices) == devices


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_default_assignment_is_what_the_plugin_says(client: RawClient, count: int) -> None:
    default = list(client.call("Runtime.DefaultAssignment", num_replicas=count, num_partitions=1).devices)
    program = client.compile(replicas(count, "%0 = stablehlo.add %a, %a : tensor<4xf32>"), options=dict(num_replicas=count))
    assert list(client.call("Program.Describe", program=program).devices) == default == list(range(count))


def test_programs_that_share_some_devices_do_not_wait_for_each_other(daemon: Daemon, client: RawClient, over: str) -> None:
    """Sent together, many times. Each needs all its devices at a time; where each got some of them, the plugin would end the
    process."""
    with daemon.connect(over) as other:
        work = []
        for who, devices in ((client, [0, 1]), (other, [2, 3]), (client, [1, 2])):
            program = who.compile(replicas(2, all_reduce("add", (0, 1))), options=dict(num_replicas=2, device_assignment=devices))
            args = [who.upload("f32", [4], floats(*[device + 1] * 4), device=device) for device in devices]
            work.append((who, program, args, floats(*[sum(devices) + 2] * 4)))
        calls = [(who, right, who.start_execute(program, args, outputs=[], fetch=[0, 1])[1])
                 for _ in range(50) for who, program, args, right in work]
        for who, right, call in calls:
            assert who.answer(call).bulk == right * 2


# -- partitions ----

GSPMD = """module @m attributes {{mhlo.num_partitions = {n} : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%a: tensor<8x4xf32> {{mhlo.sharding = "{rows}"}}, %b: tensor<4x8xf32> {{mhlo.sharding = "{columns}"}})
      -> (tensor<8x8xf32> {{mhlo.sharding = "{rows}"}}) {{
    %0 = stablehlo.dot %a, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32> }} }}"""
SHARDY = """module @m attributes {{mhlo.num_partitions = {n} : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["d"={n}]>
  func.func public @main(%a: tensor<8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"d"}}, {{}}]>}},
                         %b: tensor<4x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"d"}}]>}})
      -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"d"}}, {{}}]>}}) {{
    %0 = stablehlo.dot %a, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32> }} }}"""


@pytest.mark.parametrize("count,devices", [(2, []), (4, []), (2, [2, 3]), (4, [3, 1, 0, 2])])
@pytest.mark.parametrize("by", ["gspmd", "shardy"])
def test_one_program_is_partitioned(client: RawClient, by: str, count: int, devices: list[int]) -> None:
    """A product whose left side lies by rows, its right side by columns, and the result by rows: columns are gathered."""
    text = SHARDY.format(n=count) if by == "shardy" else GSPMD.format(
        n=count, rows=f"{{devices=[{count},1]<=[{count}]}}", columns=f"{{devices=[1,{count}]<=[{count}]}}")
    options = dict(num_partitions=count, use_spmd_partitioning=True, use_shardy_partitioner=by == "shardy", device_assignment=devices)
    a, b = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(32, dtype=np.float32).reshape(4, 8) - 7
    inputs = list(zip(np.split(a, count, axis=0), (np.ascontiguousarray(part) for part in np.split(b, count, axis=1)), strict=True))
    results = run(client, text, inputs, options)
    np.testing.assert_array_equal(np.concatenate(results), a @ b)


def test_replicas_of_partitions(client: RawClient) -> None:
    """Two replicas of two partitions: each replica has a vector of its own, of which each partition has a half and gets the
    sum of both."""
    text = """module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {
      func.func public @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> (tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8xf32>
        %0 = stablehlo.add %a, %b : tensor<8xf32>
        return %0 : tensor<8xf32> } }"""
    options = dict(num_replicas=2, num_partitions=2, use_spmd_partitioning=True)
    inputs = inputs_of(4)
    for devices in ([], [3, 2, 0, 1]):
        results = run(client, text, inputs, options | dict(device_assignment=devices))
        for place, result in enumerate(results):
            (mine,), (first,), (second,) = inputs[place], inputs[place // 2 * 2], inputs[place // 2 * 2 + 1]
            np.testing.assert_array_equal(result, mine + first.sum() + second.sum())


def test_partitions_need_a_partitioner(client: RawClient) -> None:
    text = GSPMD.format(n=2, rows="{devices=[2,1]<=[2]}", columns="{devices=[1,2]<=[2]}")
    failed = client.failure_of(client.start_compile(text, options=dict(num_partitions=2))[1])
    assert failed.code == INVALID_ARGUMENT and failed.message == "num_partitions is 2, but use_spmd_partitioning is not set"


def test_a_partitioned_loop_runs_next_to_the_devices(client: RawClient) -> None:
    """Slots of four devices, fed back by a run: x = x + sum over all of x's first element."""
    text = replicas(4, all_reduce("add", range(4)))
    program = client.compile(text, options=dict(num_replicas=4))
    for device in range(4):
        buffer = client.upload("f32", [4], floats(*[device + 1] * 4), device=device)
        client.call("Session.Bind", bindings=[dict(slot=f"x/{device}", buffer=buffer)])
        client.call("Buffer.Delete", buffers=[buffer])
    names = [f"x/{device}" for device in range(4)]
    reply, bulk = answer(client, start(client, program, names, dict(enumerate(names)), run=dict(steps=5), fetch=[0, 3]))
    assert reply.steps == 5 and bulk == floats(*[10 * 4**4] * 4) * 2
    assert [value(client, name) for name in names] == [floats(*[10 * 4**4] * 4)] * 4


# -- what is wrong is named ----


def test_arguments_on_the_wrong_devices_are_named(client: RawClient) -> None:
    program = client.compile(REPLICA, options=dict(num_replicas=2, device_assignment=[2, 3]))
    on = {device: client.upload("f32", [4], floats(0, 0, 0, 0), device=device) for device in range(4)}
    for devices, right, wrong in (([3, 2], 2, 3), ([2, 2], 3, 2), ([2, 1], 3, 1), ([0, 3], 2, 0)):
        failed = client.failure_of(client.start_execute(program, [on[device] for device in devices], 2)[1])
        assert failed.code == INVALID_ARGUMENT
        assert failed.message == f"program 'main': argument 0 of device {right} must be on device {right}, not on device {wrong}"
        assert (failed.detail.argument.index, failed.detail.argument.actual) == (0, f"on device {wrong}")
    outputs = client.execute(program, [on[2], on[3]], 2)
    assert [client.download(output) for output in outputs] == [floats(0, 0, 0, 0), floats(1, 1, 1, 1)]


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_too_few_and_too_many_arguments_are_counted_over_all_devices(client: RawClient, count: int) -> None:
    program = client.compile(REPLICA, options=dict(num_replicas=2))
    on = [client.upload("f32", [4], floats(0, 0, 0, 0), device=device % 2) for device in range(4)]
    failed = client.failure_of(client.start_execute(program, on[:count], 2)[1])
    assert failed.code == INVALID_ARGUMENT and "2 (all devices' together)" in failed.message and str(count) in failed.message, failed


@pytest.mark.parametrize("options,words", [
    (dict(num_replicas=2, device_assignment=[2]), "2"), (dict(num_replicas=2, device_assignment=[2, 2]), "2"),
    (dict(num_replicas=2, device_assignment=[2, 4]), "4"), (dict(num_replicas=2, device_assignment=[-1, 0]), "-1"),
    (dict(num_replicas=5), "5"), (dict(num_replicas=2, num_partitions=4, use_spmd_partitioning=True), "num_partitions 4"),
])
def test_assignments_that_cannot_be_are_refused(client: RawClient, options: dict[str, object], words: str) -> None:
    failed = client.failure_of(client.start_compile(REPLICA, options=options)[1])
    assert failed.code == INVALID_ARGUMENT and words in failed.message, failed
