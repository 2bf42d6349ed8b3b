"""The clients' importances p: the one reader of `sampling.importance` and of `fedmpi theory --p`.

uniform            p_i = 1/n
ratio              p_i = n_i/M, from the clients' numbers of training samples
dirichlet:ALPHA    one draw of the symmetric Dirichlet(ALPHA), seeded by data.seed
heavy:P            p_0 = P, and the other clients share the rest equally
file:PATH          the numbers of a text file or a .npy file, divided by their sum
a list             n numbers that sum to 1
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.data.partition import dirichlet
from fedmpi.data.registry import load_dataset
from fedmpi.data.sources.archive import read_file
from fedmpi.errors import ConfigError, DataError
from fedmpi.rng import stream

Floats = NDArray[np.float64]

KEY = "sampling.importance"
# Key of the stream (data.seed, "data", t).
IMPORTANCES = 6
MOST_BYTES = 32 << 20


def importances(config: Config, n_samples: NDArray[np.int64]) -> Floats:
    """p (n,) of a configuration whose clients have n_samples (n,) training samples."""
    return read_importances(config.sampling.importance, n_samples, config.data.seed)


def importances_of(config: Config) -> tuple[Floats, NDArray[np.int64] | None]:
    """(p, sizes) of a configuration, from its data; sizes are n_i where p = n_i/M exactly, else None."""
    n_samples = load_dataset(config).n_samples
    return importances(config, n_samples), n_samples if config.sampling.importance == "ratio" else None


def read_importances(given: str | Sequence[float], n_samples: NDArray[np.int64], seed: int, key: str = KEY) -> Floats:
    """p (n,) as given in one of the forms above. seed: data.seed. key: what messages call the setting."""
    n = len(n_samples)
    numbers = listed(given, key)
    if numbers is not None:
        if len(numbers) != n:
            raise ConfigError(f"{key}: holds {len(numbers)} numbers, but data.n = {n}")
        return numbers
    if given == "uniform":
        return np.full(n, 1 / n)
    if given == "ratio":
        ratio: Floats = n_samples / n_samples.sum()
        return ratio
    kind, _, argument = str(given).partition(":")
    if kind == "dirichlet" and argument:
        alpha = number_of(argument)
        if not 0 < alpha < np.inf:
            raise ConfigError(f"{key} = '{given}': ALPHA must be a number above 0, as in 'dirichlet:0.5'")
        return dirichlet(stream(seed, "data", t=IMPORTANCES), alpha, n)
    if kind == "heavy" and argument:
        heavy = number_of(argument)
        if not 0 <= heavy < 1 or n < 2:
            raise ConfigError(f"{key} = '{given}': P must be at least 0 and below 1, and data.n at least 2")
        p = np.full(n, (1 - heavy) / (n - 1))
        p[0] = heavy
        return p
    raise ConfigError(
        f"{key} = '{given}': must be 'ratio', 'uniform', 'dirichlet:ALPHA', 'heavy:P', 'file:PATH' or a list of"
        " numbers, one per client"
    )


def listed(given: str | Sequence[float], key: str = KEY) -> Floats | None:
    """The importances that a list or a `file:PATH` gives one by one; None for the other forms."""
    if not isinstance(given, str):
        return np.array(given, np.float64)
    if not given.startswith("file:"):
        return None
    path = Path(given.removeprefix("file:"))
    numbers = numbers_in(path, key)
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not 0 < numbers.sum() < np.inf:
        raise ConfigError(f"{key}: {path} must hold finite numbers, none negative, not all zero")
    normalised: Floats = numbers / numbers.sum()
    return normalised


def numbers_in(path: Path, key: str = KEY) -> Floats:
    """The numbers of a .npy file, or of a text file with white space or commas between them."""
    try:
        content = read_file(path, MOST_BYTES)
        if path.suffix == ".npy":
            return npy_numbers(content)
        return np.array(content.decode("utf-8").replace(",", " ").split(), np.float64)
    except DataError as error:
        raise ConfigError(f"{key}: {error}") from None
    except (ValueError, LookupError, TypeError, SyntaxError, RecursionError, MemoryError, TokenError) as error:
        raise ConfigError(f"{key}: {path} is not a list of numbers ({str(error).partition(chr(10))[0]})") from None


def npy_numbers(content: bytes) -> Floats:
    """The numbers that follow the header of a .npy file, whatever shape the header says."""
    file = io.BytesIO(content)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    _, _, kind = readers[np.lib.format.read_magic(file)](file)
    if kind.kind not in "iuf":
        raise ValueError(f"they are {kind}")
    return np.frombuffer(content, kind, offset=file.tell()).astype(np.float64)


def number_of(text: str) -> float:
    """The number that a text writes, else NaN."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
