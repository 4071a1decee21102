"""The reference: MiniLM-L6 by JAX, in this process. `python embed_jax.py FILE.json SENTENCE ...` writes the vectors.

It shares the tokenizer and the weights' file with embed.py, and pads nothing: each sentence runs alone, at its own length.
"""

from __future__ import annotations

import json
import pathlib
import sys

import jax
import numpy as np
from minilm_model import embed
from minilm_weights import NAMES, model_folder
from safetensors import SafetensorsFile
from wordpiece import WordPiece

LONGEST = 128


def load_weights(folder: pathlib.Path) -> list[jax.Array]:
    """In the order in which `embed` takes them."""
    file = SafetensorsFile(folder / "model.safetensors")
    return [jax.numpy.asarray(np.frombuffer(file[name].data, np.float32).reshape(file[name].shape)) for name in NAMES]


def main() -> None:
    folder = model_folder()
    tokenizer, weights = WordPiece(folder / "vocab.txt"), load_weights(folder)
    run = jax.jit(embed)
    vectors = []
    for sentence in sys.argv[2:]:
        ids = np.array([tokenizer.encode(sentence, LONGEST)], np.int32)
        vectors.append(np.asarray(run(ids, np.array([ids.shape[1]], np.int32), *weights))[0].tolist())
    pathlib.Path(sys.argv[1]).write_text(json.dumps(vectors))


if __name__ == "__main__":
    main()
