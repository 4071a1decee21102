"""MiniLM-L6 by jax in process, on the same plugin: `side_minilm_jax.py PLUGIN`. The same calls as side_minilm_pjrtd.py makes."""

from __future__ import annotations

import os
import sys

os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_plugin:{sys.argv[1]}"
os.environ["JAX_PLATFORMS"] = "pjrt_plugin"

import jax
import numpy as np
from minilm_inputs import SHAPES, check_vectors, inputs
from slice_runner import Mode, serve


def main() -> None:
    from embed_jax import load_weights
    from minilm_model import embed as model
    from minilm_weights import model_folder

    weights = load_weights(model_folder())
    run = jax.jit(model)

    def mode(rows: int, tokens: int) -> Mode:
        ids, lengths = map(np.asarray, inputs(rows, tokens))

        def embed() -> np.ndarray:
            return np.asarray(run(ids, lengths, *weights))

        check_vectors(embed().tobytes(), rows)
        return Mode(embed)

    device = jax.devices()[0]
    serve(
        {f"{rows}x{tokens}": mode(rows, tokens) for rows, tokens in SHAPES},
        {"version": jax.__version__, "platform": device.platform, "runtime": device.client.platform_version},
    )


if __name__ == "__main__":
    main()
