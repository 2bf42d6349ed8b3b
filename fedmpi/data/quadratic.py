"""Clients that are one point each: the minimum θ_i* of their quadratic loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.random import Generator

from fedmpi.config import DataSettings
from fedmpi.data.sizes import client_sizes
from fedmpi.rng import stream


class QuadraticClients:
    """θ_i* = c + h·z_i with c, z_i standard normal in `data.dim` dimensions and h = data.heterogeneity."""

    def __init__(self, data: DataSettings) -> None:
        self.data = data
        self.n_samples = client_sizes(data)
        # Client numbers start at 0, so the centre takes a key that no client has.
        self.centre = stream(data.seed, "data", t=2).standard_normal(data.dim)

    def client(self, i: int) -> QuadraticClient:
        z = stream(self.data.seed, "data", t=1, client=i).standard_normal(self.data.dim)
        return QuadraticClient(torch.from_numpy((self.centre + self.data.heterogeneity * z).astype(np.float32)))

    def name(self, i: int) -> str:
        return f"point-{i}"


class QuadraticClient:
    """A client whose every batch is its minimum."""

    def __init__(self, minimum: torch.Tensor) -> None:
        self.minimum = minimum

    def batch(self, B: int, rng: Generator) -> torch.Tensor:
        return self.minimum

    def training(self, limit: int) -> Iterator[tuple[int, torch.Tensor]]:
        yield 1, self.minimum

    def testing(self, limit: int) -> Iterator[tuple[int, torch.Tensor]]:
        yield 1, self.minimum
