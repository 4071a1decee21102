"""The examples and the README's snippets run, and print what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest
from conftest import PATIENCE, ROOT, run_python

pytestmark = pytest.mark.live

PRINTS = {
    "hello.py": "result:   [12.0, 24.0, 36.0, 48.0]",
    "plugin_and_devices.py": "device 1:",
    "from_jax.py": "numpy:    True",
    "pipeline.py": "x[0][0] = 2.0",
}


def run_example(path: Path, target: str) -> str:
    run = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", str(path), target],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=120 * PATIENCE,
        check=False,
    )
    assert run.returncode == 0 and "ResourceWarning" not in run.stderr, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", PRINTS)
def test_the_example_prints_what_it_should(live_target: str, name: str) -> None:
    assert PRINTS[name] in run_example(ROOT / "examples" / name, live_target)


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(PRINTS)


SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

SHARDED = '''
sharded_text = """
module @m {
  func.func public @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
      -> (tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) {
    %0 = stablehlo.add %a, %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
shard_a = client.buffer_from_host([1.0, 2.0, 3.0, 4.0], device=0)
shard_b = client.buffer_from_host([5.0, 6.0, 7.0, 8.0], device=1)
'''

SLOTS = '''
STEP = """
func.func @main(%theta: tensor<4xf32>, %grad: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %theta, %grad : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
ONE_INPUT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
training_step = STEP
load_theta, load_grad = (lambda device: [0.0] * 4), (lambda device: [1.0] * 4)
client.close()
'''
SHARED = '''
s = client.session()
s.bind_many({"embed": [1.0, 2.0], "layer0": [3.0]})
other = pjrtd.Client.create()
t = other.session()
'''
BORROWED = '''
assert t.resident == ["embed", "first"] and t.buffer("first").tolist() == [3.0]
s.withdraw("minilm")
other.close()
'''
IN_SLOTS = '''
DECAY = """
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %half = stablehlo.constant dense<0.998> : tensor<f32>
  %0 = stablehlo.multiply %x, %half : tensor<f32>
  return %0, %0 : tensor<f32>, tensor<f32>
}
"""
s = client.session()
step = s.program(DECAY, ["x"], outputs=["x", "loss"])
s.bind("x", 0.3)
'''


def test_the_readmes_snippets_run(live_target: str, tmp_path: Path) -> None:
    """In one program, with what the text around them supposes."""
    assert len(SNIPPETS) == 10
    first, jax, sharded, sessions, shared, runs, futures, aio, errors, deadlines = SNIPPETS
    lines = [first, jax, "client = pjrtd.Client.create()", SHARDED, sharded]
    lines += ["assert [row[0].tolist() for row in outputs] == [[2.0, 4.0, 6.0, 8.0], [10.0, 12.0, 14.0, 16.0]]"]
    lines += [SLOTS, sessions, "client = pjrtd.Client.create()", SHARED, shared, BORROWED, IN_SLOTS, runs, "assert number == 2000, number"]
    lines += ["exe, batches = client.compile(STEP), [[x] * 4 for x in (1.0, 2.0)]", futures.replace("exe.submit(x,", "exe.submit(x, x,")]
    lines += ["assert [f.result()[0].tolist() for f in futures] == [[2.0] * 4, [4.0] * 4]", "import asyncio", "text = ONE_INPUT"]
    imports, _, rest = aio.partition("\n\n")
    lines += [imports, "async def main():", indent(rest, "    "), "    print(len(outs))", "asyncio.run(main())"]
    lines += ["text = 'nonsense'", errors, "exe = client.compile(PROGRAM)", "x = [1.0] * 4"]
    lines += [deadlines.replace("exe(x)", "exe(x, x)"), "client.close()"]
    run = run_python("\n".join(lines), PJRTD_TARGET=live_target, JAX_PLATFORMS="cpu", XDG_STATE_HOME=str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("[11.0, 22.0, 33.0, 44.0]\n")
