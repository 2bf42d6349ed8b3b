"""Three ways to move θ down and updates up, compared: fedmpi's links, raw buffers, and pickled objects.

No client trains: only communication is timed. The paths take turns, so that a busy moment of the machine affects all of
them alike; a barrier before each half of a turn gives all ranks the same start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training, as_tensor
from fedmpi.comm.messages import Action, Command
from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.traffic import new_vector
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import World
from fedmpi.config import CommSettings
from fedmpi.sampling import Cohort
from fedmpi.server import ExactSum

RAW, PICKLED, REDUCE = "raw buffers", "pickled", "raw Reduce"
PER_CLIENT, NOT_ADDED, REDUCED = "per-client", "per-client, not added", "reduced"
# Updates that a rank has in flight at once, in either direction: as many as fedmpi's own exchange.
SLOTS = 2
# A model's parameters as other frameworks send them: a dict of arrays.
PIECES = 10


@dataclass(frozen=True)
class Path:
    """One way to move θ down and updates up, on this rank. `ready` is called before, untimed."""

    name: str
    down: Callable[[], object]
    up: Callable[[], object]
    ready: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Result:
    """Medians of one path's turns at one size of θ, in seconds, as the server saw them."""

    size: int
    path: str
    updates: int
    turns: int
    down: float
    up: float


def race(world: World, sizes: Sequence[int], updates: int, turns: int) -> Iterator[Result]:
    """**Collective.** The results on rank 0, size by size; nothing elsewhere.

    sizes: bytes of θ. updates: how many each worker sends per turn. The largest sizes get fewer turns.
    """
    for size in sizes:
        paths = make_paths(world, size // 4, updates)
        count = turns if size < 64 * 2**20 else max(3, turns // 3)
        times: dict[str, list[tuple[float, float]]] = {path.name: [] for path in paths}
        for k in range(count + 1):
            for path in paths:
                taken = take_turn(world, path)
                if k:  # the first turn opens connections and touches pages
                    times[path.name].append(taken)
        if world.is_server:
            total = updates * (world.size - 1)
            for name, taken_turns in times.items():
                downs, ups = zip(*taken_turns, strict=True)
                yield Result(size, name, total, count, median(downs), median(ups))


def take_turn(world: World, path: Path) -> tuple[float, float]:
    """**Collective.** Seconds until every rank holds θ, and from there until the server has all updates."""
    path.ready()
    world.comm.Barrier()
    began = time.perf_counter()
    path.down()
    world.comm.Barrier()
    held = time.perf_counter()
    path.up()
    return held - began, time.perf_counter() - held


def make_paths(world: World, d: int, updates: int) -> list[Path]:
    """This rank's end of every path, in the order of their turns."""
    own = fedmpi_paths(world, d, updates, ExactSum(d))
    return [*raw_paths(world, d, updates), *own, pickled_path(world, d, updates)]


def raw_paths(world: World, d: int, updates: int) -> list[Path]:
    """mpi4py's buffers in preallocated memory, by blocking calls where there is nothing to overlap."""
    comm, theta, total = world.comm, touched(d), np.ones(d, np.int64)
    workers = world.size - 1
    slots = [touched(d) for _ in range(SLOTS * workers if world.is_server else SLOTS)]

    def receive() -> None:
        sources = [1 + k % workers for k in range(len(slots))]
        left = dict.fromkeys(set(sources), updates)
        requests = [MPI.REQUEST_NULL] * len(slots)

        def post(k: int) -> None:
            if left[sources[k]]:
                left[sources[k]] -= 1
                requests[k] = comm.Irecv(slots[k], sources[k], Tag.UPDATE)

        for k in range(len(slots)):
            post(k)
        while (done := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
            requests[done] = MPI.REQUEST_NULL
            post(done)

    def send() -> None:
        requests = [MPI.REQUEST_NULL] * SLOTS
        for k in range(updates):
            requests[k % SLOTS].Wait()
            requests[k % SLOTS] = comm.Isend(slots[k % SLOTS], SERVER, Tag.UPDATE)
        MPI.Request.Waitall(requests)

    def reduce() -> None:
        comm.Reduce(MPI.IN_PLACE if world.is_server else total, total if world.is_server else None, root=SERVER)

    def broadcast() -> None:
        comm.Bcast(theta, root=SERVER)

    return [Path(RAW, broadcast, receive if world.is_server else send), Path(REDUCE, broadcast, reduce)]


def touched(d: int) -> NDArray[np.float32]:
    """(d,) float32 in pages of its own: memory that was never written is one page of zeros, and copies too fast."""
    vector = new_vector(d)
    vector.fill(1.0)
    return vector


def pickled_path(world: World, d: int, updates: int) -> Path:
    """What frameworks do that send a dict of arrays with mpi4py's lower-case methods."""
    comm = world.comm
    state = {f"layer{k}": piece for k, piece in enumerate(np.array_split(touched(d), PIECES))}

    def up() -> None:
        for _ in range(updates * (world.size - 1) if world.is_server else updates):
            if world.is_server:
                comm.recv(source=MPI.ANY_SOURCE, tag=Tag.UPDATE)
            else:
                comm.send(state, SERVER, Tag.UPDATE)

    return Path(PICKLED, lambda: comm.bcast(state if world.is_server else None, root=SERVER), up)


def fedmpi_paths(world: World, d: int, updates: int, total: ExactSum) -> list[Path]:
    """fedmpi's own links, with clients that do nothing; `total` is the server's. One path has it refuse every
    update, which leaves out the adding."""
    exchanges = [CommSettings(exchange=PER_CLIENT), CommSettings(exchange=REDUCED)]
    if not world.is_server:
        per_client, reduced = (WorkerLink(world, d, settings) for settings in exchanges)
        return [
            worker_path(PER_CLIENT, per_client, 0.0),
            worker_path(NOT_ADDED, per_client, float("inf")),
            worker_path(REDUCED, reduced, 0.0),
        ]
    workers, theta = range(1, world.size), touched(d)
    home = np.repeat(np.array(workers, np.int32), updates)
    gathering, reducing = (ServerLink(world, home, workers, d, settings, None) for settings in exchanges)
    return [
        server_path(PER_CLIENT, gathering, theta, total),
        server_path(NOT_ADDED, gathering, theta, total),
        server_path(REDUCED, reducing, theta, total),
    ]


def server_path(name: str, link: ServerLink, theta: NDArray[np.float32], total: ExactSum) -> Path:
    n = len(link.home)
    cohort = Cohort(np.arange(n), np.ones(n))

    def down() -> None:
        if not link.clocks.measured:
            link.compare_clocks()  # in the first turn, which does not count
        link.open_round(0, 0, 0)
        link.call(cohort, 0)
        link.send_theta(theta)

    return Path(name, down, lambda: link.collect(total), lambda: total.reset(0))


def worker_path(name: str, link: WorkerLink, norm: float) -> Path:
    """norm: what the worker says of its updates; one that is not finite keeps the server from adding them."""
    command, fresh = Command(Action.STOP), True

    def down() -> None:
        nonlocal command
        while (command := link.next_command()).action == Action.COMPARE_CLOCKS:
            link.compare_clocks(command.t)
        link.receive_theta(command)

    def up() -> None:
        nonlocal fresh
        link.open_round(command)
        for client in command.clients.tolist():
            slot = link.slot()
            if fresh:
                as_tensor(slot).fill_(1.0)
            link.deliver(Training(client, 0.0, norm, 0.0), 1.0)
        link.report()
        fresh = False

    return Path(name, down, up)
