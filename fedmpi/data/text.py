"""Clients with text: stored once as uint8; windows of 80 characters are cut when needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.data.characters import CHARACTERS, VOCABULARY, WINDOW, split_point

__all__ = ["CHARACTERS", "VOCABULARY", "WINDOW", "TextClient", "batches", "cut", "split", "windows"]

EVALUATION_BATCH = 1000

Batch = tuple[torch.Tensor, torch.Tensor]


class TextClient:
    """A client's training and test text, as character numbers 0..99. Sample s is (text[a:a+80], text[a+80]), where a
    is its start: s itself, unless the starts are given."""

    def __init__(
        self,
        train: NDArray[np.uint8],
        test: NDArray[np.uint8],
        train_starts: NDArray[np.int64] | None = None,
        test_starts: NDArray[np.int64] | None = None,
    ) -> None:
        self.train = torch.from_numpy(train)
        self.test = torch.from_numpy(test)
        self.train_starts, self.test_starts = train_starts, test_starts

    def batch(self, B: int, rng: Generator) -> Batch:
        """B distinct training windows: x (B, 80) int64, y (B,) int64."""
        starts = self.train_starts
        count = windows(self.train) if starts is None else len(starts)
        chosen = np.arange(count) if count <= B else rng.choice(count, B, replace=False, shuffle=False)
        return cut(self.train, chosen if starts is None else starts[chosen])

    def training(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.train, limit, self.train_starts)

    def testing(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.test, limit, self.test_starts)


def windows(text: torch.Tensor) -> int:
    """How many windows a text has: each needs 80 characters and the one that follows."""
    return max(0, len(text) - WINDOW)


def cut(text: torch.Tensor, starts: NDArray[np.int64]) -> Batch:
    """The windows that begin at `starts`, and the characters that follow them."""
    rows = text[torch.from_numpy(starts)[:, None] + torch.arange(WINDOW + 1)].long()
    return rows[:, :WINDOW], rows[:, WINDOW]


def batches(text: torch.Tensor, limit: int, starts: NDArray[np.int64] | None = None) -> Iterator[tuple[int, Batch]]:
    """All windows (those at `starts`, or one at each place) in order, or `limit` of them at even distances, in large
    batches."""
    count = windows(text) if starts is None else len(starts)
    kept = min(limit, count) if limit else count
    samples = np.arange(kept) * count // max(kept, 1)
    for first in range(0, kept, EVALUATION_BATCH):
        chosen = samples[first : first + EVALUATION_BATCH]
        yield len(chosen), cut(text, chosen if starts is None else starts[chosen])


def split(text: NDArray[np.uint8], train_share: float = 0.8) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(training text, test text), in order."""
    middle = int(split_point(np.array([len(text)]), train_share)[0])
    return text[:middle], text[middle:]
