"""The clients of one rank: their data, one model, and their local work, K SGD steps from θᵗ that end in Δ_i."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.config import ClientSettings, Config
from fedmpi.data import ClientData, Dataset
from fedmpi.errors import FedmpiError, Stopped
from fedmpi.models import TrainableModel, make_model
from fedmpi.models.memory import keep_freed_memory
from fedmpi.models.vectors import axpy, norm
from fedmpi.rng import stream, torch_seed

# (d,) float32: numpy's is in host memory, torch's where the model is.
Vector = NDArray[np.float32] | torch.Tensor
# A rank keeps the data of the clients that it trained last; others are loaded again when they are drawn.
CACHED_CLIENTS = 1024


class Training(NamedTuple):
    """What a client reports of its local work, beside Δ_i. The fields are columns of /cohorts in the record."""

    client: int
    train_loss: float  # mean over the K steps
    delta_norm: float  # ‖Δ_i‖
    compute_time: float  # seconds


# Updates that were computed for a probe and not sent yet, by client.
PendingUpdates = dict[int, tuple[Training, NDArray[np.float32]]]


def nothing() -> None:
    """The default of what is called between two steps."""


class LocalClients:
    """The clients that train on this rank, one after the other, with one model. Nothing is kept between rounds but
    their data."""

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
        """Take θᵗ, from which every client of this round starts, and the seed of the run that it belongs to."""
        received = as_tensor(theta)
        if self.staging is not None and received is not theta:
            received = self.staging.copy_(received)
        self.theta.copy_(received)
        self.seed = seed

    def train(self, i: int, t: int, delta: Vector, between_steps: Callable[[], object] = nothing) -> Training:
        """Train client i in round t, and write Δ_i = θ_i − θᵗ into `delta`."""
        start = time.perf_counter()
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
        return Training(i, loss, norm(out), time.perf_counter() - start)

    def probe_norms(
        self, clients: Iterable[int], t: int, pending: PendingUpdates, between_steps: Callable[[], object] = nothing
    ) -> NDArray[np.float64]:
        """‖Δ_i‖ of each client after its work in round t: (len,). The updates are put into `pending`."""
        norms = []
        for i in clients:
            delta: NDArray[np.float32] = torch.empty(len(self.theta)).numpy()
            training = self.train(i, t, delta, between_steps)
            pending[i] = training, delta
            norms.append(training.delta_norm)
        return np.array(norms, np.float64)

    def probe_losses(
        self, clients: Iterable[int], between_batches: Callable[[], object] = nothing
    ) -> NDArray[np.float64]:
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
            axpy(client.mu, model.theta, model.grad)
            axpy(-client.mu, theta, model.grad)
        axpy(-eta_l, model.grad, model.theta)
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
