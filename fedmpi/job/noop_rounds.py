"""No-op rounds: a whole job in which nobody trains, to measure what a round costs besides training."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import LocalClients, Training, Vector, as_tensor
from fedmpi.comm.bandwidth import first_ranks
from fedmpi.comm.hardware import RankHardware
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.data import Dataset, load_dataset
from fedmpi.job.prepare import Components
from fedmpi.job.start import run_job
from fedmpi.record import open_record
from fedmpi.scale.fit import Measured
from fedmpi.scale.model import EXCHANGES, JobShape

# Rounds at the start that do not count: they open connections, and every buffer's pages are touched for the first time,
# those of a buffer in turn with another one not before the second or third round.
WARM_UP = 3
# Rounds from which it is guessed how many can be had, and how many there are at least.
TRIAL, LEAST = 2, 5
VALUE = 1e-6
# What a machine's parameters are found from: sizes of θ in bytes, each with its numbers of updates per worker.
SMALL, LARGEST = 4, 64 * 2**20
UPDATES = {SMALL: (1, 16), 2**18: (1, 8), 2 * 2**20: (1, 8), 16 * 2**20: (1, 8), LARGEST: (1, 4)}
ROUNDS = 30
SECONDS_PER_JOB = 1.0


def measure_machine(world: World, ranks: Sequence[RankHardware], largest: float = LARGEST) -> list[Measured]:
    """**Collective.** No-op rounds of small and large θ with 1, 2, 4, … of the workers, on rank 0; empty elsewhere.

    ranks: what every rank has, known on rank 0. largest: the most bytes of θ.
    """
    measured = []
    near = world.from_server(lambda: sum(rank.node == ranks[0].node for rank in ranks))
    workers = world.size - 1
    for W in sorted({workers, *(1 << k for k in range(workers.bit_length()))}) if workers else ():
        with first_ranks(world, W + 1) as part:
            if part is None:
                continue
            for job in jobs(W, near, largest):
                seconds = measure_rounds(part, job, ROUNDS, SECONDS_PER_JOB)
                measured.append(Measured(job, float(np.median(seconds)) if world.is_server else 0.0))
    return measured if world.is_server else []


def jobs(W: int, ranks_per_node: int, largest: float) -> Iterator[JobShape]:
    """The jobs to measure with W workers: few and more updates of each size, by either exchange."""
    for size, updates in UPDATES.items():
        for each in updates if size <= max(largest, SMALL) else ():
            for exchange in EXCHANGES:
                yield JobShape(W, W * each, size, exchange, ranks_per_node=ranks_per_node)


def measure_rounds(world: World, job: JobShape, rounds: int, budget: float) -> NDArray[np.float64]:
    """**Collective.** The seconds of so many no-op rounds of a job with world.size − 1 workers, on rank 0.

    Every client takes part in every round, so that all workers have as much to do. There are as many rounds as take
    `budget` seconds, if these are not more than `rounds` or fewer than five.
    """
    trial = run_noop(world, job, TRIAL)
    count = world.from_server(lambda: int(np.clip(budget / trial[-1], LEAST, rounds)))
    return run_noop(world, job, WARM_UP + count)[WARM_UP:]


def run_noop(world: World, job: JobShape, rounds: int) -> NDArray[np.float64]:
    """**Collective.** The seconds of every round of one run, on rank 0; empty elsewhere."""
    config = Config.load(
        None,
        {
            "data.name": "quadratic",
            "data.dim": max(1, job.theta_bytes // 4),
            "data.n": job.m,
            "sampling.scheme": "full",
            "sampling.m": job.m,
            "model.name": "quadratic",
            "run.T": rounds,
            "run.checkpoint_every": 0,
            "eval.every": 0,
            "comm.exchange": job.exchange,
            "comm.down": job.down,
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "noop.h5"
        run_job([config], [out], world, components=NoOpComponents())
        if not world.is_server:
            return np.empty(0)
        with open_record(out) as record:
            return record.rounds["time_total"].astype(np.float64)


class NoOpComponents(Components):
    """The parts of a no-op job: a θ of the right size, and clients that change one number of it."""

    def dataset(self, config: Config) -> Dataset:
        return load_dataset(config.replace({"data.dim": 1}))

    def theta(self, config: Config) -> NDArray[np.float32]:
        return np.zeros(config.data.dim, np.float32)

    def clients(self, config: Config, dataset: Dataset) -> LocalClients:
        return NoOpClients(config, dataset)


class NoOpClients(LocalClients):
    """Clients that return the update that was written once into each slot, but for one number."""

    def __init__(self, config: Config, dataset: Dataset) -> None:
        super().__init__(config, dataset)
        self.filled: set[int] = set()

    def train(self, i: int, t: int, delta: Vector, between_steps: Callable[[], object] = lambda: None) -> Training:
        update = as_tensor(delta)
        if update.data_ptr() not in self.filled:
            # Memory that was never written is one page of zeros, which copies too fast.
            update.fill_(VALUE)
            self.filled.add(update.data_ptr())
        update[i % len(update)] = VALUE
        return Training(i, 0.0, VALUE * len(delta) ** 0.5, 0.0)
