"""Decode tokens with a small transformer on whatever device pjrtd serves. The cache of keys and values never leaves it.

    PJRTD_TARGET=unix:/run/pjrtd/pjrtd.sock python decode.py bu ge

Prints syllables as they come, until the model says that the text ends or the cache is full. The model is untrained, so they
mean nothing. One step is a StableHLO program (decode_step.mlir, made by lower_decode.py; JAX is not needed here). Token, position
and the caches are slots: they go in and their next values come out into them, in the same memory, since the step donates them.
All steps are one call, which the daemon makes next to the device until the step says `stop`; the tokens come as they are made.
"""

from __future__ import annotations

import argparse
import array
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pjrtd
from make_weights import CONTEXT, HEADS, LAYERS, SEED, VOCABULARY, WEIGHTS, WIDTH, make
from pjrtd.session import Session

PROGRAM = pathlib.Path(__file__).resolve().parent / "decode_step.mlir"
STATE = ["token", "position", "keys", "values"]
CACHE = (LAYERS, CONTEXT, HEADS, WIDTH // HEADS)
SYLLABLES = [".", *(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")]
assert len(SYLLABLES) == VOCABULARY


class Decoder:
    """A model, and its decoding step, in a session: weights and state are slots."""

    def __init__(self, session: Session, seed: int = SEED) -> None:
        made = make(seed)
        session.bind_many({weight.name: loader(session.client, made[weight.name], weight.shape) for weight in WEIGHTS})
        names = [*STATE, *(weight.name for weight in WEIGHTS)]
        # Outputs with an input's name go back there, so each step's token is the next one's.
        self._step = session.program(PROGRAM.read_text(), names, outputs=[*STATE, "stop"])
        # The same program for tokens that are known.
        self._read = session.program_from_executable(
            self._step.executable, names, outputs=self._step.outputs, feed_back={name: name for name in STATE[1:]}
        )
        self._session = session

    def __call__(self, beginning: Sequence[int]) -> Iterator[int]:
        """The tokens after a beginning of at least one and fewer than CONTEXT, up to and with 0, which ends a text."""
        if not 0 < len(beginning) < CONTEXT:
            raise ValueError(f"a beginning has 1 to {CONTEXT - 1} tokens, not {len(beginning)}")
        *earlier, last = beginning
        client, empty = self._session.client, bytes(4 * math.prod(CACHE))
        state = {name: client.buffer_from_host(empty, "f32", CACHE) for name in ("keys", "values")}
        state |= {"token": client.buffer_from_host(last, "s32"), "position": client.buffer_from_host(0, "s32")}
        self._session.feed_back(state)
        if earlier:
            self._read.run(stacked={"token": array.array("i", earlier)}).wait()
        for _, told in self._step.run(CONTEXT, fetch=["token"], every=1, until="stop"):
            yield told["token"].item()


def loader(client: pjrtd.Client, values: array.array[float], shape: Sequence[int]) -> Callable[[Any], pjrtd.Buffer[Any]]:
    """What puts a weight on a device, once the program names it."""
    return lambda device: client.buffer_from_host(values, "f32", shape, device=device)


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
        for token in Decoder(Session(client), arguments.seed)(arguments.beginning):
            print(token if arguments.ids else SYLLABLES[token], end=" ", flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
