"""jax in process, on its own CPU backend: an 8x8 dot, waited for, or fetched as a numpy array; and loops of steps."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from slice_runner import Mode, serve


STEPS = 1000


def steps(step: Callable[[jax.Array], jax.Array], start: jax.Array) -> Mode:
    """Each output is the next step's argument; the last is waited for."""

    def loop() -> None:
        x = start
        for _ in range(STEPS):
            x = step(x)
        x.block_until_ready()

    return Mode(loop, inner=STEPS)


def main() -> None:
    dot = jax.jit(lambda v: jax.numpy.dot(v, v))
    add = jax.jit(lambda v: v + v)
    x = jax.numpy.asarray(np.tile(np.arange(8, dtype=np.float32), (8, 1)))
    y = jax.numpy.arange(8, dtype="float32")
    if float(np.asarray(dot(x))[7, 7]) != 196.0:
        raise SystemExit("a wrong result")
    np.asarray(add(y))
    serve(
        {
            "dot-fetch": Mode(lambda: np.asarray(dot(x))),
            "dot-block": Mode(lambda: dot(x).block_until_ready()),
            "execute-fetch": Mode(lambda: np.asarray(add(y))),
            "steps-add": steps(add, y),
            "steps-dot": steps(dot, x),
        },
        {"version": jax.__version__},
    )


if __name__ == "__main__":
    main()
