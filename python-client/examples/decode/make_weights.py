"""The weights of the decoding example: random numbers from a fixed seed, so that nothing has to be downloaded.

    python make_weights.py FILE      writes them as a safetensors file

decode.py makes them itself. The model is untrained: what it says is syllables without a meaning, but always the same.
"""

from __future__ import annotations

import array
import json
import math
import random
import struct
import sys
from typing import NamedTuple

VOCABULARY = 71  # 14 consonants times 5 vowels, and the end
CONTEXT = 128  # tokens that the cache has room for
WIDTH = 64
HEADS = 4
LAYERS = 2
HIDDEN = 256

SEED = 0


class Weight(NamedTuple):
    name: str
    shape: tuple[int, ...]
    scale: float  # standard deviation; 0: all ones


def layer_weights(number: int) -> list[Weight]:
    across, down = 1 / math.sqrt(WIDTH), 1 / math.sqrt(HIDDEN)
    return [
        Weight(f"layer.{number}.attention_norm", (WIDTH,), 0),
        Weight(f"layer.{number}.query_key_value", (WIDTH, 3 * WIDTH), across),
        Weight(f"layer.{number}.attention_out", (WIDTH, WIDTH), across),
        Weight(f"layer.{number}.mlp_norm", (WIDTH,), 0),
        Weight(f"layer.{number}.mlp_up", (WIDTH, HIDDEN), across),
        Weight(f"layer.{number}.mlp_down", (HIDDEN, WIDTH), down),
    ]


#: In the order of the program's last arguments. All are f32.
WEIGHTS = [
    Weight("embedding", (VOCABULARY, WIDTH), 1),
    Weight("position_embedding", (CONTEXT, WIDTH), 1),
    *[weight for number in range(LAYERS) for weight in layer_weights(number)],
    Weight("final_norm", (WIDTH,), 0),
    Weight("unembedding", (WIDTH, VOCABULARY), 1 / math.sqrt(WIDTH)),
]


def make(seed: int = SEED) -> dict[str, array.array[float]]:
    """The values of each weight, row-major."""
    chance = random.Random(seed)

    def values(weight: Weight) -> array.array[float]:
        count = math.prod(weight.shape)
        return array.array("f", [chance.gauss(0, weight.scale) if weight.scale else 1.0 for _ in range(count)])

    return {weight.name: values(weight) for weight in WEIGHTS}


def write(path: str, seed: int = SEED) -> None:
    made = make(seed)
    header: dict[str, object] = {}
    at = 0
    for weight in WEIGHTS:
        end = at + 4 * len(made[weight.name])
        header[weight.name] = {"dtype": "F32", "shape": weight.shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data stands at a multiple of 8
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in made.values():
            file.write(values)


if __name__ == "__main__":
    write(sys.argv[1])
