"""The server's end of a round: tell, send θ, collect."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Host
from fedmpi.comm.orders import Kind, Order
from fedmpi.comm.per_client import PerClientInbox
from fedmpi.comm.reduced import ReducedInbox
from fedmpi.comm.round import REPORT, ROW, Add, Arrival, Inbox, Report, Round, new_vector
from fedmpi.comm.world import SERVER, Rest, Tag, World
from fedmpi.sampling import Cohort
from fedmpi.server import ExactSum


class ServerLink:
    """Where the server meets the workers. If rank 0 hosts clients too, `host` trains them while updates come in."""

    def __init__(
        self,
        world: World,
        home: NDArray[np.int32],
        workers: Sequence[int],
        d: int,
        exchange: str,
        host: Host | None,
    ) -> None:
        self.world, self.home, self.host = world, home, host
        self.remote = [rank for rank in workers if rank != SERVER]
        self.inbox: Inbox = (
            PerClientInbox(world, d, len(self.remote)) if exchange == "per-client" else ReducedInbox(world)
        )
        self.delta = new_vector(d)
        self.sent: list[MPI.Request] = []

    def call(self, t: int, exponent: int, cohort: Cohort) -> None:
        """Tell every worker which of its clients are in S_t (control)."""
        self.round = Round(t)
        self.weights = dict(zip(cohort.clients.tolist(), cohort.omega.tolist(), strict=True))
        self.shares = split_by_home(self.home[cohort.clients])
        nobody = np.empty(0, np.int64)
        self.mine = cohort.clients[self.shares.get(SERVER, nobody)]
        for rank in self.remote:
            share = self.shares.get(rank, nobody)
            self._order(rank, Order(Kind.TRAIN, t, exponent, cohort.clients[share], cohort.omega[share]))

    def send_theta(self, theta: NDArray[np.float32]) -> None:
        """Send θᵗ to every worker (down)."""
        began = self.world.now()
        self._broadcast(theta)
        self.round.down.append((began, self.world.now()))
        self.round.down_bytes += theta.nbytes * len(self.remote)

    def collect(self, total: ExactSum) -> Round:
        """This round, once every update is in `total`: other ranks' as they arrive, our own as we train them."""
        seen = self.round
        began = seen.down[0][0]

        def add(arrival: Arrival, delta: NDArray[np.float32]) -> None:
            start = self.world.now()
            omega = self.weights[arrival.client]
            if total.admits(omega, arrival.norm):
                total.add(omega, delta)
            seen.arrivals.append(arrival)
            seen.aggregate.append((start, self.world.now()))

        reports = [self._expect_report(rank) for rank in self.remote]
        requests = [request for request, _, _ in reports]
        self.inbox.begin(len(self.weights) - len(self.mine))
        mine = deque(self.mine.tolist())
        rest = Rest()
        while mine or self.inbox.due or not MPI.Request.Testall(requests):
            moved = self.inbox.poll(add)
            if mine:
                self._train_own(mine.popleft(), add)
            elif moved:
                rest.again()
            else:
                self.world.raise_failures()
                rest.flowing = self.inbox.flowing
                rest()
        seen.reports = [read_report(rank, report) for _, rank, report in reports]
        seen.control_bytes += sum(report.nbytes for _, _, report in reports)
        # θ is down when the last worker holds it.
        seen.down = [(began, max([seen.down[0][1], *(report.held for report in seen.reports)]))]
        self.inbox.finish(total, seen)
        return seen

    def evaluate(self, theta: NDArray[np.float32]) -> NDArray[np.float64]:
        """(loss, accuracy) of every client at θ: (n, 2), each computed at its home."""
        results = np.empty((len(self.home), 2))
        pending = []
        for rank in self.remote:
            places = np.flatnonzero(self.home == rank)
            rows = np.empty((len(places), 2))
            pending.append((self.world.comm.Irecv(rows, rank, Tag.EVALUATION), places, rows))
            self._order(rank, Order(Kind.EVALUATE))
        self._broadcast(theta)
        if self.host:
            own = np.flatnonzero(self.home == SERVER)
            results[own] = self.host.evaluate(own.tolist())
        for request, places, rows in pending:
            self.world.wait_for(request)
            results[places] = rows
        return results

    def stop(self) -> None:
        """Send every worker home."""
        for rank in self.remote:
            self._order(rank, Order(Kind.STOP))
        self._settle()

    def _order(self, rank: int, order: Order) -> None:
        message = order.encode()
        self.sent.append(self.world.comm.Isend(message, rank, Tag.ORDER))
        if order.kind == Kind.TRAIN:
            self.round.control_bytes += message.nbytes

    def _settle(self) -> None:
        self.world.wait(lambda: MPI.Request.Testall(self.sent), flowing=True)
        self.sent = []

    def _broadcast(self, theta: NDArray[np.float32]) -> None:
        if self.remote:
            self.world.wait_for(self.world.comm.Ibcast(theta, root=SERVER), flowing=True)
        self._settle()
        if self.host:
            self.host.receive(theta)

    def _expect_report(self, rank: int) -> tuple[MPI.Request, int, NDArray[np.float64]]:
        rows = len(self.shares.get(rank, ())) if self.inbox.rows_in_reports else 0
        report = np.empty(REPORT + ROW * rows)
        return self.world.comm.Irecv(report, rank, Tag.REPORT), rank, report

    def _train_own(self, client: int, add: Add) -> None:
        assert self.host is not None
        training = self.host.train(client, self.round.t, self.delta, lambda: self.inbox.poll(add))
        now = self.world.now()
        add(Arrival(client, SERVER, training.loss, training.norm, training.seconds, now, now), self.delta)


def split_by_home(ranks: NDArray[np.int32]) -> dict[int, NDArray[np.int64]]:
    """The places of each rank in `ranks`, in ascending order."""
    order = np.argsort(ranks, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(ranks[order])) + 1)
    return {int(ranks[piece[0]]): piece for piece in pieces if len(piece)}


def read_report(rank: int, report: NDArray[np.float64]) -> Report:
    held, compute, idle, send, done = (float(value) for value in report[:REPORT])
    return Report(rank, held, compute, idle, send, done, report[REPORT:].reshape(-1, ROW))
