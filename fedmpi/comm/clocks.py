"""How every rank's clock is compared with the server's: ping-pong, of which the smallest round trip counts."""

from __future__ import annotations

import numpy as np

from fedmpi.comm.clock_map import Offsets
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.world import World

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
