"""A fresh process to its first result with jax: import, backend, compile, execute, fetch."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np

f = jax.jit(lambda v: v + v)
print("result", np.asarray(f(jax.numpy.arange(8, dtype="float32"))).tolist(), flush=True)
