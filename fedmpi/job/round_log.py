"""A run's bookkeeping: what each round leaves in the record, written while the next round's clients train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.clocks import Offsets
from fedmpi.comm.round import Round
from fedmpi.comm.tags import SERVER
from fedmpi.comm.timeline import Interval, divide, partition
from fedmpi.network import VirtualNetwork
from fedmpi.record import Record, RecordWriter
from fedmpi.record.schema import TABLES, row
from fedmpi.sampling import Cohort

VIRTUAL = ("virtual_total", "virtual_down", "virtual_compute", "virtual_up")


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
    update_bytes: int  # of one update: as many, unless updates are compressed
    asked: NDArray[np.int64]  # clients that are probed before the draw
    uploads: int  # N: clients that send an update
    scalars_each: int  # numbers that a probed client sends
    trained_before_draw: bool = False  # whether probed clients train before they answer

    @property
    def down(self) -> int:
        """θᵗ to S_t, or to all that are probed, of whom S_t is a part."""
        return (len(self.asked) or self.uploads) * self.theta_bytes

    @property
    def up(self) -> int:
        """The updates of S_t, and 8 bytes per number that a probed client sends."""
        return self.uploads * self.update_bytes + 8 * self.scalars_each * len(self.asked)


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
        """Seconds of each phase."""
        return divide(self.line.start, self.end, self._spans())

    @property
    def timeline(self) -> list[tuple[str, Interval]]:
        """Which phase it was when."""
        return partition(self.line.start, self.end, self._spans())

    def _spans(self) -> dict[str, list[Interval]]:
        spans = dict(self.line.spans, down=self.seen.down, up=self.seen.up)
        return spans | {"aggregate": self.seen.aggregate + spans.get("aggregate", [])}


class Books:
    """The record's pen. `enter` takes note of a round; `write` puts the notes into the file and commits them.

    Rounds that an earlier job has recorded are not written again: a resumed run does those after its checkpoint over.
    """

    def __init__(
        self, record: RecordWriter, size: int, network: VirtualNetwork | None = None, past: Record | None = None
    ) -> None:
        self.record, self.size, self.network = record, size, network
        # The ranks as the record numbers them, by the numbers they have now.
        self.origin = list(range(size))
        self.recorded = past.rounds_done if past else 0
        self.evaluated = int(past.evals["t"].max(initial=-1)) if past else -1
        self.kept = int(past.history[0].max(initial=-1)) if past else -1
        self.cohort_end, self.wall_time = 0, 0.0
        if past and len(past.rounds):
            last = past.rounds[-1]
            self.cohort_end, self.wall_time = int(last["cohort_end"]), float(last["wall_time"] + last["time_total"])
        self.first_start: float | None = None
        self.entered: list[Outcome] = []

    def enter(self, outcome: Outcome) -> None:
        self.entered.append(outcome)

    def write(self) -> list[Outcome]:
        """Append the rounds entered since the last call, and return them."""
        written, self.entered = self.entered, []
        for outcome in written:
            if outcome.t < self.recorded:
                continue
            if self.first_start is None:
                self.first_start = outcome.line.start
            self.cohort_end += len(outcome.cohort)
            self._write_round(outcome)
            self._write_cohort(outcome)
            self._write_ranks(outcome.seen)
            if outcome.evaluation:
                self.write_evaluation(outcome.evaluation)
            self.record.commit(outcome.t + 1)
        return written

    def keep_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ in the history."""
        if t > self.kept:
            self.record.keep_theta(theta, t)

    def note(self, t: int, now: float, kind: str, text: str, rank: int = -1, seconds: float = 0.0) -> None:
        """Take note of something that is not a round."""
        told = {"kind": kind.encode(), "note": text.encode()[:256], "rank": rank, "seconds": seconds}
        self.record.append("/events", row("/events", t=t, wall_time=self._wall_time(now), **told))
        self.record.file.flush()

    def _wall_time(self, now: float) -> float:
        return self.wall_time + (now - self.first_start if self.first_start is not None else 0.0)

    def write_evaluation(self, evaluation: Evaluation) -> None:
        if evaluation.t <= self.evaluated:
            return
        judged = row("/evals", t=evaluation.t, loss=evaluation.loss, accuracy=evaluation.accuracy)
        self.record.append("/evals", judged)
        if "/evals_client_loss" in self.record.open:
            self.record.append("/evals_client_loss", evaluation.results[None, :, 0])
            self.record.append("/evals_client_accuracy", evaluation.results[None, :, 1])

    def write_clocks(self, offsets: Offsets) -> None:
        """What the ranks' clocks show, as last measured."""
        for name, values in (("clock_offset", offsets.offset), ("clock_error", offsets.error)):
            self.record.open[f"/ranks/{name}"][self.origin] = values

    def write_homes(self, home: NDArray[np.int32]) -> None:
        """Which rank is home to each client from now on, by the ranks' present numbers."""
        self.record.open["/clients/rank"][...] = np.array(self.origin, np.int32)[home]

    def _write_round(self, outcome: Outcome) -> None:
        seen = outcome.seen
        self.record.append(
            "/rounds",
            row(
                "/rounds",
                t=outcome.t,
                wall_time=self._wall_time(outcome.line.start),
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
                skew=skew(seen),
                clock_error=seen.clock_error,
                cohort_end=self.cohort_end,
                **{f"time_{phase}": seconds for phase, seconds in outcome.phases.items()},
                **virtual_times(self.network, outcome),
            ),
        )

    def _write_cohort(self, outcome: Outcome) -> None:
        rows = np.empty(len(outcome.cohort), TABLES["/cohorts"].dtype)
        arrivals = sorted(outcome.seen.arrivals, key=lambda arrival: arrival.client)
        rows["t"] = outcome.t
        rows["client"] = outcome.cohort.clients
        rows["omega"] = outcome.cohort.omega
        rows["rank"] = [self.origin[a.rank] for a in arrivals]
        rows["train_loss"] = [a.loss for a in arrivals]
        rows["delta_norm"] = [a.norm for a in arrivals]
        rows["compute_time"] = [a.compute_time for a in arrivals]
        rows["post_time"] = [a.post_time - outcome.line.start for a in arrivals]
        rows["arrive_time"] = [a.arrive_time - outcome.line.start for a in arrivals]
        self.record.append("/cohorts", rows)

    def _write_ranks(self, seen: Round) -> None:
        times = np.zeros((3, 1, self.record.open["/ranks/compute_time"].shape[1]))
        for report in seen.reports:
            times[:, 0, self.origin[report.rank]] = report.compute, report.idle, report.send
        times[0, 0, SERVER] = sum(a.compute_time for a in seen.arrivals if a.rank == SERVER)
        for name, values in zip(("compute_time", "idle_time", "send_time"), times, strict=True):
            self.record.append(f"/ranks/{name}", values)


def virtual_times(network: VirtualNetwork | None, outcome: Outcome) -> dict[str, float]:
    """What the round would have taken in the federation of [network]; NaN and −1 if there is none.

    A probed client is taken to work as long before the draw as the drawn ones did on average where probing means
    training (optimal), and no time where it means a look at the loss.
    """
    if network is None:
        return {**dict.fromkeys(VIRTUAL, float("nan")), "virtual_straggler": -1}
    ledger, arrivals = outcome.ledger, sorted(outcome.seen.arrivals, key=lambda arrival: arrival.client)
    seconds = np.array([arrival.compute_time for arrival in arrivals])
    clients, sizes = outcome.cohort.clients, (ledger.theta_bytes, ledger.update_bytes)
    if not len(ledger.asked):
        times = network.round(clients, seconds, *sizes)
    else:
        trained = ledger.trained_before_draw
        before = float(seconds.mean()) if trained and len(seconds) else 0.0
        scalars = (8,) + (16,) * ((ledger.scalars_each - 1) // 2)
        left = 0.0 if trained else seconds
        times = network.round(clients, left, *sizes, probed=ledger.asked, probe_seconds=before, scalar_bytes=scalars)
    parts = (times.total, times.down, times.compute, times.up)
    return {**dict(zip(VIRTUAL, parts, strict=True)), "virtual_straggler": times.straggler}


def skew(seen: Round) -> float:
    """How much longer the slowest rank trained than the mean rank, in seconds."""
    own = [a.compute_time for a in seen.arrivals if a.rank == SERVER]
    busy = [report.compute for report in seen.reports] + ([sum(own)] if own else [])
    return max(busy) - sum(busy) / len(busy) if busy else 0.0
