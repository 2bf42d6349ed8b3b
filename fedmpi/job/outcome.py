"""What a finished round came to: the step of the federation, its evaluation, and what it cost in bytes and seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER
from fedmpi.comm.timeline import Interval, Timeline, divide, partition
from fedmpi.comm.traffic import RoundTraffic
from fedmpi.sampling import Cohort


@dataclass(frozen=True)
class Evaluation:
    """θᵗ evaluated on all clients: results (n, 2) are each one's training loss and test accuracy."""

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
    """The logical bytes of a round: what the federation itself moves, however it is emulated."""

    theta_bytes: int
    update_bytes: int  # of one update: fewer than θ's where updates are compressed
    probed: NDArray[np.int64]  # clients that are asked before the draw
    uploads: int  # N: clients that send an update
    scalars_each: int  # numbers that a probed client sends
    trained_before_draw: bool = False  # whether probed clients train before they answer

    @property
    def down(self) -> int:
        """θᵗ to S_t, or to all that are probed, of whom S_t is a part."""
        return (len(self.probed) or self.uploads) * self.theta_bytes

    @property
    def up(self) -> int:
        """The updates of S_t, and 8 bytes per number that a probed client sends."""
        return self.uploads * self.update_bytes + 8 * self.scalars_each * len(self.probed)


@dataclass(frozen=True)
class Outcome:
    """A finished round. `timeline` has what the server did itself; `end` is when the round was over."""

    t: int
    cohort: Cohort
    traffic: RoundTraffic
    update_norm: float
    rejected: int
    ledger: Ledger
    evaluation: Evaluation | None
    timeline: Timeline[str]
    end: float

    @property
    def start(self) -> float:
        return self.timeline.start

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase."""
        return divide(self.start, self.end, self._intervals())

    @property
    def phase_intervals(self) -> list[tuple[str, Interval]]:
        """Which phase it was when."""
        return partition(self.start, self.end, self._intervals())

    @property
    def skew(self) -> float:
        """How much longer the slowest rank trained than the mean rank, in seconds."""
        own = self.traffic.arrivals["rank"] == SERVER
        busy = [report.compute for report in self.traffic.reports]
        if own.any():
            busy.append(float(self.traffic.arrivals["compute_time"][own].sum()))
        return max(busy) - sum(busy) / len(busy) if busy else 0.0

    def _intervals(self) -> dict[str, list[Interval]]:
        found = dict(self.timeline.intervals(), down=self.traffic.down, up=self.traffic.up)
        return found | {"aggregate": self.traffic.aggregate + found.get("aggregate", [])}
