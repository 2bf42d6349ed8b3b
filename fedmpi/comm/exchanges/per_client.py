"""The `per-client` exchange: each Δ_i travels as its own message while the next client trains.

What crosses the wire is what a federation would upload, with UPDATE_INFO at the end of the same message. The server
probes for messages and receives each into one of a bounded number of buffers; while one is in flight it does not sleep.
"""

from __future__ import annotations

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm.clocks import ClockMap
from fedmpi.comm.exchanges.protocols import Add
from fedmpi.comm.messages import UPDATE_INFO, Command
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.traffic import (
    CLIENT,
    POST_TIME,
    SENT_NORM,
    ArrivalRow,
    RoundTraffic,
    UpdateInfo,
    arrival,
    new_vector,
    update_info,
)
from fedmpi.comm.world import World
from fedmpi.compression.upload import UploadEncoder
from fedmpi.config import CommSettings
from fedmpi.server import ExactSum

# The server holds at most two updates per worker, and no more than this many bytes of them (but always two).
BUFFER_BYTES = 512 * 2**20
# A worker trains into one buffer while the other is in flight.
WORKER_BUFFERS = 2
INFO_WORDS = UPDATE_INFO.itemsize // 8


class UpdateBuffer:
    """One update as it travels, float32 or the bytes that a codec made of it, and its UPDATE_INFO.

    MPI is given float64: a message may have at most 2³¹ numbers, which is 16 GiB.
    """

    def __init__(self, encoder: UploadEncoder) -> None:
        words = -(-encoder.nbytes // 8)
        self.message: NDArray[np.float64] = torch.zeros(words + INFO_WORDS, dtype=torch.float64).numpy()
        self.info = self.message[words:].view(UPDATE_INFO)
        self.payload = self.message.view(np.uint8)[: encoder.nbytes]
        # Without a codec the payload is the update itself.
        self.delta = None if encoder.codec else self.payload.view(np.float32)

    def write(self, info: UpdateInfo) -> None:
        self.info[0] = info


class DeviceUpdateBuffer:
    """The same in a GPU's memory, from which MPI takes it; for updates without a codec."""

    def __init__(self, encoder: UploadEncoder, device: torch.device) -> None:
        words = -(-encoder.nbytes // 8)
        self.message = torch.zeros(words + INFO_WORDS, dtype=torch.float64, device=device)
        self.info = self.message[words:]
        self.payload = np.empty(0, np.uint8)
        self.delta = self.message.view(torch.float32)[: encoder.nbytes // 4]

    def write(self, info: UpdateInfo) -> None:
        self.info.copy_(torch.from_numpy(np.array([info], UPDATE_INFO).view(np.float64)))
        if self.message.is_cuda:
            torch.cuda.synchronize(self.message.device)  # MPI does not wait for torch's stream


class PerClientInbox:
    """The server's end: updates from any worker, in any order."""

    infos_in_reports = False

    def __init__(self, world: World, d: int, workers: int, encoder: UploadEncoder, clocks: ClockMap) -> None:
        self.world, self.encoder, self.clocks = world, encoder, clocks
        self.room = max(2, min(2 * workers, BUFFER_BYTES // encoder.nbytes))
        self.free: list[UpdateBuffer] = []
        self.decoded = new_vector(d if encoder.codec else 0)
        self.status = MPI.Status()
        self.in_flight: list[tuple[MPI.Request, int, UpdateBuffer]] = []
        self.arrived: list[tuple[UpdateInfo, int, float]] = []
        self.pending = 0

    @property
    def flowing(self) -> bool:
        return bool(self.in_flight)

    def open(self, expected: int) -> None:
        self.pending = expected
        self.arrived = []

    def expect_fewer(self, count: int) -> None:
        self.pending -= count

    def poll(self, add: Add) -> bool:
        moved = self._receive()
        still = []
        for flight in self.in_flight:
            request, rank, buffer = flight
            if request.Test():
                moved = True
                self.pending -= 1
                (info,) = buffer.info.tolist()
                self.arrived.append((info, rank, self.world.now()))
                add(int(info[CLIENT]), info[SENT_NORM], self._decode(buffer))
                self.free.append(buffer)
            else:
                still.append(flight)
        self.in_flight = still
        return moved

    def finish(self, total: ExactSum, traffic: RoundTraffic) -> list[ArrivalRow]:
        rows = [arrival(info, rank, self.clocks, at) for info, rank, at in self.arrived]
        traffic.up = [(row[POST_TIME], row[-1]) for row in rows]  # until it arrived, which is the last field
        traffic.up_bytes += len(rows) * self.encoder.nbytes
        traffic.control_bytes += len(rows) * UPDATE_INFO.itemsize
        return rows

    def _receive(self) -> bool:
        """Start to receive the messages that have come into sight, as far as there is room; whether there was any."""
        before = len(self.in_flight)
        while len(self.in_flight) < min(self.pending, self.room):
            message = self.world.comm.Improbe(MPI.ANY_SOURCE, Tag.UPDATE, self.status)
            if message is None:
                break
            buffer = self.free.pop() if self.free else UpdateBuffer(self.encoder)
            self.in_flight.append((message.Irecv(buffer.message), self.status.source, buffer))
        return len(self.in_flight) > before

    def _decode(self, buffer: UpdateBuffer) -> NDArray[np.float32]:
        if self.encoder.codec:
            self.encoder.codec.decode(buffer.payload, self.decoded)
        return self.decoded if buffer.delta is None else buffer.delta


class PerClientOutbox:
    """A worker's end: two buffers, so that one update can be in flight while the next is computed."""

    def __init__(self, world: World, d: int, settings: CommSettings, device: torch.device | None = None) -> None:
        self.world, self.overlap, self.encoder = world, settings.overlap, UploadEncoder(settings, d)
        self.buffers: list[UpdateBuffer | DeviceUpdateBuffer] = [
            DeviceUpdateBuffer(self.encoder, device) if device else UpdateBuffer(self.encoder)
            for _ in range(WORKER_BUFFERS)
        ]
        self.sent = [MPI.REQUEST_NULL] * WORKER_BUFFERS
        self.uncompressed = new_vector(d if self.encoder.codec else 0)
        self.current = 0

    def open(self, command: Command) -> None:
        self.command = command

    def slot(self) -> Vector:
        self.current = (self.current + 1) % WORKER_BUFFERS
        self._complete_send()
        delta = self.buffers[self.current].delta
        return self.uncompressed if delta is None else delta

    def deliver(self, training: Training, omega: float) -> None:
        command, buffer = self.command, self.buffers[self.current]
        key = command.run, command.seed, command.t, training.client
        sent_norm = training.delta_norm
        if self.encoder.codec:
            sent_norm = self.encoder.encode(self.uncompressed, training.delta_norm, key, buffer.payload)
        buffer.write(update_info(training, sent_norm, self.world.now()))
        self.sent[self.current] = self.world.comm.Isend(buffer.message, SERVER, Tag.UPDATE)
        if not self.overlap:
            self._complete_send()

    def _complete_send(self) -> None:
        """Wait until the update in the current buffer has left."""
        self.world.wait_for(self.sent[self.current], flowing=True)

    def progress(self) -> None:
        MPI.Request.Testall(self.sent)

    def infos(self) -> NDArray[np.void]:
        return np.empty(0, UPDATE_INFO)

    def finish(self) -> None:
        pass
