"""The `reduced` exchange: each rank sums its own ω_i Δ_i, and a binomial tree of messages adds the ranks' sums.

For people who want rounds, not measurements. The sums are `ExactSum`s, so the total has the same bits as when the
server adds the updates itself, in whatever order they are added.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.client import Training
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.exchanges.protocols import Add
from fedmpi.comm.messages import UPDATE_INFO, Command
from fedmpi.comm.traffic import ArrivalRow, RoundTraffic, UpdateInfo, arrival, new_vector, update_info
from fedmpi.comm.tree import TreeSum
from fedmpi.comm.world import World
from fedmpi.compression.upload import UploadEncoder
from fedmpi.config import CommSettings
from fedmpi.server import ExactSum


class ReducedInbox:
    """The server's end: its own sum is its share of the total."""

    infos_in_reports = True
    pending = 0
    flowing = False

    def __init__(self, world: World, d: int, workers: int, encoder: UploadEncoder, clocks: ClockMap) -> None:
        self.world, self.clocks, self.tree = world, clocks, TreeSum(world, d)

    def open(self, expected: int) -> None:
        pass

    def expect_fewer(self, count: int) -> None:
        pass

    def poll(self, add: Add) -> bool:
        return False

    def finish(self, total: ExactSum, traffic: RoundTraffic) -> list[ArrivalRow]:
        if not traffic.reports:
            return []
        self.tree.add_up(total.total)
        arrived = self.world.now()
        # Until the last worker has its sum ready, the others wait for it: only then is the total in flight.
        traffic.up = [(min(arrived, max(report.done for report in traffic.reports)), arrived)]
        traffic.up_bytes += len(traffic.reports) * total.total.nbytes
        return [
            arrival(info, report.rank, self.clocks, arrived)
            for report in traffic.reports
            for info in report.infos.tolist()
        ]


class ReducedOutbox:
    """A worker's end: one slot, added to this rank's sum as soon as it is computed."""

    def __init__(self, world: World, d: int, settings: CommSettings, device: torch.device | None = None) -> None:
        self.world, self.encoder = world, UploadEncoder(settings, d)
        self.sum, self.tree = ExactSum(d), TreeSum(world, d)
        self.delta = new_vector(d)
        self.trained: list[UpdateInfo] = []

    def open(self, command: Command) -> None:
        self.command = command
        self.sum.reset(command.exponent)
        self.trained = []

    def slot(self) -> NDArray[np.float32]:
        return self.delta

    def deliver(self, training: Training, omega: float) -> None:
        command = self.command
        key = command.run, command.seed, command.t, training.client
        sent_norm = self.encoder.encode(self.delta, training.delta_norm, key)
        self.trained.append(update_info(training, sent_norm, self.world.now()))
        # What is left out here is left out on the server too, which decides by the same norm.
        if self.sum.admits(omega, sent_norm):
            self.sum.add(omega, self.delta, sent_norm)

    def progress(self) -> None:
        pass

    def infos(self) -> NDArray[np.void]:
        return np.array(self.trained, UPDATE_INFO)

    def finish(self) -> None:
        self.tree.add_up(self.sum.total)
