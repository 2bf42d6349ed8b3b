"""The `per-client` exchange: each Δ_i comes back as its own message while the next client trains.

What crosses the wire is what a federation would upload, and a row of numbers about it at the end of the same message.
The server looks for messages and receives each into one of a bounded number of parcels; from the first sight of
one until it is here the server does not sleep.
"""

from __future__ import annotations

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.messages import Order
from fedmpi.comm.round import CLIENT, ROW, SENT_NORM, Add, Round, Row, new_vector, read_row, write_row
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.world import World
from fedmpi.compression.upload import Packing
from fedmpi.config import CommSettings
from fedmpi.server import ExactSum

# The server holds at most two updates per worker, and no more than this many bytes of them (but always two).
PARCEL_BYTES = 512 * 2**20
# A worker trains into one parcel while the other is on its way.
WORKER_PARCELS = 2


class Parcel:
    """One update as it travels, float32 or the bytes that a codec made of it, and its row.

    MPI is handed float64: a message may have at most 2³¹ numbers, which is 16 GiB.
    """

    def __init__(self, packing: Packing) -> None:
        words = -(-packing.size // 8)
        self.message: NDArray[np.float64] = torch.zeros(words + ROW, dtype=torch.float64).numpy()
        self.row = self.message[words:]
        self.payload = self.message.view(np.uint8)[: packing.size]
        # Without a codec the payload is the update itself.
        self.delta = None if packing.codec else self.payload.view(np.float32)

    def write(self, row: Row) -> None:
        self.row[:] = row


class DeviceParcel:
    """The same in a device's memory, from which MPI takes it; for updates without a codec."""

    def __init__(self, packing: Packing, device: torch.device) -> None:
        words = -(-packing.size // 8)
        self.message = torch.zeros(words + ROW, dtype=torch.float64, device=device)
        self.row = self.message[words:]
        self.payload = np.empty(0, np.uint8)
        self.delta = self.message.view(torch.float32)[: packing.size // 4]

    def write(self, row: Row) -> None:
        self.row.copy_(torch.tensor(row, dtype=torch.float64))
        if self.message.is_cuda:
            torch.cuda.synchronize(self.message.device)  # MPI does not wait for torch's stream


class PerClientInbox:
    """The server's end: updates from any worker, in any order."""

    rows_in_reports = False

    def __init__(self, world: World, d: int, workers: int, packing: Packing, clocks: ClockMap) -> None:
        self.world, self.packing, self.clocks = world, packing, clocks
        self.room = max(2, min(2 * workers, PARCEL_BYTES // packing.size))
        self.free: list[Parcel] = []
        self.decoded = new_vector(d if packing.codec else 0)
        self.status = MPI.Status()
        self.flying: list[tuple[MPI.Request, int, Parcel]] = []
        self.landed: list[tuple[Row, int, float]] = []
        self.due = 0

    @property
    def flowing(self) -> bool:
        return bool(self.flying)

    def begin(self, expected: int) -> None:
        self.due = expected
        self.landed = []

    def excuse(self, count: int) -> None:
        self.due -= count

    def poll(self, add: Add) -> bool:
        moved = self._receive()
        still = []
        for flight in self.flying:
            request, rank, parcel = flight
            if request.Test():
                moved = True
                self.due -= 1
                row = parcel.row.tolist()
                self.landed.append((row, rank, self.world.now()))
                add(int(row[CLIENT]), row[SENT_NORM], self._unpack(parcel))
                self.free.append(parcel)
            else:
                still.append(flight)
        self.flying = still
        return moved

    def finish(self, total: ExactSum, seen: Round) -> None:
        flown = [read_row(row, rank, self.clocks, at) for row, rank, at in self.landed]
        seen.arrivals += flown
        seen.up = [(arrival.post_time, arrival.arrive_time) for arrival in flown]
        seen.up_bytes += len(flown) * self.packing.size
        seen.control_bytes += len(flown) * 8 * ROW

    def _receive(self) -> bool:
        """Start to receive what has come into sight, as far as there is room; returns whether anything has."""
        seen = len(self.flying)
        while len(self.flying) < min(self.due, self.room):
            message = self.world.comm.Improbe(MPI.ANY_SOURCE, Tag.UPDATE, self.status)
            if message is None:
                break
            parcel = self.free.pop() if self.free else Parcel(self.packing)
            self.flying.append((message.Irecv(parcel.message), self.status.source, parcel))
        return len(self.flying) > seen

    def _unpack(self, parcel: Parcel) -> NDArray[np.float32]:
        if self.packing.codec:
            self.packing.codec.decode(parcel.payload, self.decoded)
        return self.decoded if parcel.delta is None else parcel.delta


class PerClientOutbox:
    """A worker's end: two parcels, so that one update can be on its way while the next is computed."""

    def __init__(self, world: World, d: int, settings: CommSettings, device: torch.device | None = None) -> None:
        self.world, self.overlap, self.packing = world, settings.overlap, Packing(settings, d)
        self.parcels: list[Parcel | DeviceParcel] = [
            DeviceParcel(self.packing, device) if device else Parcel(self.packing) for _ in range(WORKER_PARCELS)
        ]
        self.sent = [MPI.REQUEST_NULL] * WORKER_PARCELS
        self.uncompressed = new_vector(d if self.packing.codec else 0)
        self.current = 0

    def begin(self, order: Order) -> None:
        self.order = order

    def slot(self) -> Vector:
        self.current = (self.current + 1) % WORKER_PARCELS
        self._settle()
        return self._delta()

    def deliver(self, training: Training, omega: float) -> None:
        order, parcel = self.order, self.parcels[self.current]
        key = order.run, order.seed, order.t, training.client
        sent_norm = training.norm
        if self.packing.codec:
            sent_norm = self.packing.pack(self.uncompressed, training.norm, key, parcel.payload)
        parcel.write(write_row(training, sent_norm, self.world.now()))
        self.sent[self.current] = self.world.comm.Isend(parcel.message, SERVER, Tag.UPDATE)
        if not self.overlap:
            self._settle()

    def _delta(self) -> Vector:
        delta = self.parcels[self.current].delta
        return self.uncompressed if delta is None else delta

    def _settle(self) -> None:
        """Wait until the update in the current parcel has left."""
        self.world.wait_for(self.sent[self.current], flowing=True)

    def progress(self) -> None:
        MPI.Request.Testall(self.sent)

    def rows(self) -> NDArray[np.float64]:
        return np.empty((0, ROW))

    def finish(self) -> None:
        pass
