"""Federated datasets: where samples live, and which client owns which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import ConfigError


class ClientData(Protocol):
    """One client's own samples."""

    def batch(self, B: int, rng: Generator) -> Any:
        """B training samples without replacement (all of them if there are fewer), as the model takes them."""

    def training(self, limit: int) -> Iterator[tuple[int, Any]]:
        """The training samples as (how many, batch), at most `limit` of them, spread evenly; 0 = all."""

    def testing(self, limit: int) -> Iterator[tuple[int, Any]]:
        """The test samples, likewise."""


class Dataset(Protocol):
    """n clients. `client(i)` loads one client's data; nothing is loaded before."""

    n_samples: NDArray[np.int64]

    def client(self, i: int) -> ClientData: ...

    def name(self, i: int) -> str: ...


def load_dataset(config: Config) -> Dataset:
    """The configured dataset."""
    from fedmpi.data.quadratic import QuadraticClients
    from fedmpi.data.synthetic_text import SyntheticText

    loaders: dict[str, type[QuadraticClients] | type[SyntheticText]] = {
        "quadratic": QuadraticClients,
        "synthetic-text": SyntheticText,
    }
    return loaders[config.data.name](config.data)


def importances(config: Config, n_samples: NDArray[np.int64]) -> NDArray[np.float64]:
    """p (n,), by sampling.importance: n_i/M, 1/n, or the given numbers."""
    given, n = config.sampling.importance, len(n_samples)
    if isinstance(given, tuple):
        if len(given) != n:
            raise ConfigError(f"sampling.importance: holds {len(given)} numbers, but data.n = {n}")
        return np.array(given)
    if given == "uniform":
        return np.full(n, 1 / n)
    if given == "ratio":
        ratio: NDArray[np.float64] = n_samples / n_samples.sum()
        return ratio
    raise ConfigError(f"sampling.importance = '{given}': must be 'ratio', 'uniform' or a list of {n} numbers")


def importances_of(config: Config) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """(p, sizes) of a configuration; sizes are n_i where p = n_i/M exactly, else None."""
    n_samples = load_dataset(config).n_samples
    return importances(config, n_samples), n_samples if config.sampling.importance == "ratio" else None
