"""The `reduced` exchange: each rank sums its own ω_i Δ_i and one reduction brings the total.

For people who want rounds, not measurements. The sums are `ExactSum`s, so the total is the same bits as when the
server adds the updates itself, whatever order the sums are added in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import Training
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.messages import Order
from fedmpi.comm.round import ROW, Add, Round, Row, new_vector, read_row, write_row
from fedmpi.comm.tree import Adder
from fedmpi.comm.world import World
from fedmpi.compression.upload import Packing
from fedmpi.config import CommSettings
from fedmpi.server import ExactSum


class ReducedInbox:
    """The server's end: its own sum is its share of the reduction."""

    rows_in_reports = True
    due = 0
    flowing = False

    def __init__(self, world: World, d: int, clocks: ClockMap) -> None:
        self.world, self.clocks, self.adder = world, clocks, Adder(world, d)

    def begin(self, expected: int) -> None:
        pass

    def excuse(self, count: int) -> None:
        pass

    def poll(self, add: Add) -> bool:
        return False

    def finish(self, total: ExactSum, seen: Round) -> None:
        if not seen.reports:
            return
        self.adder.add_up(total.total)
        arrived = self.world.now()
        # Until the last worker has its sum ready, the others wait for it: only then is the total on its way.
        seen.up = [(min(arrived, max(report.done for report in seen.reports)), arrived)]
        seen.up_bytes += len(seen.reports) * total.total.nbytes
        for report in seen.reports:
            seen.arrivals += [read_row(row, report.rank, self.clocks, arrived) for row in report.rows.tolist()]


class ReducedOutbox:
    """A worker's end: one slot, added to this rank's sum as soon as it is computed."""

    def __init__(self, world: World, d: int, settings: CommSettings) -> None:
        self.world, self.packing = world, Packing(settings, d)
        self.sum, self.adder = ExactSum(d), Adder(world, d)
        self.delta = new_vector(d)
        self.trained: list[Row] = []

    def begin(self, order: Order) -> None:
        self.order = order
        self.sum.begin(order.exponent)
        self.trained = []

    def slot(self) -> NDArray[np.float32]:
        return self.delta

    def deliver(self, training: Training, omega: float) -> None:
        order = self.order
        key = order.run, order.seed, order.t, training.client
        sent_norm = self.packing.pack(self.delta, training.norm, key)
        self.trained.append(write_row(training, sent_norm, self.world.now()))
        # What does not pass here does not pass on the server either, which decides by the same norm.
        if self.sum.admits(omega, sent_norm):
            self.sum.add(omega, self.delta, sent_norm)

    def progress(self) -> None:
        pass

    def rows(self) -> NDArray[np.float64]:
        return np.array(self.trained).reshape(-1, ROW)

    def finish(self) -> None:
        self.adder.add_up(self.sum.total)
