"""Text to the token ids of an uncased BERT model, with the standard library.

    tokenizer = WordPiece("vocab.txt")
    tokenizer.encode("Hello, pjrtd!", 128)    # [101, 7592, 1010, 1052, ..., 102]

Three steps, as BERT takes them: the text is cleaned, lower-cased and freed of accents; it is cut at white space and around
punctuation and CJK characters; each word becomes the longest pieces of the vocabulary that make it up, from the left. The
ids are those of Hugging Face's `tokenizers` for the same vocabulary.
"""

from __future__ import annotations

import os
import re
import unicodedata

MAX_WORD_CHARACTERS = 100  # a longer word is unknown as a whole

# Blocks of CJK ideographs. Hiragana, Katakana and Hangul are written with spaces or cut by the vocabulary.
IDEOGRAPHS = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)
SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")


class WordPiece:
    """A tokenizer with the vocabulary of a file: a piece a line, its id the line's number from 0."""

    def __init__(self, vocabulary: str | os.PathLike[str]) -> None:
        with open(vocabulary, encoding="utf-8", newline="\n") as file:
            self._ids = {line.rstrip("\n"): number for number, line in enumerate(file)}
        missing = [token for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if token not in self._ids]
        if missing:
            raise ValueError(f"{os.fspath(vocabulary)} is no BERT vocabulary: it has no {' and no '.join(missing)}")
        self.padding = self._ids["[PAD]"]

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """The ids of a text between those of [CLS] and [SEP]; what exceeds `max_tokens` in all is cut off at the end."""
        ids: list[int] = []
        for at, part in enumerate(SPECIAL.split(text)):
            if at % 2:  # what the text writes as a special token is one
                ids.append(self._ids.get(part, self._ids["[UNK]"]))
            else:
                for word in words(normalize(part)):
                    ids += self._pieces(word)
            if len(ids) >= max_tokens - 2:
                break
        return [self._ids["[CLS]"], *ids[: max_tokens - 2], self._ids["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        """The ids of the longest pieces from the left; that of [UNK] alone where a rest is in no piece."""
        found: list[int] = []
        begin = 0
        while begin < len(word) <= MAX_WORD_CHARACTERS:
            prefix = "##" if begin else ""
            for end in range(len(word), begin, -1):
                id = self._ids.get(prefix + word[begin:end])
                if id is not None:
                    found.append(id)
                    begin = end
                    break
            else:
                return [self._ids["[UNK]"]]
        return found or [self._ids["[UNK]"]]


def normalize(text: str) -> str:
    """Without control characters and accents, in lower case, with spaces around ideographs."""
    kept = "".join([" " if character.isspace() else character for character in text if not _is_dropped(character)])
    plain = unicodedata.normalize("NFD", IDEOGRAPHS.sub(r" \1 ", kept))
    # By character: str.lower() of a whole word gives a sigma at its end another form, which the vocabulary was made without.
    return "".join([character.lower() for character in plain if unicodedata.category(character) != "Mn"])


def words(text: str) -> list[str]:
    """Cut at white space; each punctuation character is a word of its own."""
    return "".join([f" {character} " if _is_punctuation(character) else character for character in text]).split()


def _is_dropped(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")


def _is_punctuation(character: str) -> bool:
    # BERT counts what stands for none in Unicode ($, +, <, ^, `, |, ~ ...) where it is ASCII.
    if "!" <= character <= "~":
        return not character.isalnum()
    return unicodedata.category(character)[0] == "P"
