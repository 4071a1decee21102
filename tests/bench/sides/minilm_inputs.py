"""What both MiniLM sides embed: the same tokens, and how their answers are checked. The example's own modules read the weights."""

from __future__ import annotations

import array
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "python-client" / "examples" / "minilm"
sys.path.append(str(EXAMPLE))

SHAPES = ((1, 32), (8, 32), (1, 128))
SENTENCE = "Nobody waits for a program to be compiled again, or for its weights to be read from a disk once more."


def inputs(rows: int, tokens: int) -> tuple[memoryview, array.array[int]]:
    """ids s32[rows, tokens] and lengths s32[rows] of a batch: each row is full."""
    from minilm_weights import model_folder
    from wordpiece import WordPiece

    row = WordPiece(model_folder() / "vocab.txt").encode(f"{SENTENCE} " * 8, tokens)
    ids = array.array("i", row * rows)
    return memoryview(ids).cast("B").cast("i", (rows, tokens)), array.array("i", [tokens] * rows)


def result(vector: list[float]) -> str:
    """What the sides that embed one sentence print of it: SENTENCE's first numbers, to what f32 gives everywhere."""
    return "result " + " ".join(f"{x:.3f}" for x in vector[:4])


def check_vectors(vectors: bytes | bytearray, rows: int) -> None:
    """f32[rows, 384]: rows of length 1, all the same, since the sentences are."""
    values = array.array("f", bytes(vectors))
    first = values[:384]
    if len(values) != rows * 384 or abs(sum(x * x for x in first) - 1) > 1e-4:
        raise SystemExit("a wrong result: no vectors of length 1")
    if any(abs(x - first[at % 384]) > 1e-5 for at, x in enumerate(values)):
        raise SystemExit("a wrong result: equal sentences have different vectors")
