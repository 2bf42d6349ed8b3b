"""Broadcast and sum over all ranks: MPI's own collectives, or a tree of plain messages where ranks may be lost.

When a rank dies in the middle of Open MPI's Ibcast or Ireduce, the survivors get an error, but messages that are on
their way may still be written to memory that MPI has given back (seen as crashes with 5.0). Plain messages go to
buffers of ours, which the caller keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.vigil import fault_tolerant

if TYPE_CHECKING:
    from fedmpi.comm.world import World


def broadcast(world: World, array: NDArray[Any]) -> None:
    """**Collective.** Fill `array` on every rank with the server's."""
    if not fault_tolerant():
        world.wait_for(world.comm.Ibcast(array, root=SERVER), flowing=True)
        return
    parent, children = family(world.rank, world.size)
    if world.rank != SERVER:
        world.wait_for(world.comm.Irecv(array, parent, Tag.TREE), flowing=True)
    sent = [world.comm.Isend(array, child, Tag.TREE) for child in reversed(children)]
    world.wait(lambda: MPI.Request.Testall(sent), flowing=True)


def add_up(world: World, total: NDArray[np.int64], scratch: NDArray[np.int64]) -> None:
    """**Collective.** Make the server's `total` the sum of all ranks'; elsewhere it is spent. scratch: as large."""
    if not fault_tolerant():
        send, receive = (MPI.IN_PLACE, total) if world.rank == SERVER else (total, None)
        world.wait_for(world.comm.Ireduce(send, receive, op=MPI.SUM, root=SERVER), flowing=True)
        return
    parent, children = family(world.rank, world.size)
    for child in children:
        world.wait_for(world.comm.Irecv(scratch, child, Tag.TREE), flowing=True)
        total += scratch
    if world.rank != SERVER:
        world.wait_for(world.comm.Isend(total, parent, Tag.TREE), flowing=True)


def family(rank: int, size: int) -> tuple[int, list[int]]:
    """Parent and children of a rank in a binomial tree; the root is its own parent.

    >>> [family(rank, 6) for rank in range(6)]
    [(0, [1, 2, 4]), (0, []), (0, [3]), (2, []), (0, [5]), (4, [])]
    """
    lowest = rank & -rank or size
    steps = [1 << k for k in range(size.bit_length()) if 1 << k < lowest]
    return rank & (rank - 1) if rank else 0, [rank + step for step in steps if rank + step < size]
