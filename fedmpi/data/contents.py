"""The contents of a dataset in the cache, for `fedmpi data list`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmpi.data.characters import WINDOW
from fedmpi.data.sources.cache import in_cache
from fedmpi.data.store import open_store


@dataclass(frozen=True)
class Contents:
    """Counts of what a dataset holds, the size of its file in bytes, and its provenance."""

    counts: dict[str, int]
    size: int
    provenance: dict[str, str]


def contents(name: str) -> Contents:
    """The contents of a dataset in the cache. Windows are counted before any split."""
    path = in_cache(name)
    with open_store(path) as store:
        if store.kind == "images":
            counts = {f"{part} images": store.shape(f"{part}_labels")[0] for part in ("train", "test")}
        elif "train_starts" in store:
            windows = np.diff(store.read("train_ends")) + np.diff(store.read("test_ends"))
            counts = {"clients": int((windows > 0).sum()), "windows": int(windows.sum())}
        else:
            windows = np.maximum(0, np.diff(store.read("offsets")) - WINDOW)
            counts = {"clients with a window": int((windows > 0).sum()), "windows": int(windows.sum())}
        return Contents(counts, path.stat().st_size, store.provenance)
