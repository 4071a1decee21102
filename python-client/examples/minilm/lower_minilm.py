"""Lower MiniLM-L6 from JAX to StableHLO text, one program for each shape.

    python lower_minilm.py           writes embed_ROWSxTOKENS.mlir beside this file
    python lower_minilm.py --check   fails when they differ from what JAX makes of minilm_model.py

Only this needs JAX. embed.py runs the committed programs without it. Weights are arguments: the programs hold none.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp
from minilm_model import embed
from minilm_weights import NAMES, model_folder
from safetensors import SafetensorsFile

SHAPES = [(1, 32), (8, 32), (1, 128), (8, 128)]
HERE = pathlib.Path(__file__).resolve().parent


def programs() -> dict[str, str]:
    """File name to program text."""
    file = SafetensorsFile(model_folder() / "model.safetensors")
    weights = [jax.ShapeDtypeStruct(file[name].shape, jnp.float32) for name in NAMES]
    texts = {}
    for rows, tokens in SHAPES:
        ids = jax.ShapeDtypeStruct((rows, tokens), jnp.int32)
        lengths = jax.ShapeDtypeStruct((rows,), jnp.int32)
        texts[f"embed_{rows}x{tokens}.mlir"] = jax.jit(embed).lower(ids, lengths, *weights).as_text()
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(description="Lower MiniLM-L6 to StableHLO text.")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    stale = 0
    for name, text in programs().items():
        path = HERE / name
        if not check:
            path.write_text(text)
            print(f"wrote {name}, {len(text)} bytes")
        elif not path.exists() or path.read_text() != text:
            print(f"{name} is not what JAX {jax.__version__} makes of minilm_model.py", file=sys.stderr)
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
