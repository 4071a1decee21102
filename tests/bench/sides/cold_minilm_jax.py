"""A fresh process to one embedding with jax on a plugin: `cold_minilm_jax.py PLUGIN`: import, weights, tokenize, compile,
embed."""

import os
import sys

os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_plugin:{sys.argv[1]}"
os.environ["JAX_PLATFORMS"] = "pjrt_plugin"

from minilm_inputs import SENTENCE, result  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402
from embed_jax import load_weights  # noqa: E402
from minilm_model import embed  # noqa: E402
from minilm_weights import model_folder  # noqa: E402
from wordpiece import WordPiece  # noqa: E402

row = WordPiece(model_folder() / "vocab.txt").encode(SENTENCE, 32)
ids = np.array([row + [0] * (32 - len(row))], np.int32)
vectors = jax.jit(embed)(ids, np.array([len(row)], np.int32), *load_weights(model_folder()))
print(result(np.asarray(vectors)[0].tolist()), flush=True)
