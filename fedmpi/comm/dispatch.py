"""Who trains which of the called clients: the rank that is their home (`static`), or whoever is free (`dynamic`).

Dynamic: every rank starts with one client. One that has trained its client asks for another before it sends the update
off, and is granted the next of the queue until there is none. Those that took longest when they were last trained come
first, so that no long one is left for the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm.round import Arrival
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.world import World

# The places, among the called clients, of those that a rank is to train.
Shares = dict[int, NDArray[np.int64]]
NO_CLIENT = -1


class Dispatch:
    """The server's hand in it."""

    def __init__(self, world: World, home: NDArray[np.int32], workers: Sequence[int], dynamic: bool) -> None:
        self.world, self.home, self.workers, self.dynamic = world, home, workers, dynamic
        # What each client's training took when it was last seen. One that is not known may be long, and comes first.
        self.seconds = np.full(len(home) if dynamic else 0, np.inf)
        self.clients, self.omega = np.empty(0, np.int64), np.empty(0)
        self.waiting: deque[int] = deque()
        self.taken: dict[int, list[int]] = {}
        self.asking: set[int] = set()
        self.sent: list[MPI.Request] = []
        self.bytes = 0  # granted since the call
        self.status = MPI.Status()

    def call(self, clients: NDArray[np.int64], omega: NDArray[np.float64], held: NDArray[np.int32] | None) -> Shares:
        """What each rank starts with. held: the ranks that have these clients' updates already, if any do."""
        self.clients, self.omega, self.bytes = clients, omega, 0
        self.waiting.clear()
        if held is not None or not self.dynamic:
            shares = split_by_rank(self.home[clients] if held is None else held)
        else:
            places = np.argsort(-self.seconds[clients], kind="stable")
            shares = {rank: places[k : k + 1] for k, rank in enumerate(self.workers[: len(places)])}
            self.waiting.extend(places[len(shares) :].tolist())
        self.taken = {rank: share.tolist() for rank, share in shares.items()}
        self.asking = set(shares) - {SERVER} if self.waiting else set()
        return shares

    def is_open(self, rank: int) -> bool:
        """Whether a rank is to ask for more when it has trained what it starts with."""
        return rank in self.asking

    def places(self, rank: int) -> list[int]:
        """The places of all clients that a rank has trained, in its order."""
        return self.taken.get(rank, [])

    def serve(self) -> bool:
        """Answer the ranks that have asked for a client; returns whether any had."""
        served = False
        while self.asking and self.world.comm.Iprobe(MPI.ANY_SOURCE, Tag.ASK, self.status):
            rank = self.status.source
            self.world.comm.Recv(np.empty(0), rank, Tag.ASK)
            place = self._next(rank)
            grant = np.array([NO_CLIENT, 0], np.int64)
            if place is None:
                self.asking.discard(rank)
            else:
                grant[0], grant[1:] = self.clients[place], self.omega[place : place + 1].view(np.int64)
            self.sent.append(self.world.comm.Isend(grant, rank, Tag.GRANT))
            self.bytes += grant.nbytes
            served = True
        if served:
            self.sent = [request for request in self.sent if not request.Test()]
        return served

    def own(self) -> Iterator[int]:
        """The clients that the server trains itself, as long as there are any for it."""
        yield from self.clients[self.places(SERVER)].tolist()
        while SERVER in self.taken and (place := self._next(SERVER)) is not None:
            yield int(self.clients[place])

    def learn(self, arrivals: Sequence[Arrival]) -> None:
        """Take note of how long the clients of a round have trained."""
        if self.dynamic:
            self.seconds[[arrival.client for arrival in arrivals]] = [arrival.compute_time for arrival in arrivals]

    def _next(self, rank: int) -> int | None:
        if not self.waiting:
            return None
        self.taken[rank].append(self.waiting.popleft())
        return self.taken[rank][-1]


class Ticket:
    """A worker's end: one question at a time for one more client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.grant = np.empty(2, np.int64)
        self.question = np.empty(0)
        self.asked: list[MPI.Request] = []

    def ask(self) -> None:
        """Ask for another client, unless that is done already."""
        if not self.asked:
            answer = self.world.comm.Irecv(self.grant, SERVER, Tag.GRANT)
            self.asked = [answer, self.world.comm.Isend(self.question, SERVER, Tag.ASK)]

    def granted(self) -> tuple[int, float] | None:
        """The next client and its ω, or None if there is no more; waits for the answer."""
        self.ask()
        self.world.wait(lambda: MPI.Request.Testall(self.asked), flowing=True)
        self.asked = []
        client = int(self.grant[0])
        return None if client == NO_CLIENT else (client, float(self.grant[1:].view(np.float64)[0]))


def split_by_rank(ranks: NDArray[np.int32]) -> Shares:
    """The places of each rank in `ranks`, in ascending order."""
    order = np.argsort(ranks, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(ranks[order])) + 1)
    return {int(ranks[piece[0]]): piece for piece in pieces if len(piece)}
