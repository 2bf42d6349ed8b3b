"""The server's end of a round: probe, call, send θ, collect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import LocalClients, PendingUpdates
from fedmpi.comm import clocks
from fedmpi.comm.clocks import ClockMap, Offsets
from fedmpi.comm.dispatch import Dispatch, Shares
from fedmpi.comm.exchanges import EXCHANGES
from fedmpi.comm.exchanges.protocols import Add
from fedmpi.comm.messages import BROADCAST, REPORT, UPDATE_INFO, Action, Command
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.timeline import SPAN
from fedmpi.comm.traffic import ArrivalRow, RoundTraffic, arrival, new_vector, read_report, update_info
from fedmpi.comm.tree import pass_on
from fedmpi.comm.world import Backoff, World
from fedmpi.compression.upload import UploadEncoder
from fedmpi.config import CommSettings
from fedmpi.sampling import Cohort
from fedmpi.server import ExactSum

NOBODY = np.empty(0, np.int64)
# θ of up to so many bytes goes down while the server does something else.
SMALL_THETA = 4 * 2**20
# Called with each update that reaches the server by itself: (client, Δ_i).
OnUpdate = Callable[[int, NDArray[np.float32]], None]
# Called with a worker's timeline: (rank, SPAN).
OnTimeline = Callable[[int, NDArray[np.void]], None]
Number = TypeVar("Number", np.float64, np.int64)


class ServerLink:
    """The server's connection to the workers. If rank 0 trains clients too, `own` does so while updates arrive."""

    def __init__(
        self,
        world: World,
        home: NDArray[np.int32],
        workers: Sequence[int],
        d: int,
        settings: CommSettings,
        own: LocalClients | None,
        on_timeline: OnTimeline | None = None,
    ) -> None:
        """on_timeline: called with what each worker has done, whenever clocks are compared."""
        self.world, self.home, self.own, self.settings = world, home, own, settings
        self.on_timeline = on_timeline
        self.remote = [rank for rank in workers if rank != SERVER]
        self.encoder, self.clocks = UploadEncoder(settings, d), ClockMap(world.size)
        self.inbox = EXCHANGES[settings.exchange].inbox(world, d, len(self.remote), self.encoder, self.clocks)
        self.dispatch = Dispatch(world, home, workers, settings.placement == "dynamic")
        self.delta = new_vector(d)
        self.sent: list[MPI.Request] = []
        # After a probe that trained clients: the rank that has each one's update, and the server's own updates.
        self.probed = False
        self.holder = np.full(len(home), SERVER, np.int32)
        self.pending: PendingUpdates = {}
        self.run = self.seed = 0

    def open_round(self, t: int, run: int, seed: int) -> None:
        """Start round t of one of the job's runs."""
        self.traffic, self.run, self.seed = RoundTraffic(t), run, seed
        self.own_arrivals: list[ArrivalRow] = []
        self.pending.clear()
        self.probed = False

    def probe_norms(self, clients: NDArray[np.int64], theta: NDArray[np.float32]) -> NDArray[np.float64]:
        """‖Δ_i‖ of these clients after training from θᵗ, before anyone is drawn: (len,).

        Each update stays on the rank that computed it, until `call` asks for some and drops the others.
        """
        norms = self._probe(Action.PROBE_NORM, clients, theta)
        self.probed = True
        return norms

    def probe_losses(self, clients: NDArray[np.int64], theta: NDArray[np.float32]) -> NDArray[np.float64]:
        """L_i(θᵗ) of these clients, before anyone is drawn: (len,)."""
        return self._probe(Action.PROBE_LOSS, clients, theta)

    def _probe(self, action: Action, clients: NDArray[np.int64], theta: NDArray[np.float32]) -> NDArray[np.float64]:
        dispatch = self.dispatch
        shares = dispatch.assign(clients, np.zeros(len(clients)), None)
        values = np.empty(len(clients))
        requests = []
        for rank in self.remote:
            share, more = shares.get(rank, NOBODY), dispatch.may_request(rank)
            answer = np.empty(len(clients) if more else len(share))
            requests.append((self.world.comm.Irecv(answer, rank, Tag.PROBE), rank, answer))
            self._command(rank, self._round_command(action, clients[share], self._copies(len(share)), more=more))
        self._send_theta(theta, shares)
        if SERVER in shares and self.own:
            values[dispatch.positions(SERVER)] = self._probe_own(action)
        for request, rank, answer in requests:
            self.world.wait(partial(self._serve_until, request))
            positions = dispatch.positions(rank)
            values[positions] = answer[: len(positions)]
            self.traffic.up_bytes += 8 * len(positions)
            self.holder[clients[positions]] = rank
        self.holder[clients[dispatch.positions(SERVER)]] = SERVER
        self.traffic.control_bytes += dispatch.nbytes
        return values

    def _probe_own(self, action: Action) -> NDArray[np.float64]:
        assert self.own is not None

        def meanwhile() -> None:
            self.dispatch.serve()
            self.world.check()

        clients = self.dispatch.own_clients()
        if action == Action.PROBE_LOSS:
            return self.own.probe_losses(clients, meanwhile)
        return self.own.probe_norms(clients, self.traffic.t, self.pending, meanwhile)

    def _serve_until(self, request: MPI.Request) -> bool:
        self.dispatch.serve()
        return request.Test()

    def call(self, cohort: Cohort, exponent: int) -> None:
        """Tell every worker which of its clients are in S_t (control). θᵗ follows, unless a probe has brought it."""
        self.omega = dict(zip(cohort.clients.tolist(), cohort.omega.tolist(), strict=True))
        holder = self.holder[cohort.clients] if self.probed else None
        self.shares = self.dispatch.assign(cohort.clients, cohort.omega, holder)
        for rank in self.remote:
            share = self.shares.get(rank, NOBODY)
            copies = 0 if self.traffic.down else self._copies(len(share))
            who = cohort.clients[share], copies, cohort.omega[share]
            self._command(rank, self._round_command(Action.TRAIN, *who, exponent, self.dispatch.may_request(rank)))

    def send_theta(self, theta: NDArray[np.float32]) -> None:
        """Send θᵗ to the workers that were called (down)."""
        self._send_theta(theta, self.shares)

    def _send_theta(self, theta: NDArray[np.float32], shares: Shares) -> None:
        """By one broadcast, or by the messages that `_copies` announced; `down` begins here."""
        start = self.world.now()
        if self.settings.down == "bcast":
            self._broadcast(theta)
            copies = len(self.remote)
        else:
            ranks = [rank for rank in self.remote for _ in range(self._copies(len(shares.get(rank, NOBODY))))]
            self.sent += [self.world.comm.Isend(theta, rank, Tag.THETA) for rank in ranks]
            self._after_sending(theta)
            copies = len(ranks)
        self.traffic.down.append((start, self.world.now()))
        self.traffic.down_bytes += theta.nbytes * copies

    def _copies(self, clients: int) -> int:
        """How many copies of θ a worker with so many called clients is sent."""
        return {"bcast": BROADCAST, "p2p": min(clients, 1), "p2p-per-client": clients}[self.settings.down]

    def collect(self, total: ExactSum, on_update: OnUpdate | None = None) -> RoundTraffic:
        """This round's traffic, once every update is in `total`: other ranks' as they arrive, our own as we train."""
        traffic = self.traffic

        def add(client: int, sent_norm: float, delta: NDArray[np.float32]) -> None:
            start = self.world.now()
            omega = self.omega[client]
            if total.admits(omega, sent_norm):
                total.add(omega, delta, sent_norm)
            if on_update:
                on_update(client, delta)
            traffic.aggregate.append((start, self.world.now()))

        reports = [self._expect_report(rank) for rank in self.remote]
        requests = [*(request for request, _, _ in reports), *self.sent]
        self.inbox.open(len(self.omega))
        for client in self.dispatch.own_clients():
            self._train_own(client, add)
        self.inbox.expect_fewer(len(self.dispatch.positions(SERVER)))
        self._poll_until_complete(requests, add)
        self.sent = []
        self._close_round(reports)
        traffic.set_arrivals(self.inbox.finish(total, traffic) + self.own_arrivals)
        self.dispatch.learn(traffic.arrivals)
        return traffic

    def _poll_until_complete(self, requests: list[MPI.Request], add: Add) -> None:
        """Take in updates and serve requests, until all updates and these requests are complete."""
        backoff = Backoff(crowded=self.world.crowded)
        while self.inbox.pending or not MPI.Request.Testall(requests):
            if self._poll(add):
                backoff.reset()
            else:
                self.world.check()
                backoff.flowing = self.inbox.flowing
                backoff()

    def _close_round(self, reports: list[tuple[MPI.Request, int, NDArray[np.float64]]]) -> None:
        """Read the workers' reports, and complete the times and bytes that follow from them."""
        traffic, now = self.traffic, self.world.now()
        received = [(rank, self._received_part(rank, message)) for _, rank, message in reports]
        traffic.reports = [read_report(message, rank, self.clocks) for rank, message in received]
        traffic.clock_error = max((self.clocks.error(rank, now) for rank in self.remote), default=0.0)
        traffic.control_bytes += sum(message.nbytes for _, message in received) + self.dispatch.nbytes
        # θ is down when the last worker has it.
        start, sent = traffic.down[0]
        traffic.down = [(start, max([sent, *(min(report.theta_received_at, now) for report in traffic.reports)]))]

    def evaluate(self, theta: NDArray[np.float32]) -> NDArray[np.float64]:
        """(loss, accuracy) of every client at θ: (n, 2), each computed at its home."""
        results = np.empty((len(self.home), 2))
        requests = []
        for rank in self.remote:
            clients = np.flatnonzero(self.home == rank)
            rows = np.empty((len(clients), 2))
            requests.append((self.world.comm.Irecv(rows, rank, Tag.EVALUATION), clients, rows))
            self._command(rank, Command(Action.EVALUATE))
        self._broadcast(theta)
        if self.own:
            own = np.flatnonzero(self.home == SERVER)
            results[own] = self.own.evaluate(own.tolist(), self.world.check)
        for request, clients, rows in requests:
            self.world.wait_for(request)
            results[clients] = rows
        self._complete_sends()
        return results

    def compare_clocks(self, rounds: int = clocks.ROUNDS) -> Offsets:
        """How far every rank's clock is ahead of ours now; from here on their times are mapped by it."""
        offset, error, at = np.zeros((3, self.world.size))
        for rank in self.remote:
            self._command(rank, Command(Action.COMPARE_CLOCKS, t=rounds, theta_copies=0))
            offset[rank], error[rank], at[rank] = clocks.ask(self.world, rank, rounds)
        self._complete_sends()
        self.clocks.add(Offsets(offset, error, at))
        if self.on_timeline:
            for rank in self.remote:
                self.on_timeline(self.world.original_ranks[rank], self._timeline(rank))
        return Offsets(offset, error, at)

    def _timeline(self, rank: int) -> NDArray[np.void]:
        """What a worker has done since it was last asked, on our clock: SPAN."""
        self._command(rank, Command(Action.SEND_TIMELINE, theta_copies=0))
        spans = self._receive(rank, Tag.TIMELINE, np.float64).view(SPAN)
        for name in ("start", "end"):
            spans[name] = [self.clocks.to_server(rank, t) for t in spans[name].tolist()]
        return spans

    def gather_residuals(self, run: int) -> dict[str, NDArray[Any]]:
        """What compression has left out of the clients' updates: `clients` (c,) int64 and `left` (c, d) float32."""
        residuals = dict(self.encoder.residuals(run))
        for rank in self.remote:
            self._command(rank, Command(Action.SEND_RESIDUALS, run, theta_copies=0))
            clients = self._receive(rank, Tag.RESIDUAL, np.int64)
            for i in clients.tolist():
                residuals[i] = np.empty(len(self.delta), np.float32)
                self.world.wait_for(self.world.comm.Irecv(residuals[i], rank, Tag.RESIDUAL), flowing=True)
        self._complete_sends()
        rows = [residuals[i] for i in sorted(residuals)]
        return {
            "clients": np.array(sorted(residuals), np.int64),
            "left": np.stack(rows) if rows else np.empty((0, len(self.delta)), np.float32),
        }

    def scatter_residuals(self, run: int, state: dict[str, NDArray[Any]]) -> None:
        """Send what `gather_residuals` returned to the ranks that are the clients' homes now."""
        rows = dict(zip(state["clients"].tolist(), state["left"], strict=True))
        self.encoder.residuals(run).update({i: row.copy() for i, row in rows.items() if self.home[i] == SERVER})
        for rank in self.remote:
            clients = np.array([i for i in rows if self.home[i] == rank], np.int64)
            self._command(rank, Command(Action.RECEIVE_RESIDUALS, run, theta_copies=0, clients=clients))
            for i in clients.tolist():
                self.world.wait_for(self.world.comm.Isend(rows[i], rank, Tag.RESIDUAL), flowing=True)
        self._complete_sends()

    def stop(self) -> None:
        """Tell every worker to stop."""
        for rank in self.remote:
            self._command(rank, Command(Action.STOP))
        self._complete_sends()

    def _round_command(
        self,
        action: Action,
        clients: NDArray[np.int64],
        copies: int,
        omega: NDArray[np.float64] | None = None,
        exponent: int = 0,
        more: bool = False,
    ) -> Command:
        key = self.run, self.seed, self.traffic.t
        return Command(action, *key, exponent, copies, clients, np.empty(0) if omega is None else omega, more)

    def _command(self, rank: int, command: Command) -> None:
        message = command.encode()
        self.sent.append(self.world.comm.Isend(message, rank, Tag.COMMAND))
        if command.action in (Action.TRAIN, Action.PROBE_NORM, Action.PROBE_LOSS):
            self.traffic.control_bytes += message.nbytes

    def _receive(self, rank: int, tag: Tag, dtype: type[Number]) -> NDArray[Number]:
        """A message of unknown length."""
        status = MPI.Status()
        self.world.wait(lambda: self.world.comm.Iprobe(rank, tag, status))
        message = np.empty(status.Get_count(MPI.BYTE) // np.dtype(dtype).itemsize, dtype)
        self.world.comm.Recv(message, rank, tag)
        return message

    def _complete_sends(self) -> None:
        self.world.wait(lambda: MPI.Request.Testall(self.sent), flowing=True)
        self.sent = []

    def _broadcast(self, theta: NDArray[np.float32]) -> None:
        if self.remote:
            self.sent += pass_on(self.world, theta)
        self._after_sending(theta)

    def _after_sending(self, theta: NDArray[np.float32]) -> None:
        """Go on while a small θ is in flight. A large one needs us to move it, and so do workers while we train."""
        if self.own or theta.nbytes > SMALL_THETA:
            self._complete_sends()
        if self.own:
            self.own.receive(theta, self.seed)

    def _expect_report(self, rank: int) -> tuple[MPI.Request, int, NDArray[np.float64]]:
        # One that requests more may train any number of the called clients.
        updates = len(self.omega) if self.dispatch.may_request(rank) else len(self.shares.get(rank, NOBODY))
        message = np.empty(self._report_bytes(updates) // 8)
        return self.world.comm.Irecv(message, rank, Tag.REPORT), rank, message

    def _received_part(self, rank: int, message: NDArray[np.float64]) -> NDArray[np.float64]:
        """As much of a report as was sent."""
        return message[: self._report_bytes(len(self.dispatch.positions(rank))) // 8]

    def _report_bytes(self, updates: int) -> int:
        return REPORT.itemsize + (UPDATE_INFO.itemsize * updates if self.inbox.infos_in_reports else 0)

    def _poll(self, add: Add) -> bool:
        """Take in what has arrived and answer requests; whether there was anything."""
        served = self.dispatch.serve()
        return self.inbox.poll(add) or served

    def _train_own(self, client: int, add: Add) -> None:
        assert self.own is not None
        if client in self.pending:
            training, delta = self.pending[client]
        else:
            delta = self.delta

            def meanwhile() -> None:
                self._poll(add)
                self.world.check()

            training = self.own.train(client, self.traffic.t, delta, meanwhile)
        key = self.run, self.seed, self.traffic.t, client
        sent_norm = self.encoder.encode(delta, training.delta_norm, key)
        now = self.world.now()
        self.own_arrivals.append(arrival(update_info(training, sent_norm, now), SERVER, self.clocks, now))
        add(client, sent_norm, delta)
