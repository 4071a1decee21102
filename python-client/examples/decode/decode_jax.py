"""The reference: the same model by JAX, in this process and without a cache.

    python decode_jax.py SEED TOKEN ...    prints the ids of what follows these, up to and with the end
"""

from __future__ import annotations

import sys

import jax
import numpy as np
from decode_model import END, next_token
from make_weights import CONTEXT, WEIGHTS, make


def decode(seed: int, beginning: list[int]) -> list[int]:
    made = make(seed)
    weights = [jax.numpy.asarray(np.array(made[weight.name], np.float32).reshape(weight.shape)) for weight in WEIGHTS]
    run = jax.jit(next_token)
    tokens = np.zeros(CONTEXT, np.int32)
    tokens[: len(beginning)] = beginning
    for count in range(len(beginning), CONTEXT):
        tokens[count] = run(tokens, count, *weights)
        if tokens[count] == END:
            break
    return tokens[len(beginning) : count + 1].tolist()


if __name__ == "__main__":
    print(*decode(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]))
