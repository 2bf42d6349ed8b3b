"""Text as numbers: the vocabulary, and where a text is split."""

from __future__ import annotations

import string
import unicodedata

import numpy as np
from numpy.typing import NDArray

CHARACTERS = string.printable
VOCABULARY = len(CHARACTERS)
WINDOW = 80

# Typographic characters, and the plain ones that replace them.
PLAIN = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": ".", "\u00a0": " ", "æ": "a", "œ": "o"}
NUMBERS = {character: number for number, character in enumerate(CHARACTERS)}


def encode(text: str) -> NDArray[np.uint8]:
    """The character numbers of a text, one for each of its characters: (len,) uint8 in 0..99.

    The vocabulary is `string.printable`. Outside it, quotation marks and dashes become plain ones, accents are
    dropped, and anything else becomes "?"; one character stays one character, so windows keep their length.
    """
    if text.isascii():
        numbers = ASCII[np.frombuffer(text.encode("ascii"), np.uint8)]
        return numbers
    plain = {foreign: PLAIN.get(foreign) or unicodedata.normalize("NFKD", foreign)[:1] for foreign in set(text)}
    return encode(text.translate({ord(c): sign if sign in NUMBERS else "?" for c, sign in plain.items()}))


def decode(numbers: NDArray[np.uint8]) -> str:
    """The text of character numbers."""
    return "".join(CHARACTERS[number] for number in numbers.tolist())


ASCII = np.full(128, NUMBERS["?"], np.uint8)
ASCII[[ord(character) for character in CHARACTERS]] = np.arange(VOCABULARY, dtype=np.uint8)


def split_point(lengths: NDArray[np.int64], train_share: float = 0.8) -> NDArray[np.int64]:
    """Where the test text of each text starts: where its last training window ends, so that no test window overlaps
    training text. The first 80 % of a text's windows are for training."""
    count = (train_share * np.maximum(0, lengths - WINDOW)).astype(np.int64)
    return np.minimum(count + WINDOW, lengths)
