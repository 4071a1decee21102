"""Lower the decoding step from JAX to StableHLO text.

    python lower_decode.py           writes decode_step.mlir beside this file
    python lower_decode.py --check   fails when it differs from what JAX makes of decode_model.py

Only this and decode_jax.py need JAX.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp
from decode_model import SIZE, step
from make_weights import CONTEXT, HEADS, LAYERS, WEIGHTS

PROGRAM = pathlib.Path(__file__).resolve().parent / "decode_step.mlir"


def program() -> str:
    scalar = jax.ShapeDtypeStruct((), jnp.int32)
    cache = jax.ShapeDtypeStruct((LAYERS, CONTEXT, HEADS, SIZE), jnp.float32)
    weights = [jax.ShapeDtypeStruct(weight.shape, jnp.float32) for weight in WEIGHTS]
    return jax.jit(step, donate_argnums=range(4)).lower(scalar, scalar, cache, cache, *weights).as_text()


def main() -> int:
    parser = argparse.ArgumentParser(description="Lower the decoding step to StableHLO text.")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    check = parser.parse_args().check
    text = program()
    if not check:
        PROGRAM.write_text(text)
        print(f"wrote {PROGRAM.name}, {len(text)} bytes")
    elif not PROGRAM.exists() or PROGRAM.read_text() != text:
        print(f"{PROGRAM.name} is not what JAX {jax.__version__} makes of decode_model.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
