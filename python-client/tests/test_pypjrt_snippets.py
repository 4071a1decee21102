"""Programs written for the in-process library pypjrt run unchanged with the module aliased, where they are about what a
client does: its README's snippets, and the core of its examples."""

from __future__ import annotations

from conftest import LiveDaemon, run_python

import pytest

pytestmark = pytest.mark.live

PRELUDE = """
import sys
import pjrtd, pjrtd.errors, pjrtd.typing, pjrtd.compile_options
for name, module in list(sys.modules.items()):
    if name == "pjrtd" or name.startswith("pjrtd."):
        sys.modules["py" + "pjrt" + name[5:]] = module
"""

ADD_SELF = '''
stablehlo_text = """
module @m { func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8xf32> return %0 : tensor<8xf32> } }"""
'''

SHARDED = '''
sharded_mlir = """
module @m {
  func.func public @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
      -> (tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %0 = stablehlo.add %a, %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
'''

SNIPPETS = {
    "the first one": ADD_SELF
    + """
import array
xs = array.array("f", range(8))
import pypjrt
with pypjrt.Client.create() as client, client.devices() as devices:
    exe = client.compile(stablehlo_text)
    a = client.buffer_from_host(xs, 11, [8], devices[0])
    (out,) = exe(a)
    print(out.to_host())
    assert list(array.array("f", out.to_host())) == [2.0 * x for x in xs]
""",
    "compile and run": """
import jax, jax.numpy as jnp, numpy as np, pypjrt

f = lambda a, b: jnp.tanh(a * b + 1.0)
x = np.arange(8, dtype=np.float32)
mlir = jax.jit(f).lower(x, x).as_text()          # any producer will do

with pypjrt.Client.create() as client, client.devices() as devices:
    exe = client.compile(mlir)
    a = client.buffer_from_host(x, 11, [8], devices[0])
    (out,) = exe(a, a)
    result = np.empty(8, np.float32)
    out.to_host(result)
    assert np.allclose(result, np.tanh(x * x + 1.0), rtol=1e-5)
""",
    "portable artifacts": """
import jax, numpy as np, pypjrt
from jax.extend.mlir.dialects import stablehlo as sh
x = np.arange(8, dtype=np.float32)
text = jax.jit(lambda a: a * 2).lower(x).as_text()
with pypjrt.Client.create() as client, client.devices() as devices:
    plugin = client.plugin
    blob = sh.serialize_portable_artifact_str(text, plugin.stablehlo_target())
    exe = client.compile(blob)
    (out,) = exe(client.buffer_from_host(x, 11, [8], devices[0]))
    got = np.empty(8, np.float32)
    out.to_host(got)
    assert (got == x * 2).all()
""",
    "dlpack": """
import jax.numpy as jnp, numpy as np, pypjrt
with pypjrt.Client.create() as client, client.devices() as devices:
    buffer = client.buffer_from_host(np.arange(8, dtype=np.float32), 11, [8], devices[0])
    arr = np.from_dlpack(buffer)
    jax_array = jnp.arange(4.0)
    adopted = client.from_dlpack(jax_array)
    assert arr.tolist() == list(range(8)) and adopted.tolist() == [0, 1, 2, 3]
""",
    "multiple devices": SHARDED
    + """
import array, pypjrt
with pypjrt.Client.create() as client, client.devices() as devices:
    shard_a = client.buffer_from_host(array.array("f", [1, 2, 3, 4]), 11, [4], devices[0])
    shard_b = client.buffer_from_host(array.array("f", [5, 6, 7, 8]), 11, [4], devices[1])
    opts = pypjrt.CompileOptions(num_partitions=2, use_spmd_partitioning=True)
    exe = client.compile(sharded_mlir, options=opts)
    outputs = exe.execute_sharded([[shard_a], [shard_b]])
    joined = b"".join(row[0].to_host() for row in outputs)
    assert list(array.array("f", joined)) == [2, 4, 6, 8, 10, 12, 14, 16]
    assert (exe.num_replicas, exe.num_partitions, exe.addressable_device_count) == (1, 2, 2)
    assert exe.device_assignment() == [(0, 0), (0, 1)]
    assert client.default_device_assignment(2, 1) == [0, 1]
    from pypjrt import errors
    try:
        exe.execute_sharded([[shard_a]])
    except errors.InvalidArgument as error:
        assert "expects 2 device" in str(error)
    else:
        raise SystemExit("one row was accepted")
""",
    "replicas and a collective": '''
import array, pypjrt
from pypjrt.compile_options import CompileOptions
ALL_REDUCE = """
module @m {
  func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %s = stablehlo.add %l, %r : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
with pypjrt.Client.create() as client, client.devices() as devices:
    coll = client.compile(ALL_REDUCE, options=CompileOptions(num_replicas=2))
    p0, p1 = client.buffers_from_host([array.array("f", [1.0] * 8), array.array("f", [10.0] * 8)], 11, [8], devices[:2])
    for row in coll.execute_sharded([[p0], [p1]], launch_id=3):
        got = array.array("f")
        got.frombytes(row[0].to_host())
        assert list(got) == [11.0] * 8
''',
    "errors": ADD_SELF
    + """
import pypjrt
from pypjrt import errors
from pypjrt.typing import F32
with pypjrt.Client.create() as client:
    try:
        client.compile("this is not a program")
    except errors.PjrtError as error:
        assert error.code == 3 and type(error) is errors.InvalidArgument and error.message
    else:
        raise SystemExit("nonsense was compiled")
    with client.device(0) as dev:
        buf = client.typed_buffer(F32, bytes(32), [8], dev)
        assert buf.dimensions == (8,) and buf.element_type == 11 and buf.nbytes == 32 and not buf.is_deleted
        buf.close(); buf.close()
        try:
            buf.to_host()
        except errors.HandleClosed:
            pass
        else:
            raise SystemExit("a closed buffer was read")
""",
    "a plugin path as target": """
import pypjrt
try:
    pypjrt.Client.create("/usr/lib/pjrt_c_api_cpu_plugin.so")
except pypjrt.errors.InvalidArgument as error:
    assert "unix:" in str(error) and "plugin" in str(error)
else:
    raise SystemExit("a plugin was accepted as target")
""",
    "what am I talking to": """
import pypjrt
plugin = pypjrt.Plugin(None)
major, minor = plugin.api_version
assert (rng := plugin.stablehlo_version_range) is not None and rng[0] < rng[1]
options = pypjrt.Client.GPU_DEFAULTS if plugin.is_gpu else None
with pypjrt.Client.create(plugin, options=options) as client:
    assert client.platform_name == "cpu" and client.process_index == 0
    with client.devices() as devices:
        for d in devices:
            assert d.id >= 0 and d.kind and d.coords is None and len(d.memories()) > 0
            try:
                d.memory_stats()
            except pypjrt.errors.PjrtError:
                pass
            sorted(d.attributes)
""",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_it_runs_unchanged(daemon: LiveDaemon, name: str) -> None:
    run = run_python(PRELUDE + SNIPPETS[name], timeout_s=120, PJRTD_TARGET=daemon.target, JAX_PLATFORMS="cpu")
    assert run.returncode == 0, run.stderr
