"""Character clients: a text kept once as uint8, windows of 80 characters cut on the fly."""

from __future__ import annotations

import string
from collections.abc import Iterator

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

CHARACTERS = string.printable
VOCABULARY = len(CHARACTERS)
WINDOW = 80
EVALUATION_BATCH = 1000

Batch = tuple[torch.Tensor, torch.Tensor]


class TextClient:
    """A client's training and test text, as character numbers 0..99; sample s is (text[s:s+80], text[s+80])."""

    def __init__(self, train: NDArray[np.uint8], test: NDArray[np.uint8]) -> None:
        self.train = torch.from_numpy(train)
        self.test = torch.from_numpy(test)

    def batch(self, B: int, rng: Generator) -> Batch:
        """B distinct training windows: x (B, 80) int64, y (B,) int64."""
        count = windows(self.train)
        if count <= B:
            return cut(self.train, np.arange(count))
        return cut(self.train, rng.choice(count, B, replace=False, shuffle=False))

    def training(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.train, limit)

    def testing(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.test, limit)


def windows(text: torch.Tensor) -> int:
    """How many windows a text has: each needs 80 characters and the one that follows."""
    return max(0, len(text) - WINDOW)


def cut(text: torch.Tensor, starts: NDArray[np.int64]) -> Batch:
    """The windows that begin at `starts`, and the characters that follow them."""
    rows = text[torch.from_numpy(starts)[:, None] + torch.arange(WINDOW + 1)].long()
    return rows[:, :WINDOW], rows[:, WINDOW]


def batches(text: torch.Tensor, limit: int) -> Iterator[tuple[int, Batch]]:
    """All windows in order, or `limit` of them at even distances, in large batches."""
    count = windows(text)
    kept = min(limit, count) if limit else count
    starts = np.arange(kept) * count // max(kept, 1)
    for first in range(0, kept, EVALUATION_BATCH):
        chosen = starts[first : first + EVALUATION_BATCH]
        yield len(chosen), cut(text, chosen)


def split(text: NDArray[np.uint8], train_share: float = 0.8) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(training text, test text), in order; the test text starts where the last training window ends, so that no
    test window overlaps training text."""
    count = int(train_share * max(0, len(text) - WINDOW))
    return text[: count + WINDOW], text[count + WINDOW :]
