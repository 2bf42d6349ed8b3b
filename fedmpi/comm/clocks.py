"""Clocks of different hosts: measured against the server's by ping-pong, and mapped onto it with a bound on the error.

A clock's offset is how far it is ahead of the server's. It changes slowly: quartz clocks run at rates that differ by up
to some tens of ppm, and each rate varies a little with temperature and with the host's time service.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER, Tag

if TYPE_CHECKING:
    from fedmpi.comm.world import World

# How much faster or slower than the server's a clock may run, in seconds per second, before its rate is measured.
MAX_DRIFT = 100e-6
# How far a clock's rate may stray from its mean rate between two measurements.
WANDER = 10e-6
# Measurements kept of each rank: the first, which the mean rate needs, and the last ones.
KEPT = 64


@dataclass(frozen=True)
class Offsets:
    """One measurement of all ranks: how far each clock is ahead of the server's, the error of that, and when it was
    measured on the server's clock. (size,) float64 each, in seconds; zero for the server itself."""

    offset: NDArray[np.float64]
    error: NDArray[np.float64]
    at: NDArray[np.float64]


@dataclass(frozen=True)
class Mark:
    """A rank's clock showed `shown` when its offset was `offset` ± `error`."""

    shown: float
    offset: float
    error: float


class ClockMap:
    """Successive measurements of all ranks' clocks. The first rank, the server, is the clock that counts.

    Between two measurements the offset is interpolated. Before the first and after the last it goes on at the mean
    rate of all measurements, or stays as it is while a rate of up to MAX_DRIFT is better than what is known.
    """

    def __init__(self, size: int) -> None:
        self.marks: list[list[Mark]] = [[] for _ in range(size)]
        # (offset gained per second, how far that may be off) of every rank, from all its marks.
        self.rates = [(0.0, MAX_DRIFT)] * size

    @property
    def measured(self) -> bool:
        return bool(self.marks[-1])

    def add(self, offsets: Offsets) -> None:
        """Take a measurement, later than those before."""
        for rank, marks in enumerate(self.marks):
            offset = float(offsets.offset[rank])
            marks.append(Mark(float(offsets.at[rank]) + offset, offset, float(offsets.error[rank])))
            self.rates[rank] = mean_rate(marks)
            if len(marks) > KEPT:
                del marks[1]

    def to_server(self, rank: int, t: float) -> float:
        """What the server's clock showed when this rank's showed t, in seconds."""
        return t - self._offset(rank, t)[0]

    def error(self, rank: int, t: float) -> float:
        """How far `to_server(rank, t)` may be off, in seconds.

        Half the smallest round trip of the measurements next to t, weighted by how near they are, and the drift:
        WANDER times the time to the nearer one; outside all measurements, the uncertainty of the rate times the time.
        """
        return self._offset(rank, t)[1]

    def _offset(self, rank: int, t: float) -> tuple[float, float]:
        """(offset, its error) of a rank when its clock showed t."""
        if rank == 0:
            return 0.0, 0.0
        marks = self.marks[rank]
        if not marks:
            raise ValueError(f"rank {rank}: its clock has not been measured")
        nearest = marks[-1]
        if t < nearest.shown:
            after = bisect_right(marks, t, key=lambda mark: mark.shown)
            if after:
                return between(marks[after - 1], marks[after], t)
            nearest = marks[0]
        rate, uncertainty = self.rates[rank]
        away = t - nearest.shown
        return nearest.offset + rate * away, nearest.error + uncertainty * abs(away)


def between(left: Mark, right: Mark, t: float) -> tuple[float, float]:
    """(offset, error) at t on the line between two measurements.

    If the rate stays within WANDER of the line's slope, the offset leaves the line by at most WANDER times the
    time since `left`, and by at most WANDER times the time until `right`.
    """
    share = (t - left.shown) / (right.shown - left.shown)
    offset = (1 - share) * left.offset + share * right.offset
    error = (1 - share) * left.error + share * right.error
    return offset, error + WANDER * min(t - left.shown, right.shown - t)


def mean_rate(marks: list[Mark]) -> tuple[float, float]:
    """(offset gained per second, how far that may be off) from the first to the last measurement."""
    first, last = marks[0], marks[-1]
    span = last.shown - first.shown
    if span <= 0:
        return 0.0, MAX_DRIFT
    uncertainty = (first.error + last.error) / span + WANDER
    if uncertainty >= MAX_DRIFT:
        return 0.0, MAX_DRIFT
    return (last.offset - first.offset) / span, uncertainty


# Ping-pongs per rank and measurement: enough that some meet no other process in their way.
ROUNDS = 100


def measure(world: World, rounds: int = ROUNDS) -> Offsets | None:
    """**Collective.** Every clock's offset to the server's, on rank 0; None elsewhere.

    A rank's clock showed w between the server's s₀ and s₁: its offset is w − (s₀ + s₁)/2 ± (s₁ − s₀)/2, whatever
    the way there and back took. The ranks take turns, so that they do not disturb each other; who has not had the
    first ping yet sleeps.
    """
    if not world.is_server:
        answer(world, rounds)
        return None
    offset, error, at = np.zeros(world.size), np.zeros(world.size), np.full(world.size, world.now())
    for rank in range(world.size):
        if rank != SERVER:
            offset[rank], error[rank], at[rank] = ask(world, rank, rounds)
    return Offsets(offset, error, at)


def ask(world: World, rank: int, rounds: int) -> tuple[float, float, float]:
    """(offset, error, when on the server's clock) of the ping-pong with the smallest round trip."""
    ping, shown = np.zeros(1), np.empty(1)
    best = (0.0, float("inf"), 0.0)
    for _ in range(rounds):
        pong = world.comm.Irecv(shown, rank, Tag.CLOCK)
        sent = world.now()
        request = world.comm.Isend(ping, rank, Tag.CLOCK)
        world.wait_for(pong, flowing=True)
        heard = world.now()
        world.wait_for(request)
        middle = (sent + heard) / 2
        if heard - middle < best[1]:
            best = float(shown[0]) - middle, heard - middle, middle
    return best


def answer(world: World, rounds: int) -> None:
    """The other end of `ask`."""
    ping, shown = np.empty(1), np.empty(1)
    for k in range(rounds):
        # The first ping may be long in coming: others have their turn before.
        world.wait_for(world.comm.Irecv(ping, SERVER, Tag.CLOCK), flowing=k > 0)
        shown[0] = world.now()
        world.wait_for(world.comm.Isend(shown, SERVER, Tag.CLOCK), flowing=True)
