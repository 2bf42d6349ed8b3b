"""A worker: train the clients that it is told to, from the θ that it is sent, until it is told to stop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import LocalClients, PendingUpdates, as_tensor
from fedmpi.comm.exchanges import device_of_messages
from fedmpi.comm.messages import Action, Command
from fedmpi.comm.timeline import Activity, Timeline
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.job.prepare import Components


def worker_main(world: World, config: Config, components: Components, timeline: Timeline[Activity]) -> None:
    """Be a worker until the server says STOP; after the loss of a rank, with a new communicator and new homes."""
    dataset = components.dataset(config)
    clients = components.clients(config, dataset)
    # All of both are kept: when ranks are lost, MPI may still write to the buffers of the old ones.
    homes: list[NDArray[np.int32]] = []
    links: list[WorkerLink] = []
    while True:
        try:
            homes.append(np.empty(len(dataset.n_samples), np.int32))
            world.broadcast(homes[-1])
            device = device_of_messages(clients.theta.device, config.comm)
            links.append(WorkerLink(world, len(clients.theta), config.comm, timeline, device))
            return worker_loop(clients, links[-1], np.flatnonzero(homes[-1] == world.rank).tolist())
        except BaseException as error:
            if links and links[-1].dismissed:
                return
            if config.run.on_rank_failure != "continue" or not world.detector.is_rank_loss(error):
                raise
        world.shrink()


def worker_loop(clients: LocalClients, link: WorkerLink, at_home: list[int]) -> None:
    """Carry out the server's commands. at_home: the clients that are evaluated here."""
    pending: PendingUpdates = {}
    while (command := link.next_command()).action != Action.STOP:
        if command.theta_copies:
            clients.receive(link.receive_theta(command), command.seed)
        match command.action:
            case Action.TRAIN:
                train(clients, link, command, pending)
            case Action.EVALUATE:
                with link.timeline.during(Activity.EVALUATE):
                    results = clients.evaluate(at_home, link.progress)
                link.send_evaluation(results)
            case Action.PROBE_NORM | Action.PROBE_LOSS:
                probe(clients, link, command, pending)
            case Action.COMPARE_CLOCKS:
                link.compare_clocks(command.t)
            case Action.SEND_RESIDUALS:
                link.send_residuals(command)
            case Action.RECEIVE_RESIDUALS:
                link.receive_residuals(command)
            case Action.SEND_TIMELINE:
                link.send_timeline()
    link.complete_sends()


def train(clients: LocalClients, link: WorkerLink, command: Command, pending: PendingUpdates) -> None:
    """Train the clients of a command, or take their updates kept since a probe, and send each when it is ready."""
    link.open_round(command)
    for i, omega in link.clients(command):
        delta = link.slot()
        if i in pending:
            training, kept = pending[i]
            as_tensor(delta).copy_(as_tensor(kept))
        else:
            training = clients.train(i, command.t, delta, link.progress)
            link.add_training(training)
        link.deliver(training, omega)
    pending.clear()
    link.report()


def probe(clients: LocalClients, link: WorkerLink, command: Command, pending: PendingUpdates) -> None:
    """Answer a probe; updates that it computes are kept in `pending` for the TRAIN command that follows."""
    asked = (i for i, _ in link.clients(command))
    with link.timeline.during(Activity.PROBE):
        if command.action == Action.PROBE_NORM:
            values = clients.probe_norms(asked, command.t, pending, link.progress)
        else:
            values = clients.probe_losses(asked, link.progress)
    link.answer_probe(values)
    link.compute += sum(training.compute_time for training, _ in pending.values())
