"""The cache of imported datasets: one file per dataset, in one folder."""

from __future__ import annotations

import os
from pathlib import Path

from fedmpi.errors import DataError


def cache_folder() -> Path:
    """`$FEDMPI_CACHE`, else `$XDG_CACHE_HOME/fedmpi`, else `~/.cache/fedmpi`."""
    if chosen := os.environ.get("FEDMPI_CACHE"):
        return Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "fedmpi"
    try:
        return Path.home() / ".cache" / "fedmpi"
    except RuntimeError:
        raise DataError("there is no home directory to keep datasets in: set FEDMPI_CACHE to a folder") from None


# The command that brings each dataset into the cache.
SOURCES = {
    "shakespeare": "fedmpi data get shakespeare",
    "gutenberg": "fedmpi data import gutenberg FILE",
    "leaf": "fedmpi data import leaf DIR",
    "cifar10": "fedmpi data import cifar10 PATH",
}


def cached(name: str) -> Path:
    """The path of a dataset's file in the cache, whether the file exists or not."""
    if name not in SOURCES:
        raise DataError(f"'{name}' is not a dataset that fedmpi keeps: it must be one of {', '.join(SOURCES)}")
    return cache_folder() / f"{name}.h5"


def in_cache(name: str) -> Path:
    """The path of a dataset's file, or a DataError that says how to get it."""
    path = cached(name)
    if not os.path.isfile(path):
        offline = "" if name == "cifar10" else ", or take data.name = 'synthetic-text', which needs no download"
        raise DataError(f"data.name = '{name}': not in the cache yet; run `{SOURCES[name]}`{offline}")
    return path
