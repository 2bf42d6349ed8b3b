"""The ranks of a job: which one is the server, how a rank waits without using its core, how an error ends all ranks."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm import launcher
from fedmpi.comm.failure_detector import FailureDetector, Notice
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

# Ranks that this process has seen fail: MPI_Finalize may wait for them for ever.
LOST_RANKS: list[int] = []

Value = TypeVar("Value")


class FailedOnServer(FedmpiError):
    """Raised on the other ranks when rank 0 has failed and has already printed why."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("rank 0 has failed")
        self.exit_code = exit_code


class World:
    """A communicator of our own and this process's place in it. Nothing is pickled: values travel as JSON."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        # The rank that each one had when the job started: ranks are renumbered when some are lost.
        self.original_ranks = list(range(comm.size))
        self.detector = FailureDetector(self)
        self.announced: BaseException | None = None
        self.crowded = is_crowded(comm)
        # Seconds added to this rank's clock, with which a test imitates another host.
        self.clock_shift = 0.0

    @property
    def is_server(self) -> bool:
        return self.rank == SERVER

    def workers(self, hosts_clients: bool) -> list[int]:
        """The ranks that train clients: all but the server, unless it is alone or server.hosts_clients is set."""
        return list(range(self.size)) if hosts_clients or self.size == 1 else list(range(1, self.size))

    def from_server(
        self,
        action: Callable[[], Value],
        encode: Callable[[Value], str] = json.dumps,
        decode: Callable[[str], Value] = json.loads,
    ) -> Value:
        """**Collective.** What `action` returns on rank 0, on every rank.

        If it raises there, all ranks raise: rank 0 its error, the others `FailedOnServer`.
        """
        if not self.is_server:
            return decode(self.wait_for_server())
        with self.server_step() as message:
            value = action()
            message.append(encode(value))
        return value

    @contextmanager
    def server_step(self) -> Iterator[list[str]]:
        """**Collective.** Rank 0's part of a step that it takes before the others, which call `wait_for_server`.

        If the block raises, they raise too; else they get the text that the block puts into the list.
        """
        text: list[str] = []
        try:
            yield text
        except BaseException as error:
            self._send_text(getattr(error, "exit_code", 1), "")
            self.announced = error
            raise
        self._send_text(0, "".join(text))

    def wait_for_server(self) -> str:
        """**Collective.** The other ranks' part of a `server_step`: the text that rank 0 sends at its end."""
        code, text = self._receive_text()
        if code:
            raise FailedOnServer(code)
        return text

    def is_announced(self, error: BaseException) -> bool:
        """Whether all ranks have been told of this error, so that each ends by itself."""
        return isinstance(error, FailedOnServer) or error is self.announced

    def _send_text(self, code: int, text: str) -> None:
        encoded = np.frombuffer(text.encode(), np.uint8).copy()
        broadcast(self, np.array([code, len(encoded)], np.int64))
        broadcast(self, encoded)

    def _receive_text(self) -> tuple[int, str]:
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

    def broadcast(self, array: NDArray[np.int32]) -> None:
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
        backoff = Backoff(flowing, self.crowded)
        while not done():
            self.check()
            backoff()

    def wait_for(self, request: MPI.Request, flowing: bool = False) -> None:
        self.wait(request.Test, flowing)

    def check(self) -> None:
        """Raise if something is wrong here or on another rank. Called while waiting and between steps of work."""
        self.detector.check()

    def shrink(self) -> list[int]:
        """**Collective** among the surviving ranks. Renumber them in the old order; the original ranks of those lost.

        Requests on the old communicator never complete: whoever made them must keep the buffers that they point to.
        """
        before = self.original_ranks
        self.comm.Revoke()
        survivors = cast(MPI.Intracomm, self.comm.Shrink())
        kept = MPI.Group.Translate_ranks(survivors.group, list(range(survivors.size)), self.comm.group)
        self.comm, self.rank, self.size = survivors, survivors.rank, survivors.size
        self.original_ranks = [before[rank] for rank in kept]
        self.detector.reset(kept)
        lost = sorted(set(before) - set(self.original_ranks))
        LOST_RANKS.extend(lost)
        return lost

    def report_failure(self, sentence: str) -> None:
        """On a worker: tell the server why this rank cannot continue, then end the job if the server does not."""
        request = self.detector.notify(Notice.FAILURE, sentence)
        deadline = time.monotonic() + launcher.GRACE_SECONDS
        while time.monotonic() < deadline:
            request.Test()
            time.sleep(LAST_SLEEP)
        self.abort()

    def abort(self, code: int = 1) -> None:
        """End every process of the job now."""
        launcher.write_exit_file(str(code))
        self.comm.Abort(code)


class Backoff:
    """What a rank does between two tests that found nothing: yield at first, then sleep up to 1 ms.

    While data flows it does not sleep, unless its host is crowded: then the rank that it waits for needs the core.
    """

    def __init__(self, flowing: bool = False, crowded: bool = False) -> None:
        self.flowing, self.crowded = flowing, crowded
        self.reset()

    def reset(self) -> None:
        """Start over with short sleeps, because something has moved."""
        self.count, self.since = 0, time.monotonic()

    def __call__(self) -> None:
        self.count += 1
        waited = time.monotonic() - self.since
        eager = self.count <= YIELDS or (self.flowing and waited < EAGER_SECONDS)
        if self.count <= CROWDED_YIELDS or (eager and not self.crowded):
            os.sched_yield()
            return
        longest = LAST_FLOWING_SLEEP if self.flowing else LAST_SLEEP
        time.sleep(min(max(waited * WAITED_SHARE, FIRST_SLEEP), longest))


def connect() -> World:
    """**Collective.** The world of this job: MPI's, on a communicator that nobody else uses."""
    launcher.check(os.environ, MPI.COMM_WORLD.size, MPI.get_vendor()[0])
    reduce_timer_slack()
    return World(MPI.COMM_WORLD.Dup())


def is_crowded(comm: MPI.Intracomm) -> bool:
    """**Collective.** Whether this rank's host has fewer cores than ranks."""
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    ranks = here.size
    here.Free()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return ranks > cores


def reduce_timer_slack() -> None:
    """Make this process's sleeps end on time, where the system allows it."""
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
