"""The ranks of a job: who is server, how a rank waits without burning its core, how a failure ends all of them, or
only those that it hit."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm import launcher
from fedmpi.comm.failure_detector import News, Vigil
from fedmpi.comm.launcher import write_exit_file
from fedmpi.comm.tags import SERVER
from fedmpi.comm.tree import broadcast
from fedmpi.errors import FedmpiError

# A waiting rank first yields, then sleeps between tests: an eighth of the time it has waited so far, within these.
YIELDS, CROWDED_YIELDS = 50, 3
WAITED_SHARE = 1 / 8
FIRST_SLEEP = 20e-6
LAST_SLEEP, LAST_FLOWING_SLEEP = 1e-3, 0.1e-3
# By default Linux lets a sleep last 50 µs longer than asked, to save wake-ups; here it may last this many ns longer.
TIMER_SLACK, SLACK_NANOSECONDS = 29, 1000  # 29: PR_SET_TIMERSLACK of <linux/prctl.h>
# While data is known to flow, tests follow each other without sleep; after this long, with the shortest sleep.
EAGER_SECONDS = 2e-3
# How long a failing worker waits for the server to end the job before it does so itself.
GRACE_SECONDS = 3.0

# Ranks that this process has seen lost: MPI may wait for them for ever when it is finalized.
LOST: list[int] = []


class Elsewhere(FedmpiError):
    """Raised on the other ranks when rank 0 has failed and has already said why."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("rank 0 has said why")
        self.exit_code = exit_code


class World:
    """A communicator of our own and this process's place in it. Pickle is never used: text travels as UTF-8."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        # Which rank each one had when the job began: they are numbered anew when some are lost.
        self.origin = list(range(comm.size))
        self.vigil = Vigil(self)
        self.told: BaseException | None = None
        self.crowded = is_crowded(comm)
        # Seconds added to this rank's clock: a test's way to be another host, whose clock is not ours.
        self.clock_shift = 0.0

    @property
    def is_server(self) -> bool:
        return self.rank == SERVER

    def workers(self, hosts_clients: bool) -> list[int]:
        """The ranks that host clients: all but the server, unless it is alone or told to help."""
        return list(range(self.size)) if hosts_clients or self.size == 1 else list(range(1, self.size))

    def first(self, action: Callable[[], str]) -> str:
        """**Collective.** The text that `action` returns on rank 0, on every rank; if it fails there, all ranks
        raise: rank 0 its error, the others `Elsewhere`."""
        if not self.is_server:
            return self.follow()
        with self.leading() as tell:
            text = action()
            tell.append(text)
        return text

    @contextmanager
    def leading(self) -> Iterator[list[str]]:
        """**Collective.** Rank 0's part of a step that it takes first; the others `follow`. They raise if it fails,
        or get the text that was put into the list."""
        text: list[str] = []
        try:
            yield text
        except BaseException as error:
            self._tell(getattr(error, "exit_code", 1), "")
            self.told = error
            raise
        self._tell(0, "".join(text))

    def follow(self) -> str:
        """**Collective.** The other ranks' part of a step that rank 0 takes first."""
        code, text = self._hear()
        if code:
            raise Elsewhere(code)
        return text

    def knows(self, error: BaseException) -> bool:
        """Whether all ranks have been told of this error, and end by themselves."""
        return isinstance(error, Elsewhere) or error is self.told

    def _tell(self, code: int, text: str) -> None:
        encoded = np.frombuffer(text.encode(), np.uint8).copy()
        broadcast(self, np.array([code, len(encoded)], np.int64))
        broadcast(self, encoded)

    def _hear(self) -> tuple[int, str]:
        head = np.empty(2, np.int64)
        broadcast(self, head)
        encoded = np.empty(head[1], np.uint8)
        broadcast(self, encoded)
        return int(head[0]), encoded.tobytes().decode()

    def gather_text(self, text: str, width: int = 256) -> list[str]:
        """**Collective.** Every rank's text, on rank 0 (an empty list elsewhere); cut to `width` bytes."""
        mine = np.zeros(width, np.uint8)
        encoded = np.frombuffer(text.encode()[:width], np.uint8)
        mine[: len(encoded)] = encoded
        everyone = np.empty((self.size, width), np.uint8) if self.is_server else None
        self.comm.Gather(mine, everyone, root=SERVER)
        if everyone is None:
            return []
        return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in everyone]

    def share(self, array: NDArray[np.int32]) -> None:
        """**Collective.** Fill `array` on every rank with rank 0's."""
        broadcast(self, array)

    def now(self) -> float:
        """Seconds on this rank's clock: the host's monotonic one, which all its processes share.

        MPI.Wtime counts from each process's own start (Open MPI 5), so it could not be compared even on one host.
        """
        return time.monotonic() + self.clock_shift

    def wait(self, done: Callable[[], bool], flowing: bool = False) -> None:
        """Return once `done()`; sleep in between, but hardly while data flows."""
        if done():
            return
        rest = Rest(flowing, self.crowded)
        while not done():
            self.attend()
            rest()

    def wait_for(self, request: MPI.Request, flowing: bool = False) -> None:
        self.wait(request.Test, flowing)

    def attend(self) -> None:
        """To be called while waiting and between steps of work: notice what is wrong, here or elsewhere."""
        self.vigil.attend()

    def regroup(self) -> list[int]:
        """**Collective** among the ranks that are left. Number them anew in the old order; the origins of those lost.

        Requests on the old communicator never complete: whoever made them must keep what they point to.
        """
        before = self.origin
        self.comm.Revoke()
        left = cast(MPI.Intracomm, self.comm.Shrink())
        kept = MPI.Group.Translate_ranks(left.group, list(range(left.size)), self.comm.group)
        self.comm, self.rank, self.size = left, left.rank, left.size
        self.origin = [before[rank] for rank in kept]
        if self.vigil.places:
            self.vigil.places = [self.vigil.places[rank] for rank in kept]
        self.vigil.begin()
        LOST.extend(sorted(set(before) - set(self.origin)))
        return sorted(set(before) - set(self.origin))

    def report_failure(self, sentence: str) -> None:
        """On a worker: tell the server why this rank cannot go on, then end the job if the server does not."""
        request = self.vigil.tell(News.FAILURE, sentence)
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            request.Test()
            time.sleep(LAST_SLEEP)
        self.abort()

    def abort(self, code: int = 1) -> None:
        """End every process of the job, now."""
        write_exit_file(str(code))
        self.comm.Abort(code)


class Rest:
    """What a rank does between two tests that found nothing: yield at first, then sleep up to 1 ms.

    While data flows it does not sleep, unless its host is crowded: then the core is needed by whoever it waits for.
    """

    def __init__(self, flowing: bool = False, crowded: bool = False) -> None:
        self.flowing, self.crowded = flowing, crowded
        self.again()

    def again(self) -> None:
        """Something has moved: start over with short rests."""
        self.count, self.since = 0, time.monotonic()

    def __call__(self) -> None:
        self.count += 1
        waited = time.monotonic() - self.since
        eager = self.count <= YIELDS or (self.flowing and waited < EAGER_SECONDS)
        if self.count <= CROWDED_YIELDS or (eager and not self.crowded):
            os.sched_yield()
            return
        most = LAST_FLOWING_SLEEP if self.flowing else LAST_SLEEP
        time.sleep(min(max(waited * WAITED_SHARE, FIRST_SLEEP), most))


def connect() -> World:
    """**Collective.** The world of this job: MPI's, on a communicator that nobody else uses."""
    launcher.check(os.environ, MPI.COMM_WORLD.size, MPI.get_vendor()[0])
    sleep_as_asked()
    return World(MPI.COMM_WORLD.Dup())


def is_crowded(comm: MPI.Intracomm) -> bool:
    """**Collective.** Whether this rank's host has fewer cores for its ranks than ranks."""
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = here.size
    here.Free()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ranks > cores


def sleep_as_asked() -> None:
    """Have this process's sleeps end when they are to, where the system can be told so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(TIMER_SLACK, SLACK_NANOSECONDS, 0, 0, 0)


def library_version() -> str:
    """The MPI library in use, on one line."""
    return MPI.Get_library_version().replace("\0", "").splitlines()[0].strip()


def cuda_aware() -> bool | None:
    """Whether the MPI library in use takes buffers in a GPU's memory; None if it does not say."""
    try:
        return bool(ctypes.CDLL(MPI.__file__).MPIX_Query_cuda_support())
    except (AttributeError, OSError):
        return None
