"""Broadcast and sum over all ranks, by plain messages along a binomial tree, piece by piece.

MPI has nonblocking collectives for this. Open MPI's (5.0) broadcast as fast as this, but sum several times slower. They
may move more bytes than they are handed, which a ledger of bytes cannot count. When a rank is lost during one,
messages in flight may still be written to memory that it has freed. Plain messages go to buffers of ours, which the
caller keeps. A piece is passed on while the next one arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER, Tag

if TYPE_CHECKING:
    from fedmpi.comm.world import World

# Large enough that a message's overhead does not count, small enough to stay in a core's cache while it is added.
PIECE_BYTES = 2**20


def broadcast(world: World, array: Any) -> None:
    """**Collective.** Fill `array`, of numpy or torch, on every rank with the server's."""
    sent = pass_on(world, array)
    world.wait(lambda: MPI.Request.Testall(sent), flowing=True)


def pass_on(world: World, array: Any) -> list[MPI.Request]:
    """**Collective.** The same, but what this rank sends to others may still be on its way: until these requests are
    complete, `array` must stay as it is."""
    parent, children = family(world.rank, world.size)
    parts = list(pieces(array))
    coming = [] if world.rank == SERVER else [world.comm.Irecv(part, parent, Tag.TREE) for part in parts]
    sent: list[MPI.Request] = []
    for k, part in enumerate(parts):
        if coming:
            world.wait_for(coming[k], flowing=True)
        sent += [world.comm.Isend(part, child, Tag.TREE) for child in reversed(children)]
    return sent


class TreeSum:
    """Sums of (d,) int64 over all ranks, with room for two pieces per child."""

    def __init__(self, world: World, d: int) -> None:
        self.world = world
        self.parent, self.children = family(world.rank, world.size)
        length = min(d, PIECE_BYTES // 8)
        self.room = np.empty((2, len(self.children), length), np.int64)

    def add_up(self, total: NDArray[np.int64]) -> None:
        """**Collective.** Make the server's `total` the sum of all ranks'; on other ranks its content is lost."""
        parts = list(pieces(total))
        sent: list[MPI.Request] = []
        coming = [self._expect(0, len(parts[0]))] if parts else []
        for k, part in enumerate(parts):
            if k + 1 < len(parts):
                coming.append(self._expect(k + 1, len(parts[k + 1])))
            for request, content in coming[k]:
                self.world.wait_for(request, flowing=True)
                part += content
            if self.world.rank != SERVER:
                sent.append(self.world.comm.Isend(part, self.parent, Tag.TREE))
        self.world.wait(lambda: MPI.Request.Testall(sent), flowing=True)

    def _expect(self, k: int, length: int) -> list[tuple[MPI.Request, NDArray[np.int64]]]:
        """Piece k of every child, the nearest first: it has the least to wait for itself."""
        rooms = [self.room[k % 2, number, :length] for number in range(len(self.children))]
        return [
            (self.world.comm.Irecv(room, child, Tag.TREE), room)
            for room, child in zip(rooms, self.children, strict=True)
        ]


def pieces(array: Any) -> Iterator[Any]:
    """An array's parts in order, as views."""
    length = max(1, PIECE_BYTES // array.itemsize)
    return (array[start : start + length] for start in range(0, len(array), length))


def family(rank: int, size: int) -> tuple[int, list[int]]:
    """Parent and children of a rank in a binomial tree; the root is its own parent.

    >>> [family(rank, 6) for rank in range(6)]
    [(0, [1, 2, 4]), (0, []), (0, [3]), (2, []), (0, [5]), (4, [])]
    """
    lowest = rank & -rank or size
    steps = [1 << k for k in range(size.bit_length()) if 1 << k < lowest]
    return rank & (rank - 1) if rank else 0, [rank + step for step in steps if rank + step < size]
