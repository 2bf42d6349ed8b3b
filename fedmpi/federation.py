"""The round loop: Algorithm 1 of [FVKL], as the server runs it and as a worker takes part in it.

A round counts whole or not at all: until its last lines nothing of the federation has changed, so that one which a
signal or a lost rank breaks off can be done over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.client import Held, Host, as_tensor
from fedmpi.comm.messages import Kind
from fedmpi.comm.round import Round
from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.timeline import Doing
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.errors import Diverged
from fedmpi.job.round_log import Books, Evaluation, Ledger, Outcome, Timeline
from fedmpi.record.checkpoint import Checkpoint, State, write_checkpoint
from fedmpi.rng import stream
from fedmpi.sampling import Cohort, Scheme
from fedmpi.server import ExactSum, magnitude

NOBODY = np.empty(0, np.int64)


class Federation:
    """The server: θ, the round number, and whom it works with."""

    def __init__(
        self,
        config: Config,
        world: World,
        scheme: Scheme,
        theta: NDArray[np.float32],
        link: ServerLink,
        books: Books,
        on_round: Callable[[Outcome], None] = lambda outcome: None,
        number: int = 0,
    ) -> None:
        """number: which of the job's runs this is."""
        self.config, self.world, self.scheme, self.number = config, world, scheme, number
        self.theta, self.next_theta, self.t = theta, np.empty_like(theta), 0
        self.total = ExactSum(len(theta))
        self.updates: dict[int, NDArray[np.float32]] = {}
        self.link, self.books, self.on_round = link, books, on_round
        # For a checkpoint: what the scheme remembered before the draw of round t, and what compression has left out.
        self.remembered: tuple[int, State] = (-1, {})
        self.left: State = {}
        self.to_give_back: State = {}

    def begin(self) -> None:
        """Evaluate and keep θ⁰, as asked."""
        if self.t == 0 and self.config.eval.every:
            self.books.write_evaluation(self.evaluate(self.theta))
        self.keep_theta()

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on where a checkpoint was written."""
        self.theta[:], self.t = checkpoint.theta, checkpoint.t
        self.scheme.restore(checkpoint.scheme)
        self.to_give_back = checkpoint.left

    def round(self, t: int) -> None:
        """θᵗ⁺¹ = θᵗ + η_g Σ ω_i(S_t) Δ_i   [FVKL, Algorithm 1]"""
        with undone_if_broken(self.scheme):
            self._round(t)

    def _round(self, t: int) -> None:
        self.compare_clocks()
        self.exchange_left()
        if self.checkpoint_is_due():
            self.remembered = t, memory_of(self.scheme)
        line = Timeline(self.world.now, self.world.now())
        self.link.begin(t, self.number, self.config.run.seed)
        rng = stream(self.config.run.seed, "sampling", t)
        asked, answers = self.probe(rng) if self.scheme.probe else (NOBODY, {})
        with line.during("sample"):
            self.scheme.begin_round(t)
            cohort = self.scheme.draw(rng, **answers)

        self.total.begin(magnitude(self.theta))
        self.link.call(self.total.exponent, cohort)
        if not answers:
            self.link.send_theta(self.theta)
        with line.during("record"):  # the previous round, while the clients train for this one
            self.settle()
        seen = self.link.collect(self.total, self.keep_update if self.scheme.observes else None)

        with line.during("aggregate"):
            rejected = self.reject(cohort, seen)
            update_norm = self.total.apply(self.theta, self.config.server.eta_g, out=self.next_theta)
        with line.during("evaluate"):
            evaluation = self.evaluate(self.next_theta, t + 1) if self.evaluation_is_due(t + 1) else None

        self.theta, self.next_theta, self.t = self.next_theta, self.theta, t + 1
        self.show_updates(cohort)
        self.keep_theta()

        sizes, scheme = (self.theta.nbytes, self.link.encoder.nbytes), self.scheme
        ledger = Ledger(*sizes, asked, len(cohort), scheme.scalars_per_client, scheme.probe == "norm")
        outcome = Outcome(t, cohort, seen, update_norm, rejected, ledger, evaluation, line, self.world.now())
        self.books.enter(outcome)
        if not math.isfinite(update_norm) or not np.isfinite(self.theta).all():
            raise Diverged(f"θ is not finite after round {t}: lower client.eta_l or server.eta_g")

    def probe(self, rng: Generator) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """The clients that are asked before the draw, and what the draw is to know of them at θᵗ."""
        asked = self.scheme.candidates(rng)
        if self.scheme.probe == "loss":
            return asked, {"candidates": asked, "losses": self.link.probe(Kind.PROBE_LOSS, asked, self.theta)}
        norms = np.zeros(self.scheme.n)
        norms[asked] = self.scheme.p[asked] * self.link.probe(Kind.PROBE_NORM, asked, self.theta)
        if self.config.server.on_nonfinite == "skip":
            norms[~np.isfinite(norms)] = 0.0
        return asked, {"norms": norms}

    def settle(self) -> None:
        """Write down the rounds that are done, tell of them, and checkpoint when that is due."""
        for outcome in self.books.write():
            self.on_round(outcome)
        if self.checkpoint_is_due():
            t, scheme = self.remembered
            self.checkpoint(scheme if t == self.t else memory_of(self.scheme))

    def checkpoint_is_due(self) -> bool:
        every = self.config.run.checkpoint_every
        return every > 0 and self.t > 0 and self.t % every == 0

    def checkpoint(self, scheme: State) -> None:
        """Leave what is needed to go on from θᵗ; the rounds before it are recorded already. scheme: what the scheme
        remembers before it draws S_t."""
        self.books.record.sync()
        now = Checkpoint(self.config, self.t, self.theta, scheme, self.left)
        write_checkpoint(self.books.record.path, now)

    def remembers(self) -> bool:
        """Whether more than θ and t decides how the run goes on."""
        return bool(self.scheme.state()) or self.link.encoder.keeps_residuals

    def exchange_left(self, at_end: bool = False) -> None:
        """Where compression leaves something for later: give the clients what a checkpoint has kept of it, and have
        it here when the next checkpoint is due."""
        if not self.link.encoder.keeps_residuals:
            return
        if self.to_give_back:
            self.link.give_left(self.number, self.to_give_back)
            self.to_give_back = {}
        self.left = self.link.gather_left(self.number) if at_end or self.checkpoint_is_due() else {}

    def compare_clocks(self) -> None:
        """Measure the workers' clocks at first and every comm.sync_every rounds; one run of a job does it for all."""
        if not self.link.clocks.measured or (self.number == 0 and self.t % self.config.comm.sync_every == 0):
            self.link.compare_clocks()

    def keep_update(self, client: int, delta: NDArray[np.float32]) -> None:
        self.updates[client] = delta.copy()

    def show_updates(self, cohort: Cohort) -> None:
        """Let a scheme that learns from updates see this round's, in the clients' order."""
        if self.updates:
            self.scheme.observe(cohort.clients, np.stack([self.updates[i] for i in cohort.clients.tolist()]))
            self.updates.clear()

    def reject(self, cohort: Cohort, seen: Round) -> int:
        """How many updates were left out of the sum because they are not finite or far out of range."""
        omega = dict(zip(cohort.clients.tolist(), cohort.omega.tolist(), strict=True))
        bad = [a for a in seen.arrivals if not self.total.admits(omega[a.client], a.sent_norm)]
        if bad and self.config.server.on_nonfinite == "stop":
            raise Diverged(
                f"round {seen.t}: the update of client {bad[0].client} has norm {bad[0].norm:g}; lower client.eta_l, "
                'or set server.on_nonfinite = "skip" to leave such updates out'
            )
        if not self.total.holds(sum(omega[a.client] * a.sent_norm for a in seen.arrivals if a not in bad)):
            raise Diverged(f"round {seen.t}: the updates together are out of range; lower client.eta_l")
        return len(bad)

    def evaluate(self, theta: NDArray[np.float32], t: int = 0) -> Evaluation:
        return Evaluation(t, self.scheme.p, self.link.evaluate(theta))

    def evaluation_is_due(self, t: int) -> bool:
        every = self.config.eval.every
        return every > 0 and (t % every == 0 or t == self.config.run.T)

    def keep_theta(self) -> None:
        every = self.config.record.theta_every
        if every and self.t % every == 0:
            self.books.keep_theta(self.theta, self.t)


def memory_of(scheme: Scheme) -> State:
    """What a scheme remembers now, whatever it does next."""
    return {name: np.array(array) for name, array in scheme.state().items()}


@contextmanager
def undone_if_broken(scheme: Scheme) -> Iterator[None]:
    """Give a scheme whose draws change it back what it was, if what follows does not come to its end."""
    before = memory_of(scheme) if scheme.draws_change_state else None
    try:
        yield
    except BaseException:
        if before is not None:
            scheme.restore(before)
        raise


def work(host: Host, link: WorkerLink, mine: list[int]) -> None:
    """A worker's life: train the clients it is told to, from the θ it is sent, until it is told to stop."""
    held: Held = {}
    while (order := link.next_order()).kind != Kind.STOP:
        if order.theta_copies:
            host.receive(link.receive_theta(order), order.seed)
        if order.kind == Kind.EVALUATE:
            with link.spans.during(Doing.EVALUATE):
                found = host.evaluate(mine, link.progress)
            link.send_evaluation(found)
        elif order.kind == Kind.CLOCK:
            link.compare_clocks(order.t)
        elif order.kind == Kind.GIVE_LEFT:
            link.give_left(order)
        elif order.kind == Kind.TAKE_LEFT:
            link.take_left(order)
        elif order.kind == Kind.GIVE_SPANS:
            link.give_spans()
        elif order.kind == Kind.TRAIN:
            link.begin(order)
            for i, omega in link.clients(order):
                deliver(host, link, order.t, i, omega, held)
            held.clear()
            link.report()
        else:
            asked = (i for i, _ in link.clients(order))
            with link.spans.during(Doing.PROBE):
                found = host.probe(order.kind == Kind.PROBE_NORM, asked, order.t, held, link.progress)
            link.answer(found)
            link.compute += sum(training.seconds for training, _ in held.values())
    link.leave()


def deliver(host: Host, link: WorkerLink, t: int, i: int, omega: float, held: Held) -> None:
    """Train client i, or take the update held since a probe, and send it off."""
    delta = link.slot()
    if i in held:
        training, kept = held[i]
        as_tensor(delta).copy_(as_tensor(kept))
    else:
        training = host.train(i, t, delta, link.progress)
        link.trained(training)
    link.deliver(training, omega)
