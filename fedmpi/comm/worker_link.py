"""A worker's end of a round: hear, receive θ, deliver, report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm import clocks
from fedmpi.comm.dispatch import Ticket
from fedmpi.comm.exchanges.per_client import PerClientOutbox
from fedmpi.comm.exchanges.reduced import ReducedOutbox
from fedmpi.comm.messages import BROADCAST, Kind, Order
from fedmpi.comm.round import Outbox, new_vector
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.timeline import Doing, Spans
from fedmpi.comm.tree import broadcast
from fedmpi.comm.world import World
from fedmpi.config import CommSettings


class WorkerLink:
    """Where a worker meets the server. It does nothing between orders but sleep."""

    def __init__(
        self,
        world: World,
        d: int,
        settings: CommSettings,
        spans: Spans | None = None,
        device: torch.device | None = None,
    ) -> None:
        """device: where MPI takes messages from and puts θ, if that is not host memory."""
        self.world, self.spans = world, spans or Spans(world.now, wanted=False)
        self.outbox: Outbox = ReducedOutbox(world, d, settings)
        if settings.exchange == "per-client":
            self.outbox = PerClientOutbox(world, d, settings, device)
        self.theta: Vector = torch.zeros(d, device=device) if device else new_vector(d)
        self.ticket = Ticket(world)
        self.open = False
        self.sent: list[MPI.Request] = []
        # Whether the server has said STOP: whatever happens afterwards is no failure of the run.
        self.dismissed = False
        self.held = world.now()
        self.compute = self.idle = self.send = 0.0

    def next_order(self) -> Order:
        """The server's next order. Until it comes, this rank sleeps."""
        began = self.world.now()
        status = MPI.Status()
        message: list[MPI.Message] = []

        def heard() -> bool:
            found = self.world.comm.Improbe(SERVER, Tag.ORDER, status)
            if found is not None:
                message.append(found)
            return bool(message)

        self.world.wait(heard)
        content = np.empty(status.Get_count(MPI.INT64_T), np.int64)
        message[0].Recv(content)
        self._waited(began)
        order = Order.decode(content)
        self.dismissed = order.kind == Kind.STOP
        return order

    def receive_theta(self, order: Order) -> Vector:
        """θᵗ, as it was sent after the order: (d,) float32."""
        began = self.world.now()
        comm = self.world.comm
        if order.theta_copies == BROADCAST:
            broadcast(self.world, self.theta)
        for _ in range(order.theta_copies):
            self.world.wait_for(comm.Irecv(self.theta, SERVER, Tag.THETA), flowing=True)
        self.held = self._waited(began, Doing.RECEIVE)
        return self.theta

    def begin(self, order: Order) -> None:
        """Start delivering for a TRAIN order."""
        self.outbox.begin(order)

    def clients(self, order: Order) -> Iterator[tuple[int, float]]:
        """The clients that an order names, each with its ω (0 in a probe); then those that are granted on asking."""
        self.open = order.open
        omega = order.omega.tolist() or [0.0] * len(order.clients)
        yield from zip(order.clients.tolist(), omega, strict=True)
        while self.open:
            began = self.world.now()
            granted = self.ticket.granted()
            self._waited(began)
            self.open = granted is not None
            if granted:
                yield granted

    def slot(self) -> Vector:
        """Where the next Δ_i is to be written: (d,) float32."""
        began = self.world.now()
        slot = self.outbox.slot()
        left = self.world.now()
        self.send += left - began
        self.spans.add(Doing.SEND, began, left)
        return slot

    def progress(self) -> None:
        """To be called between SGD steps: lets MPI move what is on its way, and shows that this rank is alive."""
        self.outbox.progress()
        self.world.attend()

    def trained(self, training: Training) -> None:
        """Take note of a client's training, which has just ended."""
        self.compute += training.seconds
        now = self.world.now()
        self.spans.add(Doing.TRAIN, now - training.seconds, now, training.client)

    def deliver(self, training: Training, omega: float) -> None:
        """Send off the update that was written into the slot."""
        if self.open:
            self.ticket.ask()  # ahead of the update, not behind it
        with self.spans.during(Doing.SEND, training.client):
            self.outbox.deliver(training, omega)

    def answer(self, values: NDArray[np.float64]) -> None:
        """The numbers a probe asked for, in the order's order."""
        self._send(values, Tag.PROBE)

    def compare_clocks(self, rounds: int) -> None:
        """The worker's part of a measurement of its clock."""
        with self.spans.during(Doing.CLOCKS):
            clocks.answer(self.world, rounds)

    def report(self) -> None:
        """Close the round: tell the server when θ was here and where the time went."""
        head = np.array([self.held, self.compute, self.idle, self.send, self.world.now()])
        self._send(np.concatenate([head, self.outbox.rows().reshape(-1)]), Tag.REPORT)
        self.compute = self.idle = self.send = 0.0
        self.outbox.finish()

    def send_evaluation(self, rows: NDArray[np.float64]) -> None:
        """(loss, accuracy) of this rank's clients: (len, 2)."""
        self._send(rows, Tag.EVALUATION)
        self.idle = 0.0

    def give_left(self, order: Order) -> None:
        """Send what compression has left out of this rank's clients' updates: who they are, then one message each."""
        left = self.outbox.packing.left(order.run)
        clients = np.array(sorted(left), np.int64)
        for message in (clients, *(left[i] for i in clients.tolist())):
            self.world.wait_for(self.world.comm.Isend(message, SERVER, Tag.LEFT), flowing=True)

    def take_left(self, order: Order) -> None:
        """Have it back, of these clients."""
        left = self.outbox.packing.left(order.run)
        left.clear()
        for i in order.clients.tolist():
            left[i] = np.empty(len(self.theta), np.float32)
            self.world.wait_for(self.world.comm.Irecv(left[i], SERVER, Tag.LEFT), flowing=True)

    def give_spans(self) -> None:
        """Send what this rank has done when."""
        self._send(self.spans.take().reshape(-1), Tag.SPANS)

    def leave(self) -> None:
        """Complete what is still on its way before this rank goes."""
        self.world.wait(lambda: MPI.Request.Testall(self.sent), flowing=True)

    def _waited(self, began: float, doing: Doing = Doing.IDLE) -> float:
        """Now, with the time since `began` counted as idle."""
        now = self.world.now()
        self.idle += now - began
        self.spans.add(doing, began, now)
        return now

    def _send(self, message: NDArray[np.float64], tag: Tag) -> None:
        self.leave()
        self.sent = [self.world.comm.Isend(message, SERVER, tag)]
