"""Where imported datasets are kept: one file per dataset, under a name that fedmpi chooses."""

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


# How each dataset that is kept in the cache gets there.
SOURCES = {
    "shakespeare": "fedmpi data get shakespeare",
    "gutenberg": "fedmpi data import gutenberg FILE",
    "leaf": "fedmpi data import leaf DIR",
    "cifar10": "fedmpi data import cifar10 PATH",
}


def cached(name: str) -> Path:
    """The file of a dataset in SOURCES, whether it is there or not."""
    if name not in SOURCES:
        raise DataError(f"'{name}' is not a dataset that fedmpi keeps: it must be one of {', '.join(SOURCES)}")
    return cache_folder() / f"{name}.h5"


def in_cache(name: str) -> Path:
    """The file of a dataset, or a sentence that says how to get it."""
    path = cached(name)
    if not os.path.isfile(path):
        offline = "" if name == "cifar10" else ", or take data.name = 'synthetic-text', which needs no download"
        raise DataError(f"data.name = '{name}': not in the cache yet; run `{SOURCES[name]}`{offline}")
    return path
