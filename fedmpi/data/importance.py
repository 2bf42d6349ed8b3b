"""The clients' importances p, as sampling.importance gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.data.partition import dirichlet
from fedmpi.data.registry import load_dataset
from fedmpi.data.sources.archive import read_file
from fedmpi.errors import ConfigError, DataError
from fedmpi.rng import stream

Floats = NDArray[np.float64]

# Key of the stream (data.seed, "data", t).
IMPORTANCES = 6
MOST_BYTES = 32 << 20


def importances(config: Config, n_samples: NDArray[np.int64]) -> Floats:
    """p (n,) that sums to 1: n_i/M, 1/n, one draw of a Dirichlet (by data.seed), or the given numbers."""
    given, n = config.sampling.importance, len(n_samples)
    if isinstance(given, tuple):
        return as_given(np.array(given), n)
    if given == "uniform":
        return np.full(n, 1 / n)
    if given == "ratio":
        ratio: Floats = n_samples / n_samples.sum()
        return ratio
    kind, colon, argument = given.partition(":")
    if kind == "dirichlet" and colon:
        return dirichlet(stream(config.data.seed, "data", t=IMPORTANCES), concentration(given, argument), n)
    if kind == "heavy" and colon:
        return one_heavy(given, argument, n)
    if kind == "file" and colon:
        return as_given(numbers_in(Path(argument)), n)
    raise ConfigError(
        f"sampling.importance = '{given}': must be 'ratio', 'uniform', 'dirichlet:ALPHA', 'heavy:P', 'file:PATH'"
        f" or a list of {n} numbers"
    )


def importances_of(config: Config) -> tuple[Floats, NDArray[np.int64] | None]:
    """(p, sizes) of a configuration; sizes are n_i where p = n_i/M exactly, else None."""
    n_samples = load_dataset(config).n_samples
    return importances(config, n_samples), n_samples if config.sampling.importance == "ratio" else None


def as_given(numbers: Floats, n: int) -> Floats:
    """The numbers, one for each client."""
    if len(numbers) != n:
        raise ConfigError(f"sampling.importance: holds {len(numbers)} numbers, but data.n = {n}")
    return numbers


def concentration(given: str, argument: str) -> float:
    """The α of `dirichlet:ALPHA`."""
    try:
        alpha = float(argument)
    except ValueError:
        alpha = 0.0
    if not 0 < alpha < float("inf"):
        raise ConfigError(f"sampling.importance = '{given}': ALPHA must be a number above 0, as in 'dirichlet:0.5'")
    return alpha


def one_heavy(given: str, argument: str, n: int) -> Floats:
    """p_0 = P of `heavy:P`, and the rest in equal parts."""
    try:
        heavy = float(argument)
    except ValueError:
        heavy = -1.0
    if not 0 <= heavy < 1 or n < 2:
        raise ConfigError(f"sampling.importance = '{given}': P must be at least 0 and below 1, and data.n at least 2")
    p = np.full(n, (1 - heavy) / (n - 1))
    p[0] = heavy
    return p


def numbers_in(path: Path) -> Floats:
    """The numbers of a text file, with white space or commas between them. Sizes are as good as importances: the
    numbers are divided by their sum."""
    try:
        numbers = np.array(read_file(path, MOST_BYTES).decode("utf-8").replace(",", " ").split(), np.float64)
    except DataError as error:
        raise ConfigError(f"sampling.importance: {error}") from None
    except ValueError:
        raise ConfigError(f"sampling.importance: {path} is not a list of numbers") from None
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not 0 < numbers.sum() < np.inf:
        raise ConfigError(f"sampling.importance: {path} must hold finite numbers, none negative, not all zero")
    normalised: Floats = numbers / numbers.sum()
    return normalised
