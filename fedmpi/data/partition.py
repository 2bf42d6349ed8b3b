"""Partitions: which client owns which samples, where the data does not say (iid, Dirichlet, shards, the paper's).

The unit is a piece: one image, or a run of windows of a text; it has a label (a class, a play). A partition needs only
the labels, so every rank computes it by itself, and then reads only the pieces of its own clients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.config import DataSettings
from fedmpi.data.sizes import client_sizes
from fedmpi.errors import ConfigError
from fedmpi.rng import stream

Ints = NDArray[np.int64]
NOTHING = np.zeros(0, np.int64)

# A client has a fifth as many test samples as training samples.
TEST_SHARE = 5
# Training samples of each tenth of the clients   [FVKL, app. CIFAR10]: 10, 30, 30, 20 and 10 % of them.
PAPER_SIZES = np.array([100, 250, 250, 250, 500, 500, 500, 750, 750, 1000])
# Keys of the streams (data.seed, "data", t).
DEALING, PROPORTIONS = 4, 5


class Partition:
    """n clients' shares of the training and the test pieces; `per_piece` samples in each piece.

    n_samples, n_test: (n,) int64, in samples. The last piece of a client may be used only in part.
    """

    def __init__(self, data: DataSettings, train_labels: Ints, test_labels: Ints, per_piece: int = 1) -> None:
        self.data, self.per_piece = data, per_piece
        self.labels = (train_labels, test_labels)
        if data.partition == "shard":
            self.shards, self.owned = self.deal_shards()
            lengths = [np.array([len(shard) for shard in shards]) for shards in self.shards]
            self.n_samples, self.n_test = (length[self.owned].sum(axis=1) * per_piece for length in lengths)
            return
        self.n_samples = paper_sizes(data.n) if data.partition == "paper" else client_sizes(data)
        self.n_test = np.maximum(1, self.n_samples // TEST_SHARE)
        self.counts = [-(-sizes // per_piece) for sizes in (self.n_samples, self.n_test)]
        if data.partition == "iid":
            self.dealt = self.deal_evenly()
        else:
            self.check_room(max)
            self.by_label = [pieces_by_label(labels) for labels in self.labels]

    def pieces_of(self, i: int) -> tuple[Ints, Ints]:
        """Client i's (training pieces, test pieces), ascending."""
        if self.data.partition == "shard":
            train, test = (np.concatenate([shards[k] for k in self.owned[i]]) for shards in self.shards)
        elif self.data.partition == "iid":
            train, test = (
                order[ends[i] - count[i] : ends[i]]
                for (order, ends), count in zip(self.dealt, self.counts, strict=True)
            )
        else:
            train, test = self.draw_by_label(i)
        return np.sort(train), np.sort(test)

    def deal_evenly(self) -> list[tuple[Ints, Ints]]:
        """A shuffled order of the pieces, of which client i owns those before ends[i]: disjoint clients."""
        self.check_room(sum)
        rng = stream(self.data.seed, "data", t=DEALING)
        orders = [rng.permutation(len(labels)) for labels in self.labels]
        return [(order, np.cumsum(count)) for order, count in zip(orders, self.counts, strict=True)]

    def deal_shards(self) -> tuple[list[list[Ints]], Ints]:
        """The pieces sorted by label and cut into n·s shards, of which each client gets s at random: ([training shards,
        test shards], (n, s) shard numbers)   [McMahan et al. 2017]. Disjoint clients, all pieces used."""
        n, s = self.data.n, self.data.shards
        for labels in self.labels:
            if n * s > len(labels):
                raise ConfigError(
                    f"data.shards = {s}: {n} clients need {n * s} shards, but there are {len(labels)} pieces"
                )
        parts = [np.array_split(np.argsort(labels, kind="stable"), n * s) for labels in self.labels]
        rng = stream(self.data.seed, "data", t=DEALING)
        return parts, rng.permutation(n * s).reshape(n, s)

    def draw_by_label(self, i: int) -> tuple[Ints, Ints]:
        """Client i's pieces: its label proportions are one draw of a Dirichlet(α, …, α), the same for training and
        test. Each client draws without replacement from all pieces, so two clients may own the same one, as in
        the paper's experiment: disjoint clients would exhaust the labels for small α."""
        rng = stream(self.data.seed, "data", t=PROPORTIONS, client=i)
        labels = np.union1d(*self.labels)
        proportions = dirichlet(rng, self.data.alpha, len(labels))
        drawn = []
        for by_label, count in zip(self.by_label, self.counts, strict=True):
            stocks = [by_label.get(label, NOTHING) for label in labels.tolist()]
            wanted = apportion(proportions, int(count[i]), np.array([len(stock) for stock in stocks]))
            parts = [rng.choice(stock, k, replace=False) for stock, k in zip(stocks, wanted.tolist(), strict=True)]
            drawn.append(np.concatenate(parts))
        return drawn[0], drawn[1]

    def check_room(self, needed: Callable[[list[int]], int]) -> None:
        """Raise a ConfigError if there are fewer pieces than needed(counts): `sum` of all clients, or `max` of any."""
        for what, labels, counts in zip(("training", "test"), self.labels, self.counts, strict=True):
            want = needed(counts.tolist())
            if want > len(labels):
                raise ConfigError(
                    f"data.partition = '{self.data.partition}': asks for {want * self.per_piece} {what} samples, but"
                    f" '{self.data.name}' has {len(labels) * self.per_piece}; lower data.samples, data.spread or data.n"
                )


def check_natural(data: DataSettings) -> None:
    """Raise a ConfigError if generated data, which is made client by client, is to be partitioned."""
    if data.partition != "natural":
        raise ConfigError(
            f"data.partition = '{data.partition}': '{data.name}' is generated client by client ('natural')"
        )


def paper_sizes(n: int) -> Ints:
    """n_i of the paper's CIFAR-10 clients, in the same proportions for any n: (n,) int64."""
    return PAPER_SIZES[np.arange(n) * len(PAPER_SIZES) // n].astype(np.int64)


def pieces_by_label(labels: Ints) -> dict[int, Ints]:
    """The pieces with each label."""
    order = np.argsort(labels, kind="stable")
    values, first = np.unique(labels[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))


def dirichlet(rng: Generator, alpha: float, size: int) -> NDArray[np.float64]:
    """One draw of the symmetric Dirichlet(α): (size,) float64 that sum to 1, also where α is too small for numpy."""
    drawn = rng.dirichlet(np.full(size, alpha))
    if not abs(drawn.sum() - 1) < 1e-6:
        drawn = np.zeros(size)
        drawn[rng.integers(size)] = 1.0
    return drawn


def apportion(proportions: NDArray[np.float64], total: int, available: Ints) -> Ints:
    """Whole numbers that sum to `total`, as near to total·proportions as `available` allows (largest remainders).
    What a label cannot supply is taken from the others, largest proportion first."""
    ideal = total * proportions
    remainders = ideal - np.floor(ideal)
    counts: Ints = np.minimum(ideal.astype(np.int64), available)
    for label in np.argsort(-remainders, kind="stable").tolist():
        if remainders[label] > 0 and counts[label] < available[label] and counts.sum() < total:
            counts[label] += 1
    for label in np.argsort(-proportions, kind="stable").tolist():
        counts[label] += min(total - int(counts.sum()), int(available[label] - counts[label]))
    return counts
