"""Labelled images from the cache, divided among n clients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.config import DataSettings
from fedmpi.data.partition import Partition
from fedmpi.data.sources.cache import in_cache
from fedmpi.data.sources.cifar10 import CLASSES, SHAPE
from fedmpi.data.store import Store, open_store
from fedmpi.errors import ConfigError, DataError

EVALUATION_BATCH = 500

Batch = tuple[torch.Tensor, torch.Tensor]


class ImageClients:
    """CIFAR-10 for n clients, by data.partition; only labels are read until a client is loaded."""

    samples = "images"

    def __init__(self, data: DataSettings) -> None:
        if data.partition == "natural":
            raise ConfigError(
                f"data.partition = 'natural': '{data.name}' has no clients of its own; take 'paper', 'iid', 'dirichlet'"
                " or 'shard'"
            )
        with open_store(in_cache(data.name), "images") as store:
            self.labels = [checked_labels(store, part) for part in ("train", "test")]
            self.images = [store.extent(f"{part}_images") for part in ("train", "test")]
        train, test = (labels.astype(np.int64) for labels in self.labels)
        self.partition = Partition(data, train, test)
        self.n_samples = self.partition.n_samples

    def client(self, i: int) -> ImageClient:
        train, test = self.partition.pieces_of(i)
        images, labels = self.images, self.labels
        return ImageClient(images[0].rows(train), labels[0][train], images[1].rows(test), labels[1][test])

    def name(self, i: int) -> str:
        return f"part-{i}"


def checked_labels(store: Store, part: str) -> NDArray[np.uint8]:
    """The labels of the training or test images, after checking that they match the images."""
    labels: NDArray[np.uint8] = store.read(f"{part}_labels")
    if store.shape(f"{part}_images") != (len(labels), *SHAPE) or not labels.size or labels.max() >= CLASSES:
        raise DataError(f"{store.path}: its {part} images and labels do not match; import it again")
    return labels


class ImageClient:
    """A client's images (k, 3, 32, 32) uint8 and labels (k,) uint8, for training and test."""

    def __init__(
        self,
        train: NDArray[np.uint8],
        train_labels: NDArray[np.uint8],
        test: NDArray[np.uint8],
        test_labels: NDArray[np.uint8],
    ) -> None:
        self.train = torch.from_numpy(train), torch.from_numpy(train_labels)
        self.test = torch.from_numpy(test), torch.from_numpy(test_labels)

    def batch(self, B: int, rng: Generator) -> Batch:
        """B distinct training images: x (B, 3, 32, 32) float32 in [−1, 1], y (B,) int64."""
        count = len(self.train[1])
        chosen = np.arange(count) if count <= B else rng.choice(count, B, replace=False, shuffle=False)
        return scaled(self.train, chosen)

    def training(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.train, limit)

    def testing(self, limit: int) -> Iterator[tuple[int, Batch]]:
        return batches(self.test, limit)


def scaled(samples: Batch, chosen: NDArray[np.int64]) -> Batch:
    """The chosen images with pixels 0..255 brought to [−1, 1], and their labels."""
    images, labels = samples
    rows = torch.from_numpy(chosen)
    return images[rows].float().div_(127.5).sub_(1), labels[rows].long()


def batches(samples: Batch, limit: int) -> Iterator[tuple[int, Batch]]:
    """All images in order, or `limit` of them at even distances, in large batches."""
    count = len(samples[1])
    kept = min(limit, count) if limit else count
    rows = np.arange(kept) * count // max(kept, 1)
    for first in range(0, kept, EVALUATION_BATCH):
        chosen = rows[first : first + EVALUATION_BATCH]
        yield len(chosen), scaled(samples, chosen)
