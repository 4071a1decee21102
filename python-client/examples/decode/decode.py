"""Decode tokens with a small transformer on whatever device pjrtd serves. The cache of keys and values never leaves it.

    PJRTD_TARGET=unix:/run/pjrtd/pjrtd.sock python decode.py bu ge

Prints syllables as they come, until the model says that the text ends or the cache is full. The model is untrained, so they
mean nothing. One step is a StableHLO program (decode_step.mlir, made by lower_decode.py; JAX is not needed here): token,
position and the caches go in and their next values come out, in the same memory, since the step donates them. What the host
reads of each step is the token and whether to stop.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pjrtd
from make_weights import CONTEXT, SEED, VOCABULARY, WEIGHTS, make

PROGRAM = pathlib.Path(__file__).resolve().parent / "decode_step.mlir"
END = 0
SYLLABLES = [".", *(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")]
assert len(SYLLABLES) == VOCABULARY


class Decoder:
    """A model on the device, and its decoding step."""

    def __init__(self, client: pjrtd.Client, seed: int = SEED) -> None:
        self._client = client
        self._step = client.compile(PROGRAM.read_text())
        made = make(seed)
        self._weights = [client.buffer_from_host(made[weight.name], "f32", weight.shape) for weight in WEIGHTS]

    def __call__(self, beginning: Sequence[int]) -> Iterator[int]:
        """The tokens after a beginning of at least one and fewer than CONTEXT, up to and with END."""
        if not 0 < len(beginning) < CONTEXT:
            raise ValueError(f"a beginning has 1 to {CONTEXT - 1} tokens, not {len(beginning)}")
        cache = self._step.arguments[2].type
        keys, values = (self._client.buffer_from_host(bytes(cache.nbytes), "f32", cache.dims) for _ in range(2))
        position: Any = 0
        *earlier, token = beginning
        for known in earlier:
            _, position, keys, values, _ = self._step(known, position, keys, values, *self._weights)
        following: Any = token
        while True:
            following, position, keys, values, stop = self._step(following, position, keys, values, *self._weights)
            yield following.item()
            if stop.item():
                return


def number_of(syllable: str) -> int:
    if syllable not in SYLLABLES[1:]:
        raise argparse.ArgumentTypeError(f"{syllable!r} is no syllable; there are {' '.join(SYLLABLES[1:])}")
    return SYLLABLES.index(syllable)


def main() -> int:
    parser = argparse.ArgumentParser(description="Decode syllables with a small transformer through pjrtd.")
    parser.add_argument("beginning", nargs="*", type=number_of, default=[number_of("bu"), number_of("ge")], metavar="SYLLABLE")
    parser.add_argument("--target", help="unix:PATH or grpc://HOST:PORT of the daemon; default $PJRTD_TARGET")
    parser.add_argument("--seed", type=int, default=SEED, help="of the model's weights")
    parser.add_argument("--ids", action="store_true", help="print the tokens' numbers")
    arguments = parser.parse_args()

    with pjrtd.Client.create(arguments.target) as client:
        for token in Decoder(client, arguments.seed)(arguments.beginning):
            print(token if arguments.ids else SYLLABLES[token], end=" ", flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
