"""JAX writes the program, pjrtd runs it: as text, and as a portable artifact that newer and older plugins take.

    pip install 'pjrtd[jax]'
    python from_jax.py [unix:/run/pjrtd/pjrtd.sock]
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np

import pjrtd


def smooth(a, b):
    return jnp.tanh(a * b + 1.0)


def main(target: str | None = None) -> None:
    x = np.arange(8, dtype=np.float32)
    text = jax.jit(smooth).lower(x, x).as_text()
    with pjrtd.Client.create(target) as client:
        exe = client.compile(text)
        (out,) = exe(x, x)
        result = out.numpy()
        out.close()
        print(f"text:     {result}")

        # An artifact names a version of StableHLO; the plugin says which ones it takes.
        from jax.extend.mlir.dialects import stablehlo  # noqa: PLC0415

        version = client.plugin.stablehlo_target("min")
        artifact = stablehlo.serialize_portable_artifact_str(text, version)
        with client.compile(artifact) as again:
            (out,) = again(x, x)
            assert np.array_equal(out.numpy(), result)
            out.close()
        print(f"artifact: {len(artifact)} bytes for StableHLO {version}, the same values")
        print(f"numpy:    {np.allclose(result, np.tanh(x * x + 1.0), rtol=1e-5)}")
        exe.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
