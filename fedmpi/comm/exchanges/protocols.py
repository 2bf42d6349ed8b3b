"""What an exchange has to do: an inbox on the server, an outbox on every worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm.messages import Command
from fedmpi.comm.traffic import ArrivalRow, RoundTraffic
from fedmpi.compression.upload import UploadEncoder
from fedmpi.server import ExactSum

# Adds a client's update to the sum: (client, norm of the update as sent, update).
Add = Callable[[int, float, NDArray[np.float32]], None]


class Inbox(Protocol):
    """The server's end of an exchange. Made with (world, d, number of workers, encoder, clocks)."""

    # Whether UPDATE_INFO comes with the workers' reports, not with the updates.
    infos_in_reports: bool

    @property
    def pending(self) -> int:
        """How many updates have not arrived yet."""

    @property
    def flowing(self) -> bool:
        """Whether an update is known to be in flight."""

    def open(self, expected: int) -> None:
        """Expect so many updates this round."""

    def expect_fewer(self, count: int) -> None:
        """So many of them do not come from other ranks."""

    def poll(self, add: Add) -> bool:
        """Receive what can be received and `add` each update that has arrived; whether anything moved."""

    def finish(self, total: ExactSum, traffic: RoundTraffic) -> list[ArrivalRow]:
        """**Collective.** Complete `total` and `traffic`, once every report is in; the updates of other ranks."""


class Outbox(Protocol):
    """A worker's end of an exchange. Made with (world, d, [comm], device or None)."""

    encoder: UploadEncoder

    def open(self, command: Command) -> None:
        """Start to deliver updates for a TRAIN command."""

    def slot(self) -> Vector:
        """Where the next Δ_i is to be written: (d,) float32. May wait until an earlier update has left."""

    def deliver(self, training: Training, omega: float) -> None:
        """Send the update that is in the slot."""

    def progress(self) -> None:
        """Let MPI move what is in flight: large messages travel only while a rank calls MPI."""

    def infos(self) -> NDArray[np.void]:
        """UPDATE_INFO of the updates of this round, if it goes with the report."""

    def finish(self) -> None:
        """**Collective.** Complete the round, after the report."""
