"""The embedding example's tokenizer gives the ids of Hugging Face's `tokenizers`, for any text."""

from __future__ import annotations

import importlib.util
import random
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "examples" / "minilm"))

from minilm_weights import model_folder  # noqa: E402
from wordpiece import WordPiece  # noqa: E402

MANY = 1_000_000

# Characters that another version of Unicode, as `tokenizers` has it, puts into another category.
MOVED = "\u166d\u1734\u1885\u1886"
AGREED = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs") and character not in MOVED
]


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece(model_folder() / "vocab.txt")


@pytest.fixture(scope="module")
def oracle() -> Callable[[str], list[int]]:
    assert importlib.util.find_spec("tokenizers"), "tests/support/models.txt says what to install"
    import tokenizers

    made = tokenizers.Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    made.no_padding()
    made.no_truncation()
    return lambda text: made.encode(text).ids


@pytest.mark.parametrize(
    "text, ids",
    [
        ("", []),
        ("Hello, World!", [7592, 1010, 2088, 999]),
        ("unaffable", [14477, 20961, 3468]),  # the example of BERT's own tests: un ##aff ##able
        ("caf\u00e9 cafe\u0301 CAFE", [7668, 7668, 7668]),
        ("\u00a0 \t\r\n\u2003a\u200db\u00ad", [11113]),
        ("\u2603", [100]),
        ("a" * 101 + " a", [100, 1037]),
        ("[SEP] [sep]", [102, 1031, 19802, 1033]),
    ],
)
def test_known_ids(tokenizer: WordPiece, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text, MANY) == [101, *ids, 102]


def test_every_character_inside_a_word(tokenizer: WordPiece, oracle: Callable[[str], list[int]]) -> None:
    assert len(AGREED) > 200_000
    wrong = []
    for first in range(0, len(AGREED), 64):
        part = AGREED[first : first + 64]
        text = " ".join(f"a{character}b" for character in part)
        if oracle(text) != tokenizer.encode(text, MANY):
            wrong += [hex(ord(c)) for c in part if oracle(f"a{c}b") != tokenizer.encode(f"a{c}b", MANY)]
    assert wrong == []


@pytest.mark.parametrize("seed", range(4))
def test_random_texts(tokenizer: WordPiece, oracle: Callable[[str], list[int]], seed: int) -> None:
    chance = random.Random(seed)
    pieces = (model_folder() / "vocab.txt").read_text(encoding="utf-8").split("\n")
    tricky = [*"\u03a3\u03c3\u0130\u0131\u00df\u00c5\ufb01\u01c5\u30ab\ud55c\u0301\u200d\u00ad", "\U0002f800", "[SEP]", "[MASK]"]
    for _ in range(300):
        text = "".join(
            chance.choice(chance.choice([AGREED, pieces, tricky, [" ", ".", "'", "ab", "xyz"]]))
            + chance.choice(["", "", " "])
            for _ in range(chance.randrange(1, 40))
        )
        assert tokenizer.encode(text, MANY) == oracle(text), text


def test_what_is_too_long_is_cut_off_before_the_last_token(tokenizer: WordPiece) -> None:
    assert tokenizer.encode("hello " * 50, 6) == [101, 7592, 7592, 7592, 7592, 102]
    assert tokenizer.encode("hello [SEP] hello", 4) == [101, 7592, 102, 102]
    assert tokenizer.encode("hello", 2) == [101, 102]


def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nhello\n")
    with pytest.raises(ValueError, match=r"it has no \[CLS\] and no \[SEP\]"):
        WordPiece(tmp_path / "vocab.txt")
