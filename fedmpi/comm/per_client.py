"""The `per-client` exchange: each Δ_i comes back as its own message while the next client trains.

What crosses the wire is what a federation would upload. A row of numbers goes ahead of each update: it tells the
server that the update is in flight, so that it stops sleeping, and lets it post the receive into one of a bounded
number of slots.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training
from fedmpi.comm.clock_map import ClockMap
from fedmpi.comm.orders import Order
from fedmpi.comm.packing import Packing
from fedmpi.comm.round import ROW, Add, Round, new_vector, read_row, write_row
from fedmpi.comm.world import SERVER, Tag, World
from fedmpi.config import Comm
from fedmpi.server import ExactSum

# An update as it travels: float32, or the bytes that a codec made of it.
Wire = NDArray[np.float32] | NDArray[np.uint8]

# The server holds at most two updates per worker, and no more than this many bytes of them (but always two).
SLOT_BYTES = 512 * 2**20
# A worker trains into one slot while the other is on its way.
WORKER_SLOTS = 2


class PerClientInbox:
    """The server's end: rows and updates from any worker, in any order."""

    rows_in_reports = False

    def __init__(self, world: World, d: int, workers: int, packing: Packing, clocks: ClockMap) -> None:
        self.world, self.d, self.packing, self.clocks = world, d, packing, clocks
        self.slots = max(2, min(2 * workers, SLOT_BYTES // packing.size))
        self.free: list[Wire] = []
        self.allocated = 0
        self.decoded = new_vector(d if packing.codec else 0)
        self.row = np.empty(ROW)
        self.row_request = world.comm.Recv_init(self.row, MPI.ANY_SOURCE, Tag.ROW)
        self.status = MPI.Status()
        self.announced: deque[tuple[int, NDArray[np.float64]]] = deque()
        self.flying: list[tuple[MPI.Request, int, NDArray[np.float64], Wire]] = []
        self.rows_due = self.due = 0

    @property
    def flowing(self) -> bool:
        return bool(self.flying)

    def begin(self, expected: int) -> None:
        self.rows_due = self.due = expected
        if expected:
            self.row_request.Start()

    def poll(self, add: Add) -> bool:
        moved = self._hear_rows()
        while self.announced and (slot := self._free_slot()) is not None:
            rank, row = self.announced.popleft()
            self.flying.append((self.world.comm.Irecv(slot, rank, Tag.UPDATE), rank, row, slot))
        still = []
        for flight in self.flying:
            request, rank, row, slot = flight
            if request.Test():
                moved = True
                self.due -= 1
                add(read_row(row, rank, self.clocks, self.world.now()), self._unpack(slot))
                self.free.append(slot)
            else:
                still.append(flight)
        self.flying = still
        return moved

    def finish(self, total: ExactSum, seen: Round) -> None:
        flown = [arrival for arrival in seen.arrivals if arrival.rank != SERVER]
        seen.up = [(arrival.post_time, arrival.arrive_time) for arrival in flown]
        seen.up_bytes += len(flown) * self.packing.size
        seen.control_bytes += len(flown) * 8 * ROW

    def _hear_rows(self) -> bool:
        moved = False
        while self.rows_due and self.row_request.Test(self.status):
            moved = True
            self.announced.append((self.status.source, self.row.copy()))
            self.rows_due -= 1
            if self.rows_due:
                self.row_request.Start()
        return moved

    def _free_slot(self) -> Wire | None:
        if self.free:
            return self.free.pop()
        if self.allocated < self.slots:
            self.allocated += 1
            return self.packing.new_payload() if self.packing.codec else new_vector(self.d)
        return None

    def _unpack(self, slot: Wire) -> NDArray[np.float32]:
        if self.packing.codec is None:
            return slot  # type: ignore[return-value]
        self.packing.codec.decode(slot, self.decoded)  # type: ignore[arg-type]
        return self.decoded


class PerClientOutbox:
    """A worker's end: two slots, so that one update can be on its way while the next is computed."""

    def __init__(self, world: World, d: int, settings: Comm) -> None:
        self.world, self.overlap, self.packing = world, settings.overlap, Packing(settings, d)
        self.slots = [new_vector(d) for _ in range(WORKER_SLOTS)]
        self.payloads: list[Wire] = list(self.slots)
        if self.packing.codec:
            self.payloads = [self.packing.new_payload() for _ in range(WORKER_SLOTS)]
        self.sent: list[list[MPI.Request]] = [[] for _ in range(WORKER_SLOTS)]
        self.current = 0

    def begin(self, order: Order) -> None:
        self.order = order

    def slot(self) -> NDArray[np.float32]:
        self.current = (self.current + 1) % WORKER_SLOTS
        self._settle()
        return self.slots[self.current]

    def deliver(self, training: Training, omega: float) -> None:
        comm, order, payload = self.world.comm, self.order, self.payloads[self.current]
        key = order.run, order.seed, order.t, training.client
        sent_norm = self.packing.pack(self.slots[self.current], training.norm, key, payload)  # type: ignore[arg-type]
        self.sent[self.current] = [
            comm.Isend(write_row(training, sent_norm, self.world.now()), SERVER, Tag.ROW),
            comm.Isend(payload, SERVER, Tag.UPDATE),
        ]
        if not self.overlap:
            self._settle()

    def _settle(self) -> None:
        """Wait until the update in the current slot has left."""
        self.world.wait(lambda: MPI.Request.Testall(self.sent[self.current]), flowing=True)

    def progress(self) -> None:
        for requests in self.sent:
            MPI.Request.Testall(requests)

    def rows(self) -> NDArray[np.float64]:
        return np.empty((0, ROW))

    def finish(self) -> None:
        pass
