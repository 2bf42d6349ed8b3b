"""Generated clients for the quadratic model: each has one point, the minimum θ_i* of its loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.random import Generator

from fedmpi.config import DataSettings
from fedmpi.data.partition import check_natural
from fedmpi.data.sizes import client_sizes
from fedmpi.rng import stream


class QuadraticClients:
    """θ_i* = c + h·z_i with c, z_i standard normal in `data.dim` dimensions and h = data.heterogeneity."""

    samples = "points"

    def __init__(self, data: DataSettings) -> None:
        check_natural(data)
        self.data = data
        self.n_samples = client_sizes(data)
        # t = 2, because t = 1 is the key of the clients' own minima.
        self.centre = stream(data.seed, "data", t=2).standard_normal(data.dim)

    def client(self, i: int) -> QuadraticClient:
        z = stream(self.data.seed, "data", t=1, client=i).standard_normal(self.data.dim)
        return QuadraticClient(torch.from_numpy((self.centre + self.data.heterogeneity * z).astype(np.float32)))

    def name(self, i: int) -> str:
        return f"point-{i}"


class QuadraticClient:
    """A client for whom every batch is its minimum θ_i*: (dim,) float32."""

    def __init__(self, minimum: torch.Tensor) -> None:
        self.minimum = minimum

    def batch(self, B: int, rng: Generator) -> torch.Tensor:
        return self.minimum

    def training(self, limit: int) -> Iterator[tuple[int, torch.Tensor]]:
        yield 1, self.minimum

    def testing(self, limit: int) -> Iterator[tuple[int, torch.Tensor]]:
        yield 1, self.minimum
