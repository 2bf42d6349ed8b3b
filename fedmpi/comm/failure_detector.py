"""Detecting what is wrong on any rank: heartbeats, failures and signals that workers report, errors of MPI."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from mpi4py import MPI

from fedmpi.comm.signals import Signals
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.errors import FedmpiError, Stopped

if TYPE_CHECKING:
    from fedmpi.comm.world import World

# How often a worker sends a heartbeat, and how often the server looks for missing ones.
HEARTBEAT_SECONDS = 1.0
LOOK_SECONDS = 0.5
# How long the server waits for a process that it has killed to be gone.
KILL_SECONDS = 5.0
# Set by Open MPI's launcher when it was started with fault tolerance.
FAULT_TOLERANCE = "OMPI_MCA_mpi_ft_enable"
# The classes of MPI's errors that mean a lost rank, where the MPI library has them.
RANK_LOSSES = tuple(
    getattr(MPI, name) for name in ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED") if hasattr(MPI, name)
)


class Notice(IntEnum):
    """What a worker sends to the server without being asked: the first byte of the message; a text follows."""

    HEARTBEAT = 0
    SIGNAL = 1
    FAILURE = 2


class RankSilent(FedmpiError):
    """A rank has sent no heartbeat for comm.timeout seconds."""

    def __init__(self, rank: int, sentence: str) -> None:
        super().__init__(sentence)
        self.rank = rank


class Process(NamedTuple):
    """Where a rank runs."""

    host: str
    pid: int


class FailureDetector:
    """One rank's part in detecting failures. Every rank calls `check` while it waits and between steps of work."""

    def __init__(self, world: World) -> None:
        self.world, self.signals = world, Signals()
        self.processes: list[Process] = []  # of every rank; known to the server
        self.timeout = float("inf")
        self.signal_reported = False
        self.reset(range(world.size))

    def reset(self, kept: Sequence[int]) -> None:
        """Start again with the ranks of the present communicator. kept: their numbers in the one before."""
        now = time.monotonic()
        self.processes = [self.processes[rank] for rank in kept] if self.processes else []
        self.last_heard = [now] * len(kept)
        self.last_look = self.last_notice = now
        self.notice = MPI.REQUEST_NULL

    def register(self, host: str, timeout: float) -> list[str]:
        """**Collective.** Tell the server where every rank runs; the hosts of all ranks, on the server."""
        lines = [text.split("\n") for text in self.world.gather_text(f"{host}\n{os.getpid()}")]
        self.processes = [Process(name, int(pid)) for name, pid in lines]
        self.timeout = timeout
        self.reset(range(self.world.size))
        return [process.host for process in self.processes]

    def name(self, rank: int) -> str:
        """A rank as messages name it: its number at the start of the job, and its host."""
        host = f" on {self.processes[rank].host}" if self.processes else ""
        return f"rank {self.world.original_ranks[rank]}{host}"

    def names(self) -> dict[int, str]:
        """All ranks as messages name them, by their number at the start."""
        return {original: self.name(rank) for rank, original in enumerate(self.world.original_ranks)}

    def check(self) -> None:
        """On the server: raise if this or another rank has a problem. On a worker: send what is due."""
        if self.world.rank == SERVER:
            if self.signals.name:
                raise Stopped(f"stopped by {self.signals.name}")
            self._receive_notices()
            self._check_heartbeats()
        elif self.signals.name and not self.signal_reported:
            self.signal_reported = True
            self.notify(Notice.SIGNAL, self.signals.name)
        elif time.monotonic() - self.last_notice > HEARTBEAT_SECONDS and self.notice.Test():
            self.notify(Notice.HEARTBEAT)
        elif fault_tolerant():
            # A rank that computes must call MPI to learn that the communicator was revoked.
            self.world.comm.Iprobe(SERVER, Tag.NOTICE)

    def notify(self, kind: Notice, text: str = "") -> MPI.Request:
        """On a worker: send a notice to the server."""
        self.last_notice = time.monotonic()
        message = np.frombuffer(bytes([kind]) + text.encode(), np.uint8)
        self.notice = self.world.comm.Isend(message, SERVER, Tag.NOTICE)
        return self.notice

    def _receive_notices(self) -> None:
        comm, status = self.world.comm, MPI.Status()
        while comm.Iprobe(MPI.ANY_SOURCE, Tag.NOTICE, status):
            message = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            comm.Recv(message, status.source, Tag.NOTICE)
            self.last_heard[status.source] = time.monotonic()
            text = message[1:].tobytes().decode(errors="replace")
            rank = self.world.original_ranks[status.source]
            if message[0] == Notice.FAILURE:
                raise FedmpiError(f"rank {rank}, {text}")
            if message[0] == Notice.SIGNAL:
                raise Stopped(f"stopped by {text}, sent to rank {rank}")

    def _check_heartbeats(self) -> None:
        """Raise if a rank has been silent for too long.

        Heartbeats that arrived while the server was busy count as of now, so that no rank is blamed for that.
        """
        now = time.monotonic()
        if now - self.last_look < LOOK_SECONDS:
            return
        self.last_look = now
        for rank in range(1, self.world.size):
            if now - self.last_heard[rank] > self.timeout:
                sentence = f"{self.name(rank)} has sent no heartbeat for {self.timeout:g} s (comm.timeout)"
                raise RankSilent(rank, sentence)

    def is_rank_loss(self, error: BaseException | None) -> bool:
        """Whether `error` means that ranks were lost and MPI can continue without them.

        A silent rank is made a lost one by killing it, if it is a process of the server's host.
        """
        if not fault_tolerant():
            return False
        if isinstance(error, RankSilent):
            process = self.processes[error.rank]
            return process.host == self.processes[SERVER].host and kill_process(process.pid)
        while error is not None:
            # Tests of several requests only tell that one of them has failed.
            if isinstance(error, MPI.Exception) and error.Get_error_class() in (*RANK_LOSSES, MPI.ERR_IN_STATUS):
                return True
            error = error.__cause__ or error.__context__
        return False


def fault_tolerant() -> bool:
    """Whether the other ranks keep running when one is lost: Open MPI under `mpirun --with-ft ulfm`."""
    return bool(RANK_LOSSES) and os.environ.get(FAULT_TOLERANCE, "0") not in ("", "0", "false")


def kill_process(pid: int) -> bool:
    """Kill a process of this host; whether it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(1e-3)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
