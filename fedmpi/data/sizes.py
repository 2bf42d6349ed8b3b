"""How many training samples each generated client has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import DataSettings
from fedmpi.rng import stream


def client_sizes(data: DataSettings) -> NDArray[np.int64]:
    """n_i (n,) int64 ≥ 1: log-normal with mean data.samples and log-deviation data.spread; equal at spread 0."""
    z = stream(data.seed, "data").standard_normal(data.n)
    sizes = np.rint(data.samples * np.exp(data.spread * z - data.spread**2 / 2))
    whole: NDArray[np.int64] = np.maximum(sizes, 1).astype(np.int64)
    return whole
