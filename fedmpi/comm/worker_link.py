"""A worker's end of a round: receive commands and θ, deliver updates, report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from mpi4py import MPI
from numpy.typing import NDArray

from fedmpi.client import Training, Vector
from fedmpi.comm import clocks
from fedmpi.comm.dispatch import WorkRequest
from fedmpi.comm.exchanges import EXCHANGES
from fedmpi.comm.messages import BROADCAST, Action, Command
from fedmpi.comm.tags import SERVER, Tag
from fedmpi.comm.timeline import Activity, Timeline
from fedmpi.comm.traffic import new_vector
from fedmpi.comm.tree import broadcast
from fedmpi.comm.world import World
from fedmpi.config import CommSettings


class WorkerLink:
    """A worker's connection to the server. Between commands the worker sleeps."""

    def __init__(
        self,
        world: World,
        d: int,
        settings: CommSettings,
        timeline: Timeline[Activity] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """device: where MPI takes updates from and puts θ, if that is not host memory."""
        self.world = world
        self.timeline: Timeline[Activity] = timeline or Timeline(world.now, enabled=False)
        self.outbox = EXCHANGES[settings.exchange].outbox(world, d, settings, device)
        self.theta: Vector = torch.zeros(d, device=device) if device else new_vector(d)
        self.request = WorkRequest(world)
        self.more = False
        self.sent: list[MPI.Request] = []
        # Whether the server has said STOP: an error after that is no failure of the run.
        self.dismissed = False
        self.theta_received_at = world.now()
        self.compute = self.idle = self.send = 0.0

    def next_command(self) -> Command:
        """The server's next command. Until it arrives, this rank sleeps."""
        start = self.world.now()
        status = MPI.Status()
        message: list[MPI.Message] = []

        def arrived() -> bool:
            found = self.world.comm.Improbe(SERVER, Tag.COMMAND, status)
            if found is not None:
                message.append(found)
            return bool(message)

        self.world.wait(arrived)
        content = np.empty(status.Get_count(MPI.INT64_T), np.int64)
        message[0].Recv(content)
        self._add_idle(start)
        command = Command.decode(content)
        self.dismissed = command.action == Action.STOP
        return command

    def receive_theta(self, command: Command) -> Vector:
        """θᵗ, as it was sent after the command: (d,) float32."""
        start = self.world.now()
        comm = self.world.comm
        if command.theta_copies == BROADCAST:
            broadcast(self.world, self.theta)
        for _ in range(command.theta_copies):
            self.world.wait_for(comm.Irecv(self.theta, SERVER, Tag.THETA), flowing=True)
        self.theta_received_at = self._add_idle(start, Activity.RECEIVE)
        return self.theta

    def open_round(self, command: Command) -> None:
        """Start to deliver updates for a TRAIN command."""
        self.outbox.open(command)

    def clients(self, command: Command) -> Iterator[tuple[int, float]]:
        """The clients of a command, each with its ω (0 in a probe); then those that are assigned on request."""
        self.more = command.more
        omega = command.omega.tolist() or [0.0] * len(command.clients)
        yield from zip(command.clients.tolist(), omega, strict=True)
        while self.more:
            start = self.world.now()
            assigned = self.request.receive()
            self._add_idle(start)
            self.more = assigned is not None
            if assigned:
                yield assigned

    def slot(self) -> Vector:
        """Where the next Δ_i is to be written: (d,) float32."""
        start = self.world.now()
        slot = self.outbox.slot()
        end = self.world.now()
        self.send += end - start
        self.timeline.add(Activity.SEND, start, end)
        return slot

    def progress(self) -> None:
        """Let MPI move what is in flight, and send heartbeats. To be called between SGD steps."""
        self.outbox.progress()
        self.world.check()

    def add_training(self, training: Training) -> None:
        """Count the time of a client's training, which has just ended."""
        self.compute += training.compute_time
        now = self.world.now()
        self.timeline.add(Activity.TRAIN, now - training.compute_time, now, training.client)

    def deliver(self, training: Training, omega: float) -> None:
        """Send the update that was written into the slot."""
        if self.more:
            self.request.send()  # ahead of the update, not behind it
        with self.timeline.during(Activity.SEND, training.client):
            self.outbox.deliver(training, omega)

    def answer_probe(self, values: NDArray[np.float64]) -> None:
        """Send the numbers that a probe asked for, in the command's order."""
        self._send(values, Tag.PROBE)

    def report(self) -> None:
        """Close the round: send REPORT, and UPDATE_INFO of each update where the exchange wants it there."""
        numbers = self.theta_received_at, self.compute, self.idle, self.send, self.world.now()
        self._send(np.concatenate([np.array(numbers), self.outbox.infos().view(np.float64)]), Tag.REPORT)
        self.compute = self.idle = self.send = 0.0
        self.outbox.finish()

    def send_evaluation(self, rows: NDArray[np.float64]) -> None:
        """Send (loss, accuracy) of this rank's clients: (len, 2)."""
        self._send(rows, Tag.EVALUATION)
        self.idle = 0.0

    def compare_clocks(self, rounds: int) -> None:
        """Take this rank's part in measuring its clock."""
        with self.timeline.during(Activity.CLOCKS):
            clocks.answer(self.world, rounds)

    def send_residuals(self, command: Command) -> None:
        """Send what compression has left out of this rank's clients' updates: which clients, then one message each."""
        residuals = self.outbox.encoder.residuals(command.run)
        clients = np.array(sorted(residuals), np.int64)
        for message in (clients, *(residuals[i] for i in clients.tolist())):
            self.world.wait_for(self.world.comm.Isend(message, SERVER, Tag.RESIDUAL), flowing=True)

    def receive_residuals(self, command: Command) -> None:
        """Receive it back, of these clients."""
        residuals = self.outbox.encoder.residuals(command.run)
        residuals.clear()
        for i in command.clients.tolist():
            residuals[i] = np.empty(len(self.theta), np.float32)
            self.world.wait_for(self.world.comm.Irecv(residuals[i], SERVER, Tag.RESIDUAL), flowing=True)

    def send_timeline(self) -> None:
        """Send what this rank has done when."""
        self._send(self.timeline.take().view(np.float64), Tag.TIMELINE)

    def complete_sends(self) -> None:
        """Wait until everything that this rank has sent is on its way."""
        self.world.wait(lambda: MPI.Request.Testall(self.sent), flowing=True)

    def _add_idle(self, start: float, activity: Activity = Activity.IDLE) -> float:
        """Now, with the time since `start` counted as idle."""
        now = self.world.now()
        self.idle += now - start
        self.timeline.add(activity, start, now)
        return now

    def _send(self, message: NDArray[np.float64], tag: Tag) -> None:
        self.complete_sends()
        self.sent = [self.world.comm.Isend(message, SERVER, tag)]
