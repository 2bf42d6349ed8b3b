"""Who is still there: signs of life, news that workers send unasked, signals, and which errors mean a lost rank."""

from __future__ import annotations

import os
import signal
import time
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from fedmpi.comm.signals import Signals
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.errors import FedmpiError, Stopped

if TYPE_CHECKING:
    from fedmpi.comm.world import World

# A worker gives a sign of life so often, and the server looks so often who has given none.
SIGN_SECONDS = 1.0
LOOK_SECONDS = 0.5
# How long the server waits for a process that it has killed to be gone.
KILL_SECONDS = 5.0
# Where Open MPI's launcher says that it was started so.
ENABLED = "OMPI_MCA_mpi_ft_enable"
# The classes of MPI's errors that say that a rank was lost, where MPI knows of such a thing.
LOSSES = tuple(
    getattr(MPI, name) for name in ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED") if hasattr(MPI, name)
)


class News(IntEnum):
    """The first byte of what a worker tells the server unasked; a text follows."""

    ALIVE = 0
    SIGNAL = 1
    FAILURE = 2


class Silent(FedmpiError):
    """A rank has given no sign of life for comm.timeout seconds."""

    def __init__(self, rank: int, sentence: str) -> None:
        super().__init__(sentence)
        self.rank = rank


class Vigil:
    """One rank's share in noticing that something is wrong, here or elsewhere."""

    def __init__(self, world: World) -> None:
        self.world, self.signals = world, Signals()
        # Host and process id of every rank, known to the server.
        self.places: list[tuple[str, int]] = []
        self.timeout = float("inf")
        self.told = False
        self.begin()

    def begin(self) -> None:
        """Start anew, with the ranks that there are now."""
        now = time.monotonic()
        self.heard = [now] * self.world.size
        self.looked = self.signed = now
        self.sign = MPI.REQUEST_NULL

    def meet(self, host: str, timeout: float) -> list[str]:
        """**Collective.** Let the server know where every rank is; the hosts of all ranks, on the server."""
        told = [text.split("\n") for text in self.world.gather_text(f"{host}\n{os.getpid()}")]
        self.places = [(name, int(pid)) for name, pid in told]
        self.timeout = timeout
        self.begin()
        return [name for name, _ in self.places]

    def name(self, rank: int) -> str:
        """A rank as messages call it: its number at the start of the job, and its host."""
        return f"rank {self.world.origin[rank]}" + (f" on {self.places[rank][0]}" if self.places else "")

    def names(self) -> dict[int, str]:
        """All ranks as messages call them, by their number at the start."""
        return {origin: self.name(rank) for rank, origin in enumerate(self.world.origin)}

    def attend(self) -> None:
        """On the server: raise what has come up, here or on another rank. On a worker: give a sign of life."""
        if self.world.rank == SERVER:
            if self.signals.name:
                raise Stopped(f"stopped by {self.signals.name}")
            self._hear()
            self._look_around()
        elif self.signals.name and not self.told:
            self.told = True
            self.tell(News.SIGNAL, self.signals.name)
        elif time.monotonic() - self.signed > SIGN_SECONDS and self.sign.Test():
            self.tell(News.ALIVE)
        elif fault_tolerant():
            # A rank that computes must call MPI to learn that the others go on without a lost one.
            self.world.comm.Iprobe(SERVER, Tag.NEWS)

    def tell(self, news: News, text: str = "") -> MPI.Request:
        """On a worker: tell the server."""
        self.signed = time.monotonic()
        message = np.frombuffer(bytes([news]) + text.encode(), np.uint8)
        self.sign = self.world.comm.Isend(message, SERVER, Tag.NEWS)
        return self.sign

    def _hear(self) -> None:
        comm, status = self.world.comm, MPI.Status()
        while comm.Iprobe(MPI.ANY_SOURCE, Tag.NEWS, status):
            message = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            comm.Recv(message, status.source, Tag.NEWS)
            self.heard[status.source] = time.monotonic()
            text = message[1:].tobytes().decode(errors="replace")
            if message[0] == News.FAILURE:
                raise FedmpiError(f"rank {self.world.origin[status.source]}, {text}")
            if message[0] == News.SIGNAL:
                raise Stopped(f"stopped by {text}, sent to rank {self.world.origin[status.source]}")

    def _look_around(self) -> None:
        """Raise if a rank has been silent for too long. What was sent while the server was busy counts as of now: no
        rank is blamed for that."""
        now = time.monotonic()
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        for rank in range(1, self.world.size):
            if now - self.heard[rank] > self.timeout:
                told = f"{self.name(rank)} has given no sign of life for {self.timeout:g} s (comm.timeout)"
                raise Silent(rank, told)

    def loses_rank(self, error: BaseException | None) -> bool:
        """Whether `error` means that ranks were lost and MPI can do without them.

        A silent rank becomes a lost one if it is a process of the server's host, which ends it.
        """
        if not fault_tolerant():
            return False
        if isinstance(error, Silent):
            host, pid = self.places[error.rank]
            return host == self.places[SERVER][0] and end_process(pid)
        while error is not None:
            # Tests of several requests say only that one of them has failed.
            if isinstance(error, MPI.Exception) and error.Get_error_class() in (*LOSSES, MPI.ERR_IN_STATUS):
                return True
            error = error.__cause__ or error.__context__
        return False


def fault_tolerant() -> bool:
    """Whether the loss of a rank leaves the others running: Open MPI under `mpirun --with-ft ulfm`."""
    return bool(LOSSES) and os.environ.get(ENABLED, "0") not in ("", "0", "false")


def end_process(pid: int) -> bool:
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
