"""Random streams keyed by (seed, purpose, round, client): never shared, never advanced by anyone else.

A stream depends on its key alone, so S_t, a client's batches and a client's text are the same on whichever
rank they are drawn and in whatever order: this is half of what makes θ one θ (the other half is `server.py`).
"""

from __future__ import annotations

from numpy.random import Generator, Philox

# The numbers are part of every recorded result: append, never renumber.
PURPOSES = {"init": 1, "sampling": 2, "batches": 3, "data": 4, "dropout": 5, "rounding": 6, "network": 7}


def stream(seed: int, purpose: str, t: int = 0, client: int = 0) -> Generator:
    """The generator of one purpose (a name in PURPOSES) in round t for one client.

    Philox is counter-based: (seed, purpose) is its key and (t, client) the upper half of its 256-bit counter,
    so two streams of different keys cannot meet before 2¹²⁸ blocks have been drawn from one of them.
    """
    return Generator(Philox(key=[seed, PURPOSES[purpose]], counter=[0, 0, t, client]))


def torch_seed(seed: int, purpose: str, t: int = 0, client: int = 0) -> int:
    """A seed for a torch generator, from the same key."""
    return int(stream(seed, purpose, t, client).integers(2**63))
