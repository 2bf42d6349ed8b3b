"""Text datasets from the cache: Shakespeare's roles, LEAF's users, or the same text in another partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import DataSettings
from fedmpi.data.characters import VOCABULARY, WINDOW, split_point
from fedmpi.data.partition import Partition
from fedmpi.data.sources.cache import in_cache
from fedmpi.data.store import Store, open_store
from fedmpi.data.text import TextClient, split
from fedmpi.errors import ConfigError, DataError
from fedmpi.rng import stream

Ints = NDArray[np.int64]

# Windows in a piece of text, for partitions other than `natural`.
PIECE = 100
# Key of the stream (data.seed, "data", t) that orders the clients.
ORDER = 3


class Corpus:
    """n clients of a cached text; only sizes are read until a client is loaded.

    `natural`: the file's clients, shuffled by data.seed, of which the first n with training and test windows are
    taken. The other partitions deal out runs of 100 windows, labelled by play.
    """

    samples = "text"

    def __init__(self, data: DataSettings) -> None:
        if data.partition == "paper":
            raise ConfigError(
                f"data.partition = 'paper': is for images; '{data.name}' has clients of its own, 'natural'"
            )
        self.data, self.path = data, in_cache(data.name)
        with open_store(self.path, "text") as store:
            self.offsets = store.read("offsets")
            self.check(store)
            train, test = self.counts(store)
            names, groups = store.read("names"), store.read("groups")
            self.text = store.extent("text")
        if data.partition == "natural":
            self.members = self.choose(train, test)
            self.n_samples = train[self.members]
            self.names: list[str] = [names[i].decode("utf-8", "replace") for i in self.members.tolist()]
        else:
            self.pieces = [Pieces(count) for count in (train, test)]
            train_labels, test_labels = (groups[pieces.owner] for pieces in self.pieces)
            self.partition = Partition(data, train_labels, test_labels, PIECE)
            self.n_samples = self.partition.n_samples
            self.names = [f"part-{i}" for i in range(data.n)]

    def check(self, store: Store) -> None:
        """Raise a DataError unless the offsets divide the text among the clients."""
        whole = len(self.offsets) > 0 and self.offsets[0] == 0 and self.offsets[-1] == store.shape("text")[0]
        clients = len(self.offsets) - 1
        sized = all(store.shape(name)[0] == clients for name in ("names", "groups"))
        if not whole or not sized or (np.diff(self.offsets) < 0).any():
            raise DataError(f"{store.path}: its offsets do not fit its text; import it again")

    def counts(self, store: Store) -> tuple[Ints, Ints]:
        """(training windows, test windows) of every client in the file."""
        self.given = "train_starts" in store
        if not self.given:
            lengths = np.diff(self.offsets)
            middle = split_point(lengths)
            return np.maximum(0, middle - WINDOW), np.maximum(0, lengths - middle - WINDOW)
        self.ends = [store.read(f"{part}_ends") for part in ("train", "test")]
        self.starts = [store.extent(f"{part}_starts") for part in ("train", "test")]
        for part, ends in zip(("train", "test"), self.ends, strict=True):
            fits = len(ends) == len(self.offsets) and ends[0] == 0 and ends[-1] == store.shape(f"{part}_starts")[0]
            if not fits or (np.diff(ends) < 0).any():
                raise DataError(f"{store.path}: its {part} windows do not fit its clients; import it again")
        return np.diff(self.ends[0]), np.diff(self.ends[1])

    def choose(self, train: Ints, test: Ints) -> Ints:
        """The indices in the file of the n clients, in an order drawn from data.seed."""
        shuffled = stream(self.data.seed, "data", t=ORDER).permutation(len(train))
        fit = shuffled[(train[shuffled] > 0) & (test[shuffled] > 0)]
        if len(fit) < self.data.n:
            raise ConfigError(
                f"data.n = {self.data.n}: '{self.data.name}' has {len(fit)} clients with training and test windows"
            )
        return fit[: self.data.n]

    def client(self, i: int) -> TextClient:
        natural = self.data.partition == "natural"
        train, test = self.parts(int(self.members[i])) if natural else self.assembled(i)
        return TextClient(train.text, test.text, train.starts, test.starts)

    def name(self, i: int) -> str:
        return self.names[i]

    def parts(self, owner: int) -> tuple[Part, Part]:
        """The training and the test part of one of the file's clients."""
        text: NDArray[np.uint8] = self.text.read(*self.offsets[owner : owner + 2].tolist())
        if text.size and text.max() >= VOCABULARY:
            raise DataError(f"{self.path}: its text holds numbers that are no characters; import it again")
        if not self.given:
            train, test = split(text)
            return Part(train), Part(test)
        starts = [
            places.read(*ends[owner : owner + 2].tolist()) for places, ends in zip(self.starts, self.ends, strict=True)
        ]
        for places in starts:
            if places.size and not 0 <= places.min() <= places.max() < len(text) - WINDOW:
                raise DataError(f"{self.path}: it has windows outside its text; import it again")
        return Part(text, starts[0]), Part(text, starts[1])

    def assembled(self, i: int) -> tuple[Part, Part]:
        """The training and the test part of client i of a partition, from the texts that hold its pieces."""
        train, test = self.partition.pieces_of(i)
        n_train, n_test = int(self.partition.n_samples[i]), int(self.partition.n_test[i])
        return self.joined(0, train, n_train), self.joined(1, test, n_test)

    def joined(self, which: int, chosen: Ints, count: int) -> Part:
        """The first `count` windows of the chosen pieces, of the training (0) or the test (1) text."""
        texts, starts, length = [], [], 0
        pieces = self.pieces[which]
        for owner in np.unique(pieces.owner[chosen]).tolist():
            own = self.parts(owner)[which]
            for first in pieces.first[chosen[pieces.owner[chosen] == owner]].tolist():
                samples = np.arange(first, first + PIECE)
                places = samples if own.starts is None else own.starts[samples]
                low, high = int(places.min()), int(places.max()) + WINDOW + 1
                texts.append(own.text[low:high])
                starts.append(places - low + length)
                length += high - low
        return Part(np.concatenate(texts), np.concatenate(starts)[:count])


@dataclass(frozen=True)
class Part:
    """A text and the starts of its windows; without starts, a window starts at every character."""

    text: NDArray[np.uint8]
    starts: Ints | None = None


class Pieces:
    """The runs of PIECE windows in the texts of all clients; the rest of a text is in none."""

    def __init__(self, windows: Ints) -> None:
        whole = windows // PIECE
        self.owner = np.repeat(np.arange(len(windows)), whole)
        self.first = (np.arange(len(self.owner)) - np.repeat(np.cumsum(whole) - whole, whole)) * PIECE
