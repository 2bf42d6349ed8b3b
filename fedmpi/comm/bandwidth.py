"""Latency and bandwidth between the server and each worker, measured with echoes of raw buffers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.world import World
from fedmpi.server import ExactSum, magnitude

SIZES = (8, 64, 512, 4 * 2**10, 32 * 2**10, 256 * 2**10, 2 * 2**20, 16 * 2**20, 64 * 2**20)
MOST_ECHOES = 200
LEAST_ECHOES = 5
# No size is echoed for longer than about this; one that would take longer for a single echo is left out.
SECONDS_PER_SIZE = 2.0
# Messages that are sent in a row to find what one of them costs the sender, and how often that is done.
BURST, BURSTS = 100, 20
# Bytes of θ on which the server's arithmetic is timed: more than a core's cache holds.
ARITHMETIC = 32 * 2**20
# How often a rank that takes no part in a measurement tests whether it is over: seldom, so that it costs nothing.
ABSENT_SECONDS = 0.02
INTERFACES = Path("/proc/net/dev")
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Echo:
    """Messages of one size to one worker and back: the median of half the round trips, in seconds."""

    size: int
    count: int
    seconds: float

    @property
    def bandwidth(self) -> float:
        """Bytes per second, one way."""
        return self.size / self.seconds


@dataclass(frozen=True)
class Line:
    """The server's line to one worker: what carried the messages, and their times by size."""

    rank: int
    carrier: str
    echoes: tuple[Echo, ...]


def probe_lines(world: World, sizes: Sequence[int] = SIZES) -> list[Line]:
    """**Collective.** The line to each worker, one after the other, on rank 0; empty elsewhere. Idle ranks sleep."""
    if not world.is_server:
        echo_back(world, max(sizes))
        return []
    buffer = np.zeros(max(sizes), np.uint8)
    lines = []
    for rank in range(world.size):
        if rank != SERVER:
            lines.append(probe_line(world, rank, sizes, buffer))
    return lines


def probe_line(world: World, rank: int, sizes: Sequence[int], buffer: NDArray[np.uint8]) -> Line:
    """The line to one worker. Each step is announced as [size, echoes]; a size of 0 ends it."""
    echoes: list[Echo] = []
    before, moved = interface_bytes(), 0
    for size in sizes:
        echo(world, rank, buffer[:size], 1)  # opens connections, touches pages
        expected = echo(world, rank, buffer[:size], 1)[0]
        count = int(min(MOST_ECHOES, max(LEAST_ECHOES, SECONDS_PER_SIZE / expected)))
        if expected * count > 2 * SECONDS_PER_SIZE:
            count = 1
        times = echo(world, rank, buffer[:size], count)
        echoes.append(Echo(size, count, float(np.median(times)) / 2))
        moved += size * (2 + count)
        if expected > SECONDS_PER_SIZE:
            break
    world.comm.Send(np.zeros(2, np.int64), rank, Tag.LINE)
    return Line(rank, carrier(before, interface_bytes(), moved), tuple(echoes))


def echo(world: World, rank: int, message: NDArray[np.uint8], count: int) -> list[float]:
    """The seconds of so many round trips, by blocking calls: the raw limit."""
    world.comm.Send(np.array([len(message), count], np.int64), rank, Tag.LINE)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        world.comm.Send(message, rank, Tag.LINE)
        world.comm.Recv(message, rank, Tag.LINE)
        times.append(time.perf_counter() - began)
    return times


def echo_back(world: World, largest: int) -> None:
    """A worker's part of its line's probe."""
    step, buffer = np.empty(2, np.int64), np.empty(largest, np.uint8)
    while True:
        world.wait_for(world.comm.Irecv(step, SERVER, Tag.LINE))
        size, count = step.tolist()
        if not size:
            return
        for _ in range(count):
            world.comm.Recv(buffer[:size], SERVER, Tag.LINE)
            world.comm.Send(buffer[:size], SERVER, Tag.LINE)


def message_overhead(world: World) -> float:
    """**Collective.** Seconds in which the server hands a small message to MPI, on rank 0; 0 elsewhere and alone."""
    message, buffers = np.zeros(8, np.uint8), np.empty((BURST, 8), np.uint8)
    times = []
    for _ in range(BURSTS if world.size > 1 and world.rank in (SERVER, 1) else 0):
        if world.is_server:
            world.comm.Recv(message, 1, Tag.LINE)  # the receives are posted
            began = time.perf_counter()
            sent = [world.comm.Isend(message, 1, Tag.LINE) for _ in range(BURST)]
            times.append((time.perf_counter() - began) / BURST)
            world.wait(lambda sent=sent: MPI.Request.Testall(sent))  # type: ignore[misc]
        else:
            posted = [world.comm.Irecv(buffer, SERVER, Tag.LINE) for buffer in buffers]
            world.comm.Send(message, SERVER, Tag.LINE)
            world.wait(lambda posted=posted: MPI.Request.Testall(posted))  # type: ignore[misc]
    return float(np.median(times)) if times else 0.0


def arithmetic(size: int = ARITHMETIC, times: int = 5) -> tuple[float, float]:
    """Seconds of a core per byte of θ: of adding an update to the sum, and of the server's passes over θ in a round.

    By the processor's clock, which stands still while others have the core.
    """
    d = size // 4
    theta, delta, total = np.full(d, 0.5, np.float32), np.full(d, 1e-6, np.float32), ExactSum(d)
    adding, stepping = [], []
    for _ in range(times):
        marks = [time.process_time()]
        total.reset(magnitude(theta))
        marks.append(time.process_time())
        total.add(1.0, delta, 1e-6 * d**0.5)
        marks.append(time.process_time())
        total.apply(theta, 1.0, out=theta)
        np.isfinite(theta).all()
        marks.append(time.process_time())
        before, during, after = np.diff(marks)
        adding.append(during)
        stepping.append(before + after)
    return float(np.median(adding)) / size, float(np.median(stepping)) / size


@contextmanager
def first_ranks(world: World, size: int) -> Iterator[World | None]:
    """**Collective.** A world of the first `size` ranks, for these; None for the others, who sleep until it is over."""
    part = cast(MPI.Intracomm, world.comm.Split(int(world.rank >= size), world.rank))
    yield World(part) if world.rank < size else None
    # It is not freed: a worker's last heartbeat may still be in flight there.
    over = world.comm.Ibarrier()
    while not over.Test():
        time.sleep(ABSENT_SECONDS)


def interface_bytes() -> dict[str, int]:
    """Bytes sent by each network interface of this host so far; empty where the system does not say."""
    try:
        lines = INTERFACES.read_text().splitlines()[2:]
    except OSError:
        return {}
    return {name.strip(): int(numbers.split()[8]) for name, numbers in (line.split(":", 1) for line in lines)}


def carrier(before: dict[str, int], after: dict[str, int], moved: int) -> str:
    """What carried `moved` bytes from here, by what the interfaces counted.

    MPI does not say which transport it has chosen for a peer; the interface that sent as many bytes does.
    """
    if not after:
        return NOT_KNOWN
    for name, sent in after.items():
        if sent - before.get(name, 0) > 0.9 * moved:
            return f"TCP over {name}"
    return "no network interface"
