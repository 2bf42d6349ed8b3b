"""What a federated dataset is to a job: n clients, each with samples of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


class ClientData(Protocol):
    """The samples of one client."""

    def batch(self, B: int, rng: Generator) -> Any:
        """B training samples without replacement (all of them if there are fewer), as the model takes them."""

    def training(self, limit: int) -> Iterator[tuple[int, Any]]:
        """The training samples as (count, batch), at most `limit` of them, spread evenly; 0 = all."""

    def testing(self, limit: int) -> Iterator[tuple[int, Any]]:
        """The test samples, likewise."""


class Dataset(Protocol):
    """n clients; a client's samples are loaded when `client(i)` is called.

    n_samples: (n,), the number of training samples n_i of each client.
    """

    n_samples: NDArray[np.int64]

    def client(self, i: int) -> ClientData:
        """The samples of client i."""

    def name(self, i: int) -> str:
        """The name of client i in the record."""
