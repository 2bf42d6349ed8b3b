"""Which rank trains which of the drawn clients: their home (`static`), or whichever is free (`dynamic`).

Dynamic: every rank starts with one client. One that has trained its client requests another before it sends the update,
and is assigned the next of the queue until there is none. Clients that took longest when they were last trained come
first, so that no long one is left for the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.comm.messages import ASSIGNMENT, NO_CLIENT
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.world import World

# The positions, in S_t or among the probed clients, of those that each rank trains.
Shares = dict[int, NDArray[np.int64]]


class Dispatch:
    """The server's part."""

    def __init__(self, world: World, home: NDArray[np.int32], workers: Sequence[int], dynamic: bool) -> None:
        self.world, self.home, self.workers, self.dynamic = world, home, workers, dynamic
        # Seconds that each client's training took last time. One that is not known may be long, and comes first.
        self.seconds = np.full(len(home) if dynamic else 0, np.inf)
        self.clients, self.omega = np.empty(0, np.int64), np.empty(0)
        self.queue: deque[int] = deque()
        self.assigned: dict[int, list[int]] = {}
        self.requesting: set[int] = set()
        self.sent: list[MPI.Request] = []
        self.nbytes = 0  # of the assignments since `assign`
        self.status = MPI.Status()

    def assign(
        self, clients: NDArray[np.int64], omega: NDArray[np.float64], holder: NDArray[np.int32] | None
    ) -> Shares:
        """The share that each rank starts with. holder: the ranks that have these clients' updates already, if any."""
        self.clients, self.omega, self.nbytes = clients, omega, 0
        self.queue.clear()
        if holder is not None or not self.dynamic:
            shares = split_by_rank(self.home[clients] if holder is None else holder)
        else:
            longest_first = np.argsort(-self.seconds[clients], kind="stable")
            shares = {rank: longest_first[k : k + 1] for k, rank in enumerate(self.workers[: len(longest_first)])}
            self.queue.extend(longest_first[len(shares) :].tolist())
        self.assigned = {rank: share.tolist() for rank, share in shares.items()}
        self.requesting = set(shares) - {SERVER} if self.queue else set()
        return shares

    def may_request(self, rank: int) -> bool:
        """Whether a rank requests another client when it has trained what it starts with."""
        return rank in self.requesting

    def positions(self, rank: int) -> list[int]:
        """The positions of all clients that a rank was assigned, in its order."""
        return self.assigned.get(rank, [])

    def serve(self) -> bool:
        """Answer the ranks that have requested a client; whether there was any."""
        served = False
        while self.requesting and self.world.comm.Iprobe(MPI.ANY_SOURCE, Tag.REQUEST, self.status):
            rank = self.status.source
            self.world.comm.Recv(np.empty(0), rank, Tag.REQUEST)
            position = self._next(rank)
            answer = np.array([(NO_CLIENT, 0.0)], ASSIGNMENT)
            if position is None:
                self.requesting.discard(rank)
            else:
                answer[0] = self.clients[position], self.omega[position]
            self.sent.append(self.world.comm.Isend(answer.view(np.int64), rank, Tag.ASSIGNMENT))
            self.nbytes += answer.nbytes
            served = True
        if served:
            self.sent = [request for request in self.sent if not request.Test()]
        return served

    def own_clients(self) -> Iterator[int]:
        """The clients that the server trains itself, as long as there are any for it."""
        yield from self.clients[self.positions(SERVER)].tolist()
        while SERVER in self.assigned and (position := self._next(SERVER)) is not None:
            yield int(self.clients[position])

    def learn(self, arrivals: NDArray[np.void]) -> None:
        """Remember how long the clients of a round have trained."""
        if self.dynamic:
            self.seconds[arrivals["client"]] = arrivals["compute_time"]

    def _next(self, rank: int) -> int | None:
        if not self.queue:
            return None
        self.assigned[rank].append(self.queue.popleft())
        return self.assigned[rank][-1]


class WorkRequest:
    """A worker's part: one request at a time for one more client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.assignment = np.empty(1, ASSIGNMENT)
        self.empty = np.empty(0)
        self.under_way: list[MPI.Request] = []

    def send(self) -> None:
        """Request another client, unless that is done already."""
        if not self.under_way:
            answer = self.world.comm.Irecv(self.assignment.view(np.int64), SERVER, Tag.ASSIGNMENT)
            self.under_way = [answer, self.world.comm.Isend(self.empty, SERVER, Tag.REQUEST)]

    def receive(self) -> tuple[int, float] | None:
        """The next client and its ω, or None if there is no more; waits for the answer."""
        self.send()
        self.world.wait(lambda: MPI.Request.Testall(self.under_way), flowing=True)
        self.under_way = []
        client, omega = self.assignment[0].item()
        return None if client == NO_CLIENT else (client, omega)


def split_by_rank(ranks: NDArray[np.int32]) -> Shares:
    """The positions of each rank in `ranks`, in ascending order."""
    order = np.argsort(ranks, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(ranks[order])) + 1)
    return {int(ranks[piece[0]]): piece for piece in pieces if len(piece)}
