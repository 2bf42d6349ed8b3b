"""A miniature of CIFAR-10 in the format of fedmpi's cache, made by arithmetic alone: the same bytes everywhere."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

TRAIN, TEST = 120, 40
ABOUT = {
    "format": "fedmpi-dataset",
    "format_version": "1.0",
    "kind": "images",
    "software_version": "0.2.0",
    "source": "made by a test",
    "sha256": "",
    "created": "2020-01-01T00:00:00+00:00",
    "licence": "none",
}


def write_miniature(cache: Path) -> None:
    """Write `cifar10.h5` into a folder that is then given as FEDMPI_CACHE."""
    cache.mkdir(parents=True, exist_ok=True)
    with h5py.File(cache / "cifar10.h5", "w", libver="latest") as file:
        for name, value in ABOUT.items():
            file.attrs[name] = np.bytes_(value.encode())
        for part, first, count in (("train", 0, TRAIN), ("test", TRAIN, TEST)):
            numbers = np.arange(first, first + count)
            file.create_dataset(f"{part}_labels", data=(numbers % 10).astype(np.uint8))
            file.create_dataset(f"{part}_images", data=images(numbers))


def images(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """(k, 3, 32, 32) uint8: a pattern for each class, numbers % 10, and noise from a linear congruence."""
    channel, row, column = np.ogrid[:3, :32, :32]
    number = numbers[:, None, None, None]
    pattern = (number % 10 + 1) * (row * (channel + 1) + 2 * column)
    place = ((number * 3 + channel) * 32 + row) * 32 + column
    noise = (place * 1_103_515_245 + 12_345) % 2**31 >> 20
    pixels: NDArray[np.uint8] = ((pattern + noise % 64) % 256).astype(np.uint8)
    return pixels
