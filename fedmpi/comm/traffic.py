"""What the server knows of one round's communication: updates, workers' reports, bytes and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.client import Training
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.messages import ARRIVAL, REPORT, UPDATE_INFO
from fedmpi.comm.timeline import Interval

# The values of one UPDATE_INFO and of one ARRIVAL, in the order of their fields.
UpdateInfo = tuple[float, ...]
ArrivalRow = tuple[float, ...]
# Where the fields that the exchanges look at stand among them.
CLIENT, SENT_NORM, POST_TIME = map(list(UPDATE_INFO.names or ()).index, ("client", "sent_norm", "post_time"))


@dataclass(frozen=True)
class Report:
    """A worker's numbers of its round: the fields of REPORT, with times on the server's clock.

    infos: UPDATE_INFO of the updates that its rank has summed, if the exchange sends them so.
    """

    rank: int
    theta_received_at: float
    compute: float
    idle: float
    send: float
    done: float
    infos: NDArray[np.void]


@dataclass
class RoundTraffic:
    """One round as the server saw it; intervals in seconds on its clock, bytes as handed to MPI."""

    t: int
    arrivals: NDArray[np.void] = field(default_factory=lambda: np.empty(0, ARRIVAL))  # sorted by client
    reports: list[Report] = field(default_factory=list)
    down: list[Interval] = field(default_factory=list)
    up: list[Interval] = field(default_factory=list)
    aggregate: list[Interval] = field(default_factory=list)
    clock_error: float = 0.0
    control_bytes: int = 0
    down_bytes: int = 0
    up_bytes: int = 0

    def set_arrivals(self, rows: Sequence[ArrivalRow]) -> None:
        self.arrivals = np.array(sorted(rows), ARRIVAL)  # the client is the first field


def update_info(training: Training, sent_norm: float, post_time: float) -> UpdateInfo:
    """The values of UPDATE_INFO for one update."""
    return *training, sent_norm, post_time


def arrival(info: UpdateInfo, rank: int, clocks: ClockMap, arrive_time: float) -> ArrivalRow:
    """The values of ARRIVAL for an update whose UPDATE_INFO has the post time on its rank's clock."""
    *numbers, posted = info
    # An update cannot be posted after it arrived, whatever two clocks say within their error.
    return *numbers, min(clocks.to_server(rank, posted), arrive_time), rank, arrive_time


def read_report(message: NDArray[np.float64], rank: int, clocks: ClockMap) -> Report:
    """A worker's report: REPORT, then UPDATE_INFO once per update that its rank has summed."""
    head = REPORT.itemsize // 8
    received, compute, idle, send, done = message[:head].tolist()
    received, done = clocks.to_server(rank, received), clocks.to_server(rank, done)
    return Report(rank, received, compute, idle, send, done, message[head:].view(UPDATE_INFO))


def new_vector(d: int) -> NDArray[np.float32]:
    """(d,) float32 allocated by torch, whose 64-byte alignment makes reductions the same bits on every rank."""
    vector: NDArray[np.float32] = torch.zeros(d).numpy()
    return vector
