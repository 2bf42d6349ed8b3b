"""The server's end of a round: probe, call, send θ, collect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Held, Host
from fedmpi.comm import clocks
from fedmpi.comm.clocks import ClockMap, Offsets
from fedmpi.comm.dispatch import Dispatch, Shares
from fedmpi.comm.exchanges.per_client import PerClientInbox
from fedmpi.comm.exchanges.reduced import ReducedInbox
from fedmpi.comm.messages import BROADCAST, Kind, Order
from fedmpi.comm.round import REPORT, ROW, Add, Arrival, Inbox, Report, Round, new_vector
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.timeline import SPAN
from fedmpi.comm.tree import pass_on
from fedmpi.comm.world import Rest, World
from fedmpi.compression.upload import Packing
from fedmpi.config import CommSettings
from fedmpi.sampling import Cohort
from fedmpi.server import ExactSum

NOBODY = np.empty(0, np.int64)
# θ of up to so many bytes goes down while the server does something else.
SMALL_THETA = 4 * 2**20
Watch = Callable[[int, NDArray[np.float32]], None]
OnSpans = Callable[[int, NDArray[np.float64]], None]
Number = TypeVar("Number", np.float64, np.int64)


class ServerLink:
    """Where the server meets the workers. If rank 0 hosts clients too, `host` trains them while updates come in."""

    def __init__(
        self,
        world: World,
        home: NDArray[np.int32],
        workers: Sequence[int],
        d: int,
        settings: CommSettings,
        host: Host | None,
        on_spans: OnSpans | None = None,
    ) -> None:
        """on_spans: told what each worker has done, whenever clocks are compared."""
        self.on_spans = on_spans
        self.world, self.home, self.host, self.settings = world, home, host, settings
        self.remote = [rank for rank in workers if rank != SERVER]
        self.packing, self.clocks = Packing(settings, d), ClockMap(world.size)
        self.inbox: Inbox = ReducedInbox(world, d, self.clocks)
        if settings.exchange == "per-client":
            self.inbox = PerClientInbox(world, d, len(self.remote), self.packing, self.clocks)
        self.dispatch = Dispatch(world, home, workers, settings.placement == "dynamic")
        self.delta = new_vector(d)
        self.held: Held = {}
        self.holders = np.full(len(home), SERVER, np.int32)
        self.holding = False
        self.sent: list[MPI.Request] = []
        self.run = self.seed = 0

    def compare_clocks(self, rounds: int = clocks.ROUNDS) -> Offsets:
        """What every rank's clock shows more than ours, now; from here on their times are read by it."""
        offset, error, at = np.zeros((3, self.world.size))
        for rank in self.remote:
            self._order(rank, Order(Kind.CLOCK, t=rounds, theta_copies=0))
            offset[rank], error[rank], at[rank] = clocks.ask(self.world, rank, rounds)
        self._settle()
        self.clocks.add(Offsets(offset, error, at))
        if self.on_spans:
            for rank in self.remote:
                self.on_spans(self.world.origin[rank], self._spans(rank))
        return Offsets(offset, error, at)

    def _spans(self, rank: int) -> NDArray[np.float64]:
        """What a worker has done since it was last asked, on our clock: (k, SPAN)."""
        self._order(rank, Order(Kind.GIVE_SPANS, theta_copies=0))
        spans = self._hear(rank, Tag.SPANS, np.empty(0)).reshape(-1, SPAN)
        spans[:, 2:] = [[self.clocks.to_server(rank, t) for t in pair] for pair in spans[:, 2:].tolist()] or 0
        return spans

    def begin(self, t: int, run: int, seed: int) -> None:
        """Start round t of one of the job's runs."""
        self.round, self.run, self.seed = Round(t), run, seed
        self.held.clear()
        self.holding = False

    def probe(self, kind: Kind, clients: NDArray[np.int64], theta: NDArray[np.float32]) -> NDArray[np.float64]:
        """One number from each of these clients, before anyone is drawn: ‖Δ_i‖ after training, or L_i(θᵗ).

        Updates are held where they were computed, until `call` asks for some and drops the rest.
        """
        dispatch, norms = self.dispatch, kind == Kind.PROBE_NORM
        shares = dispatch.call(clients, np.zeros(len(clients)), None)
        values = np.empty(len(clients))
        pending = []
        for rank in self.remote:
            share = shares.get(rank, NOBODY)
            answer = np.empty(len(clients) if dispatch.is_open(rank) else len(share))
            pending.append((self.world.comm.Irecv(answer, rank, Tag.PROBE), rank, answer))
            copies, is_open = self._copies(len(share)), dispatch.is_open(rank)
            key = self.run, self.seed, self.round.t
            self._order(rank, Order(kind, *key, 0, copies, clients[share], open=is_open))
        self._send_theta(theta, shares)
        if SERVER in shares and self.host:

            def meanwhile() -> None:
                dispatch.serve()
                self.world.attend()

            found = self.host.probe(norms, dispatch.own(), self.round.t, self.held, meanwhile)
            values[dispatch.places(SERVER)] = found
        for request, rank, answer in pending:
            self.world.wait(partial(self._serve_until, request))
            places = dispatch.places(rank)
            values[places] = answer[: len(places)]
            self.round.up_bytes += 8 * len(places)
            self.holders[clients[places]] = rank
        self.holders[clients[dispatch.places(SERVER)]] = SERVER
        self.holding = norms
        self.round.control_bytes += dispatch.bytes
        return values

    def _serve_until(self, request: MPI.Request) -> bool:
        self.dispatch.serve()
        return request.Test()

    def call(self, exponent: int, cohort: Cohort) -> None:
        """Tell every worker which of its clients are in S_t (control). θᵗ is to follow, unless a probe brought it."""
        self.weights = dict(zip(cohort.clients.tolist(), cohort.omega.tolist(), strict=True))
        held = self.holders[cohort.clients] if self.holding else None
        self.shares = self.dispatch.call(cohort.clients, cohort.omega, held)
        for rank in self.remote:
            share = self.shares.get(rank, NOBODY)
            clients, omega = cohort.clients[share], cohort.omega[share]
            copies = 0 if self.round.down else self._copies(len(share))
            key = self.run, self.seed, self.round.t
            is_open = self.dispatch.is_open(rank)
            self._order(rank, Order(Kind.TRAIN, *key, exponent, copies, clients, omega, is_open))

    def send_theta(self, theta: NDArray[np.float32]) -> None:
        """Send θᵗ to the workers that were called (down)."""
        self._send_theta(theta, self.shares)

    def _send_theta(self, theta: NDArray[np.float32], shares: Shares) -> None:
        """By one broadcast, or by the messages that `_copies` announced; `down` begins here."""
        began = self.world.now()
        if self.settings.down == "bcast":
            self._broadcast(theta)
            copies = len(self.remote)
        else:
            ranks = [rank for rank in self.remote for _ in range(self._copies(len(shares.get(rank, NOBODY))))]
            self.sent += [self.world.comm.Isend(theta, rank, Tag.THETA) for rank in ranks]
            self._sent_theta(theta)
            copies = len(ranks)
        self.round.down.append((began, self.world.now()))
        self.round.down_bytes += theta.nbytes * copies

    def _copies(self, clients: int) -> int:
        """How many copies of θ a worker with so many called clients is sent."""
        return {"bcast": BROADCAST, "p2p": min(clients, 1), "p2p-per-client": clients}[self.settings.down]

    def collect(self, total: ExactSum, watch: Watch | None = None) -> Round:
        """This round, once every update is in `total`: other ranks' as they arrive, our own as we train them.

        `watch` is shown every update that comes as a message of its own, or that we trained.
        """
        seen = self.round

        def add(client: int, sent_norm: float, delta: NDArray[np.float32]) -> None:
            start = self.world.now()
            omega = self.weights[client]
            if total.admits(omega, sent_norm):
                total.add(omega, delta, sent_norm)
            if watch:
                watch(client, delta)
            seen.aggregate.append((start, self.world.now()))

        reports = [self._expect_report(rank) for rank in self.remote]
        requests = [*(request for request, _, _ in reports), *self.sent]
        self.inbox.begin(len(self.weights))
        for client in self.dispatch.own():
            self._train_own(client, add)
        self.inbox.excuse(len(self.dispatch.places(SERVER)))
        rest = Rest(crowded=self.world.crowded)
        while self.inbox.due or not MPI.Request.Testall(requests):
            if self._move(add):
                rest.again()
            else:
                self.world.attend()
                rest.flowing = self.inbox.flowing
                rest()
        self.sent = []
        seen.reports = [read_report(rank, self._filled(rank, report), self.clocks) for _, rank, report in reports]
        now = self.world.now()
        seen.clock_error = max((self.clocks.error(rank, now) for rank in self.remote), default=0.0)
        seen.control_bytes += sum(self._filled(rank, report).nbytes for _, rank, report in reports)
        seen.control_bytes += self.dispatch.bytes
        # θ is down when the last worker holds it.
        began, sent = seen.down[0]
        seen.down = [(began, max([sent, *(min(report.held, now) for report in seen.reports)]))]
        self.inbox.finish(total, seen)
        self.dispatch.learn(seen.arrivals)
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
            results[own] = self.host.evaluate(own.tolist(), self.world.attend)
        for request, places, rows in pending:
            self.world.wait_for(request)
            results[places] = rows
        self._settle()
        return results

    def gather_left(self, run: int) -> dict[str, NDArray[Any]]:
        """What compression has left out of the clients' updates: `clients` (c,) int64 and `left` (c, d) float32."""
        left = dict(self.packing.left(run))
        for rank in self.remote:
            self._order(rank, Order(Kind.GIVE_LEFT, run, theta_copies=0))
            clients = self._hear(rank, Tag.LEFT, np.empty(0, np.int64))
            for i in clients.tolist():
                left[i] = np.empty(len(self.delta), np.float32)
                self.world.wait_for(self.world.comm.Irecv(left[i], rank, Tag.LEFT), flowing=True)
        self._settle()
        rows = [left[i] for i in sorted(left)]
        return {
            "clients": np.array(sorted(left), np.int64),
            "left": np.stack(rows) if rows else np.empty((0, len(self.delta)), np.float32),
        }

    def give_left(self, run: int, state: dict[str, NDArray[Any]]) -> None:
        """Give back what `gather_left` returned, to the ranks that are the clients' homes now."""
        rows = dict(zip(state["clients"].tolist(), state["left"], strict=True))
        self.packing.left(run).update({i: row.copy() for i, row in rows.items() if self.home[i] == SERVER})
        for rank in self.remote:
            clients = np.array([i for i in rows if self.home[i] == rank], np.int64)
            self._order(rank, Order(Kind.TAKE_LEFT, run, theta_copies=0, clients=clients, omega=np.zeros(len(clients))))
            for i in clients.tolist():
                self.world.wait_for(self.world.comm.Isend(rows[i], rank, Tag.LEFT), flowing=True)
        self._settle()

    def _hear(self, rank: int, tag: Tag, like: NDArray[Number]) -> NDArray[Number]:
        """A message of unknown length, of numbers `like` these."""
        status = MPI.Status()
        self.world.wait(lambda: self.world.comm.Iprobe(rank, tag, status))
        message = np.empty(status.Get_count(MPI.BYTE) // like.itemsize, like.dtype)
        self.world.comm.Recv(message, rank, tag)
        return message

    def stop(self) -> None:
        """Send every worker home."""
        for rank in self.remote:
            self._order(rank, Order(Kind.STOP))
        self._settle()

    def _order(self, rank: int, order: Order) -> None:
        message = order.encode()
        self.sent.append(self.world.comm.Isend(message, rank, Tag.ORDER))
        if order.kind in (Kind.TRAIN, Kind.PROBE_NORM, Kind.PROBE_LOSS):
            self.round.control_bytes += message.nbytes

    def _settle(self) -> None:
        self.world.wait(lambda: MPI.Request.Testall(self.sent), flowing=True)
        self.sent = []

    def _broadcast(self, theta: NDArray[np.float32]) -> None:
        if self.remote:
            self.sent += pass_on(self.world, theta)
        self._sent_theta(theta)

    def _sent_theta(self, theta: NDArray[np.float32]) -> None:
        """Go on while a small θ is on its way; a large one needs us to move it, and so do workers while we train."""
        if self.host or theta.nbytes > SMALL_THETA:
            self._settle()
        if self.host:
            self.host.receive(theta, self.seed)

    def _expect_report(self, rank: int) -> tuple[MPI.Request, int, NDArray[np.float64]]:
        # One that asks for more may train any number of the called clients.
        rows = len(self.weights) if self.dispatch.is_open(rank) else len(self.shares.get(rank, NOBODY))
        report = np.empty(REPORT + ROW * (rows if self.inbox.rows_in_reports else 0))
        return self.world.comm.Irecv(report, rank, Tag.REPORT), rank, report

    def _filled(self, rank: int, report: NDArray[np.float64]) -> NDArray[np.float64]:
        """As much of a report as has come."""
        return report[: REPORT + ROW * len(self.dispatch.places(rank))]

    def _move(self, add: Add) -> bool:
        """Take in what has come and give out what is asked for; returns whether there was anything."""
        served = self.dispatch.serve()
        return self.inbox.poll(add) or served

    def _train_own(self, client: int, add: Add) -> None:
        assert self.host is not None
        if client in self.held:
            training, delta = self.held[client]
        else:
            delta = self.delta

            def meanwhile() -> None:
                self._move(add)
                self.world.attend()

            training = self.host.train(client, self.round.t, delta, meanwhile)
        sent_norm = self.packing.pack(delta, training.norm, (self.run, self.seed, self.round.t, client))
        now = self.world.now()
        numbers = training.loss, training.norm, sent_norm, training.seconds
        self.round.arrivals.append(Arrival(client, SERVER, *numbers, now, now))
        add(client, sent_norm, delta)


def read_report(rank: int, report: NDArray[np.float64], clock_map: ClockMap) -> Report:
    held, compute, idle, send, done = (float(value) for value in report[:REPORT])
    held, done = clock_map.to_server(rank, held), clock_map.to_server(rank, done)
    return Report(rank, held, compute, idle, send, done, report[REPORT:].reshape(-1, ROW))
