"""A client's local work: K SGD steps from θᵗ, and what they leave: Δ_i."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.config import ClientSettings, Config
from fedmpi.data import ClientData, Dataset
from fedmpi.errors import FedmpiError, Stopped
from fedmpi.models import TrainableModel, make_model
from fedmpi.models.memory import keep_freed_memory
from fedmpi.rng import stream, torch_seed

# (d,) float32: numpy's is in host memory, torch's where the model is.
Vector = NDArray[np.float32] | torch.Tensor
# A worker keeps the data of the clients it trained last; others are loaded again when they are drawn.
CACHED_CLIENTS = 1024


@dataclass(frozen=True)
class Training:
    """What one client's local work was: mean loss over its K steps, ‖Δ_i‖, seconds."""

    client: int
    loss: float
    norm: float
    seconds: float


# Updates that were computed but not yet asked for, by client.
Held = dict[int, tuple[Training, NDArray[np.float32]]]


def nothing() -> None:
    """What is done between steps if nothing is."""


class Host:
    """The clients that train on this rank, one after the other, with one model. Holds nothing between rounds
    but their data."""

    def __init__(self, config: Config, dataset: Dataset) -> None:
        torch.set_num_threads(config.client.threads)
        keep_freed_memory()
        self.config = config
        self.model = make_model(config)
        self.theta = torch.empty_like(self.model.theta)
        # Page-locked memory, through which vectors travel between a GPU and the buffers that MPI is given.
        self.staging = torch.empty(self.theta.shape, pin_memory=True) if self.theta.is_cuda else None
        self.data: Callable[[int], ClientData] = lru_cache(CACHED_CLIENTS)(dataset.client)

    def receive(self, theta: Vector, seed: int = 0) -> None:
        """Take θᵗ, the point every client of this round starts from, and the seed of the run it belongs to."""
        received = as_tensor(theta)
        if self.staging is not None and received is not theta:
            received = self.staging.copy_(received)
        self.theta.copy_(received)
        self.seed = seed

    def train(self, i: int, t: int, delta: Vector, between_steps: Callable[[], object] = nothing) -> Training:
        """Client i's work in round t; Δ_i is written into `delta`."""
        began = time.perf_counter()
        try:
            loss = local_steps(
                self.model, self.theta, self.data(i), self.config.client, (self.seed, t, i), between_steps
            )
        except Stopped:
            raise
        except Exception as error:
            raise FedmpiError(f"client {i}, round {t}: {type(error).__name__}: {error}") from error
        out = as_tensor(delta)
        if self.staging is None or out is delta:
            torch.sub(self.model.theta, self.theta, out=out)
        else:
            out.copy_(self.staging.copy_(self.model.theta.sub_(self.theta)))
        norm = float(torch.linalg.vector_norm(out, dtype=torch.float64))
        return Training(i, loss, norm, time.perf_counter() - began)

    def probe(
        self, norms: bool, clients: Iterable[int], t: int, held: Held, between_steps: Callable[[], object] = nothing
    ) -> NDArray[np.float64]:
        """‖Δ_i‖ of each client after its work in round t, with the updates put into `held`; or each L_i(θᵗ)."""
        if not norms:
            return self.losses(clients, between_steps)
        found = []
        for i in clients:
            delta: NDArray[np.float32] = torch.empty(len(self.theta)).numpy()
            held[i] = self.train(i, t, delta, between_steps), delta
            found.append(held[i][0].norm)
        return np.array(found, np.float64)

    def losses(self, clients: Iterable[int], between_batches: Callable[[], object] = nothing) -> NDArray[np.float64]:
        """L_i(θᵗ) of each client's training data (at most eval.max_samples of it): (len,)."""
        self.model.theta.copy_(self.theta)
        limit = self.config.eval.max_samples
        return np.array(
            [means(self.model, self.data(i).training(limit), between_batches)[0] for i in clients], np.float64
        )

    def evaluate(self, clients: Iterable[int], between_batches: Callable[[], object] = nothing) -> NDArray[np.float64]:
        """(loss on the training data, accuracy on the test data) of each client at the received θ: (len, 2)."""
        self.model.theta.copy_(self.theta)
        limit = self.config.eval.max_samples
        rows = []
        for i in clients:
            data = self.data(i)
            loss, _ = means(self.model, data.training(limit), between_batches)
            _, accuracy = means(self.model, data.testing(limit), between_batches)
            rows.append((loss, accuracy))
        return np.array(rows, np.float64).reshape(-1, 2)


def as_tensor(vector: Vector) -> torch.Tensor:
    """The same memory as a tensor."""
    return vector if isinstance(vector, torch.Tensor) else torch.from_numpy(vector)


def local_steps(
    model: TrainableModel,
    theta: torch.Tensor,
    data: ClientData,
    client: ClientSettings,
    key: tuple[int, int, int],
    between_steps: Callable[[], object],
) -> float:
    """The mean loss of K SGD steps from θᵗ, which leave θ_i in `model.theta`.

    θ_i ← θ_i − η_l decayᵗ (g_i(θ_i) + μ (θ_i − θᵗ)), each g_i on a fresh batch of B samples without replacement
    [FVKL, Algorithm 1; FedProx]. `key` is (run.seed, t, i): batches come from the stream of purpose
    "batches" with that key, dropout from that of "dropout".
    """
    seed, t, i = key
    rng = stream(seed, "batches", t, i)
    eta_l = client.eta_l * client.decay**t
    model.theta.copy_(theta)
    model.reseed(torch_seed(seed, "dropout", t, i))
    total = torch.zeros((), device=model.theta.device)
    for _ in range(client.K):
        total += model.gradient(data.batch(client.B, rng))
        if client.mu:
            model.grad.add_(model.theta, alpha=client.mu).sub_(theta, alpha=client.mu)
        model.theta.sub_(model.grad, alpha=eta_l)
        between_steps()
    return float(total) / client.K


def means(
    model: TrainableModel, batches: Iterator[tuple[int, Any]], between_batches: Callable[[], object]
) -> tuple[float, float]:
    """(mean loss, share correct) over the batches; NaN where there are no samples."""
    count, loss, correct = 0, 0.0, 0.0
    for size, batch in batches:
        batch_loss, batch_correct = model.evaluate(batch)
        count, loss, correct = count + size, loss + batch_loss, correct + batch_correct
        between_batches()
    return (loss / count, correct / count) if count else (float("nan"), float("nan"))
