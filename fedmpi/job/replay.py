"""Repeating the communication of a recorded run: same S_t, same bytes, nobody trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.client import LocalClients, Training, Vector
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.data import ClientData, Dataset
from fedmpi.errors import RecordError
from fedmpi.job.prepare import Components, configured_scheme
from fedmpi.job.start import OnRound, ignore, run_job
from fedmpi.record import Record, open_record
from fedmpi.sampling import SCHEMES, Cohort, Scheme

# Recorded rounds as they are sent to all ranks; see `read_rounds`.
Rounds = dict[str, Any]


def replay(
    source: str | Path,
    out: str | Path,
    world: World,
    *,
    compute: bool = False,
    force: bool = False,
    debug: bool = False,
    on_round: OnRound = ignore,
) -> None:
    """**Collective.** Repeat the rounds of the record `source` on this network, and write a record of them.

    With `compute`, every client sleeps as long as it trained; without, updates are ready at once.
    """
    rounds = world.from_server(lambda: read_rounds(open_record(source)))
    config = Config.from_toml(rounds["config"])
    attributes = {"replay_of": Path(source).name, "replay_compute": "recorded" if compute else "none"}
    components = ReplayComponents(rounds, compute)
    run_job(
        [config],
        [Path(out)],
        world,
        force=force,
        debug=debug,
        on_round=on_round,
        attributes=attributes,
        components=components,
    )


def read_rounds(record: Record) -> Rounds:
    """What a replay needs: the config, |θ|, and per round who was drawn and how long each trained."""
    config = record.config
    if config.sampling.scheme == "power-of-choice":
        raise RecordError(
            f"{record.path}: power-of-choice asks candidates that are not in the record; cannot be replayed"
        )
    if not record.rounds_done:
        raise RecordError(f"{record.path}: has no committed round to replay")
    rounds = np.split(record.cohorts, record.rounds["cohort_end"][:-1])
    changes = {"run.T": record.rounds_done, "eval.every": 0, "record.theta_every": 0}
    return {
        "config": config.replace({**changes, "run.name": f"{config.run.name}-replay"}).to_toml(),
        "d": len(record.theta),
        "n_samples": record.clients["n_samples"].tolist(),
        "p": record.clients["p"].tolist(),
        "home": record.clients["rank"].tolist(),
        "clients": [rows["client"].tolist() for rows in rounds],
        "omega": [rows["omega"].tolist() for rows in rounds],
        "seconds": [rows["compute_time"].tolist() for rows in rounds],
    }


class ReplayComponents(Components):
    """The parts of a replay: recorded draws, clients that only wait, a θ that stays zero."""

    def __init__(self, rounds: Rounds, compute: bool) -> None:
        self.rounds, self.compute = rounds, compute

    def dataset(self, config: Config) -> Dataset:
        return RecordedClients(np.array(self.rounds["n_samples"]))

    def scheme(self, config: Config, dataset: Dataset) -> Scheme:
        original = configured_scheme(config, dataset) if config.sampling.scheme in SCHEMES else None
        return RecordedDraws(original, self.rounds)

    def theta(self, config: Config) -> NDArray[np.float32]:
        return np.zeros(int(self.rounds["d"]), np.float32)

    def clients(self, config: Config, dataset: Dataset) -> LocalClients:
        seconds = [
            dict(zip(clients, times, strict=True))
            for clients, times in zip(self.rounds["clients"], self.rounds["seconds"], strict=True)
        ]
        return WaitingClients(int(self.rounds["d"]), seconds if self.compute else None)

    def home(self, schemes: Sequence[Scheme], workers: Sequence[int]) -> NDArray[np.int32]:
        recorded = np.array(self.rounds["home"], np.int32)
        return recorded if set(recorded.tolist()) <= set(workers) else super().home(schemes, workers)


class RecordedClients:
    """Clients of whom only the number of samples is known."""

    def __init__(self, n_samples: NDArray[np.int64]) -> None:
        self.n_samples = n_samples

    def client(self, i: int) -> ClientData:
        raise RecordError(f"client {i}: a replay has no data")

    def name(self, i: int) -> str:
        return f"client-{i}"


class RecordedDraws(Scheme):
    """The cohorts of a record, in their order; clients are probed as by the scheme that drew them, if it is ours."""

    name = "recorded"
    summary = "the cohorts of a record, in their order"

    def __init__(self, original: Scheme | None, rounds: Rounds) -> None:
        super().__init__(np.array(rounds["p"]), 1)
        self.probe = original.probe if original else None
        self.scalars_per_client = original.scalars_per_client if original else 0
        self.rounds = rounds
        self.t = 0

    def begin_round(self, t: int) -> None:
        self.t = t

    def draw(self, rng: Generator, **answers: object) -> Cohort:
        return Cohort(np.array(self.rounds["clients"][self.t], np.int64), np.array(self.rounds["omega"][self.t]))

    def inclusion(self) -> NDArray[np.float64]:
        drawn = np.array([i for clients in self.rounds["clients"] for i in clients], np.int64)
        return np.bincount(drawn, minlength=self.n) / len(self.rounds["clients"])


class WaitingClients(LocalClients):
    """Clients that return a zero update, at once or after the seconds that they trained when they were recorded."""

    def __init__(self, d: int, seconds: list[dict[float, float]] | None) -> None:
        self.theta = torch.zeros(d)
        self.seconds = seconds

    def receive(self, theta: Vector, seed: int = 0) -> None:
        pass

    def train(self, i: int, t: int, delta: Vector, between_steps: Callable[[], object] = lambda: None) -> Training:
        """Nothing, for as long as the work took; a client that was probed but not drawn takes the mean."""
        began = time.perf_counter()
        if self.seconds is not None and self.seconds[t]:
            known = self.seconds[t]
            end = began + known.get(i, sum(known.values()) / len(known))
            # In slices, so that an earlier update travels meanwhile as it would between SGD steps.
            while (left := end - time.perf_counter()) > 0:
                time.sleep(min(left, 0.01))
                between_steps()
        delta[:] = 0
        return Training(i, 0.0, 0.0, time.perf_counter() - began)
