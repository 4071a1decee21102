"""The examples and the README's snippets run, and print what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def test_the_readmes_snippets_run(live_target: str) -> None:
    """In one program, with what the text around them supposes."""
    assert len(SNIPPETS) == 5
    first, jax, sharded, errors, deadlines = SNIPPETS
    lines = [first, jax, "client = pjrtd.Client.create()", SHARDED, sharded]
    lines += ["assert [row[0].tolist() for row in outputs] == [[2.0, 4.0, 6.0, 8.0], [10.0, 12.0, 14.0, 16.0]]"]
    lines += ["text = 'nonsense'", errors, "exe = client.compile(PROGRAM)", "x = [1.0] * 4"]
    lines += [deadlines.replace("exe(x)", "exe(x, x)"), "client.close()"]
    run = run_python("\n".join(lines), PJRTD_TARGET=live_target, JAX_PLATFORMS="cpu")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("[11.0, 22.0, 33.0, 44.0]\n")
