"""What is known of one round's communication: updates, workers' reports, bytes and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.messages import Order
from fedmpi.comm.timeline import Interval
from fedmpi.comm.world import cuda_aware
from fedmpi.compression.upload import Packing
from fedmpi.config import CommSettings
from fedmpi.server import ExactSum

# float64 numbers about one update, sent ahead of it or with a report: client, loss, norm, norm as sent, compute
# seconds, post time.
ROW = 6
CLIENT, SENT_NORM = 0, 3
Row = Sequence[float]
# float64 numbers of a worker's report ahead of its rows: see Report.
REPORT = 5


class Arrival(NamedTuple):
    """One client's update as the server saw it; times in seconds on the server's clock. `norm` is ‖Δ_i‖, `sent_norm`
    that of what is added: another one where updates are compressed."""

    client: int
    rank: int
    loss: float
    norm: float
    sent_norm: float
    compute_time: float
    post_time: float
    arrive_time: float


@dataclass(frozen=True)
class Report:
    """A worker's account of its round: when it held θ, its seconds of compute, idle and send, and when it was done."""

    rank: int
    held: float
    compute: float
    idle: float
    send: float
    done: float
    rows: NDArray[np.float64]


@dataclass
class Round:
    """One round as the server saw it; intervals in seconds on its clock, bytes as handed to MPI."""

    t: int
    arrivals: list[Arrival] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    down: list[Interval] = field(default_factory=list)
    up: list[Interval] = field(default_factory=list)
    aggregate: list[Interval] = field(default_factory=list)
    clock_error: float = 0.0
    control_bytes: int = 0
    down_bytes: int = 0
    up_bytes: int = 0


# Takes a client's update into the sum: (client, norm of the update as sent, update).
Add = Callable[[int, float, NDArray[np.float32]], None]


class Inbox(Protocol):
    """The server's end of an exchange."""

    rows_in_reports: bool

    @property
    def due(self) -> int:
        """How many updates have not arrived yet."""

    @property
    def flowing(self) -> bool:
        """Whether an update is known to be on its way."""

    def begin(self, expected: int) -> None:
        """Expect so many updates this round."""

    def excuse(self, count: int) -> None:
        """So many of them do not come from other ranks."""

    def poll(self, add: Add) -> bool:
        """Move what can be moved and `add` each update that has arrived; returns whether anything did."""

    def finish(self, total: ExactSum, seen: Round) -> None:
        """**Collective.** Complete `total` and `seen`, once every report is in."""


class Outbox(Protocol):
    """A worker's end of an exchange."""

    packing: Packing

    def begin(self, order: Order) -> None:
        """Start delivering for a TRAIN order."""

    def slot(self) -> Vector:
        """Where the next Δ_i is to be written: (d,) float32. May wait until an earlier update has left."""

    def deliver(self, training: Training, omega: float) -> None:
        """Take the update that is in the slot on its way."""

    def progress(self) -> None:
        """Let MPI move what is on its way: large messages travel only while someone calls it."""

    def rows(self) -> NDArray[np.float64]:
        """The rows that go with the report: (N, ROW)."""

    def finish(self) -> None:
        """**Collective.** Complete the round, after the report."""


def write_row(training: Training, sent_norm: float, post_time: float) -> Row:
    return training.client, training.loss, training.norm, sent_norm, training.seconds, post_time


def read_row(row: Row, rank: int, clocks: ClockMap, arrive_time: float) -> Arrival:
    client, loss, norm, sent_norm, compute, post = row
    # An update cannot have left after it came, whatever two clocks say within their error.
    post = min(clocks.to_server(rank, post), arrive_time)
    return Arrival(int(client), rank, loss, norm, sent_norm, compute, post, arrive_time)


def new_vector(d: int) -> NDArray[np.float32]:
    """(d,) float32 of torch's making: its 64-byte alignment makes reductions the same bits on every rank."""
    vector: NDArray[np.float32] = torch.zeros(d).numpy()
    return vector


def device_of_messages(device: torch.device, settings: CommSettings) -> torch.device | None:
    """Where MPI takes a worker's messages from, and puts θ: its GPU, if this MPI says that it can and updates travel as
    they are; None: host memory."""
    as_they_are = settings.exchange == "per-client" and settings.compression == "none"
    return device if device.type == "cuda" and as_they_are and cuda_aware() else None
