"""Federated datasets: where samples live, and which client owns which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.config import Config, DataSettings
from fedmpi.data.importance import importances
from fedmpi.errors import ConfigError

__all__ = ["ClientData", "Dataset", "importances", "importances_of", "load_dataset"]


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
    from fedmpi.data.corpus import Corpus
    from fedmpi.data.images import ImageClients
    from fedmpi.data.quadratic import QuadraticClients
    from fedmpi.data.synthetic_text import SyntheticText

    generated: dict[str, Callable[[DataSettings], Dataset]] = {
        "quadratic": QuadraticClients,
        "synthetic-text": SyntheticText,
    }
    name, partition = config.data.name, config.data.partition
    if name in generated:
        if partition != "natural":
            raise ConfigError(f"data.partition = '{partition}': '{name}' is generated client by client ('natural')")
        return generated[name](config.data)
    return ImageClients(config.data) if name == "cifar10" else Corpus(config.data)


def importances_of(config: Config) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """(p, sizes) of a configuration; sizes are n_i where p = n_i/M exactly, else None."""
    n_samples = load_dataset(config).n_samples
    return importances(config, n_samples), n_samples if config.sampling.importance == "ratio" else None
