"""A run's bookkeeping: what each round leaves in the record, written while the next round's clients train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.phases import Interval, divide
from fedmpi.comm.round import Round
from fedmpi.comm.world import SERVER
from fedmpi.record import RecordWriter
from fedmpi.record.schema import TABLES, row
from fedmpi.sampling import Cohort


@dataclass
class Timeline:
    """What the server did when, in one round; seconds on its clock."""

    now: Callable[[], float]
    start: float
    spans: dict[str, list[Interval]] = field(default_factory=dict)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        began = self.now()
        yield
        self.spans.setdefault(phase, []).append((began, self.now()))


@dataclass(frozen=True)
class Evaluation:
    """θᵗ judged by all clients: results (n, 2) are each one's training loss and test accuracy."""

    t: int
    p: NDArray[np.float64]
    results: NDArray[np.float64]

    @property
    def loss(self) -> float:
        """L(θᵗ) = Σ p_i L_i(θᵗ)   [FVKL, eq. (1)]"""
        return float(self.p @ self.results[:, 0])

    @property
    def accuracy(self) -> float:
        """Σ p_i a_i over the clients that have test data, their importances rescaled to sum to 1."""
        tested = np.isfinite(self.results[:, 1]) & (self.p > 0)
        if not tested.any():
            return float("nan")
        return float(self.p[tested] @ self.results[tested, 1] / self.p[tested].sum())


@dataclass(frozen=True)
class Ledger:
    """What the federation itself moves in a round, however it is emulated."""

    theta_bytes: int
    called: int  # clients that are sent θᵗ: S_t, or all that are probed
    uploads: int  # clients that send an update: S_t
    scalars: int  # numbers that probed clients send

    @property
    def down(self) -> int:
        return self.called * self.theta_bytes

    @property
    def up(self) -> int:
        return self.uploads * self.theta_bytes + 8 * self.scalars


@dataclass(frozen=True)
class Outcome:
    """All there is to say about a finished round."""

    t: int
    cohort: Cohort
    seen: Round
    update_norm: float
    rejected: int
    ledger: Ledger
    evaluation: Evaluation | None
    line: Timeline
    end: float

    @property
    def phases(self) -> dict[str, float]:
        spans = dict(self.line.spans, down=self.seen.down, up=self.seen.up)
        spans["aggregate"] = self.seen.aggregate + spans.get("aggregate", [])
        return divide(self.line.start, self.end, spans)


class Books:
    """The record's pen. `enter` takes note of a round; `write` puts the notes into the file and commits them."""

    def __init__(self, record: RecordWriter, size: int) -> None:
        self.record, self.size = record, size
        self.cohort_end = 0
        self.first_start: float | None = None
        self.entered: list[Outcome] = []

    def enter(self, outcome: Outcome) -> None:
        self.entered.append(outcome)

    def write(self) -> None:
        """Append the rounds entered since the last call."""
        for outcome in self.entered:
            if self.first_start is None:
                self.first_start = outcome.line.start
            self.cohort_end += len(outcome.cohort)
            self._write_round(outcome)
            self._write_cohort(outcome)
            self._write_ranks(outcome.seen)
            if outcome.evaluation:
                self.write_evaluation(outcome.evaluation)
            self.record.commit(outcome.t + 1)
        self.entered.clear()

    def write_evaluation(self, evaluation: Evaluation) -> None:
        judged = row("/evals", t=evaluation.t, loss=evaluation.loss, accuracy=evaluation.accuracy)
        self.record.append("/evals", judged)
        if "/evals_client_loss" in self.record.open:
            self.record.append("/evals_client_loss", evaluation.results[None, :, 0])
            self.record.append("/evals_client_accuracy", evaluation.results[None, :, 1])

    def _write_round(self, outcome: Outcome) -> None:
        seen = outcome.seen
        self.record.append(
            "/rounds",
            row(
                "/rounds",
                t=outcome.t,
                wall_time=outcome.line.start - (self.first_start or 0.0),
                N=len(outcome.cohort),
                sum_omega=outcome.cohort.omega.sum(),
                update_norm=outcome.update_norm,
                rejected=outcome.rejected,
                down_bytes_logical=outcome.ledger.down,
                up_bytes_logical=outcome.ledger.up,
                down_bytes_wire=seen.down_bytes,
                up_bytes_wire=seen.up_bytes,
                control_bytes_wire=seen.control_bytes,
                time_total=outcome.end - outcome.line.start,
                cohort_end=self.cohort_end,
                **{f"time_{phase}": seconds for phase, seconds in outcome.phases.items()},
            ),
        )

    def _write_cohort(self, outcome: Outcome) -> None:
        rows = np.empty(len(outcome.cohort), TABLES["/cohorts"].dtype)
        arrivals = sorted(outcome.seen.arrivals, key=lambda arrival: arrival.client)
        rows["t"] = outcome.t
        rows["client"] = outcome.cohort.clients
        rows["omega"] = outcome.cohort.omega
        rows["rank"] = [a.rank for a in arrivals]
        rows["train_loss"] = [a.loss for a in arrivals]
        rows["delta_norm"] = [a.norm for a in arrivals]
        rows["compute_time"] = [a.compute_time for a in arrivals]
        rows["post_time"] = [a.post_time - outcome.line.start for a in arrivals]
        rows["arrive_time"] = [a.arrive_time - outcome.line.start for a in arrivals]
        self.record.append("/cohorts", rows)

    def _write_ranks(self, seen: Round) -> None:
        times = np.zeros((3, 1, self.size))
        for report in seen.reports:
            times[:, 0, report.rank] = report.compute, report.idle, report.send
        times[0, 0, SERVER] = sum(a.compute_time for a in seen.arrivals if a.rank == SERVER)
        for name, values in zip(("compute_time", "idle_time", "send_time"), times, strict=True):
            self.record.append(f"/ranks/{name}", values)
