"""One run of a job, on the server: a federation's rounds with their clocks, log, evaluations and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.timeline import Timeline
from fedmpi.comm.world import World
from fedmpi.errors import Diverged
from fedmpi.federation import Federation, Step
from fedmpi.job.outcome import Evaluation, Ledger, Outcome
from fedmpi.job.prepare import RunState
from fedmpi.record import remove_checkpoint
from fedmpi.record.checkpoint import Checkpoint, State, write_checkpoint
from fedmpi.record.schema import DONE
from fedmpi.sampling import Scheme


class ServerRun:
    """A federation and what surrounds its rounds. A round counts whole or not at all: one that a signal or a lost rank
    interrupts is repeated."""

    def __init__(
        self, state: RunState, number: int, link: ServerLink, world: World, on_round: Callable[[Outcome], None]
    ) -> None:
        """number: which of the job's runs this is."""
        self.config, self.log, self.number = state.config, state.log, number
        self.federation = Federation(state.config, state.scheme, state.theta, link)
        self.world, self.on_round = world, on_round
        # For a checkpoint at θᵗ: the scheme's state before the draw of S_t, and the clients' residuals.
        self.scheme_state: tuple[int, State] = (-1, {})
        self.residuals: State = {}
        self.residuals_to_scatter: State = {}
        if state.start:
            self._restore(state.start)

    @property
    def t(self) -> int:
        return self.federation.t

    @property
    def link(self) -> ServerLink:
        return self.federation.link

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.federation.theta[:], self.federation.t = checkpoint.theta, checkpoint.t
        self.federation.scheme.restore(checkpoint.scheme)
        self.residuals_to_scatter = checkpoint.residuals

    def evaluate_first(self) -> None:
        """Evaluate and keep θ⁰, as configured."""
        if self.t == 0 and self.config.eval.every:
            self.log.write_evaluation(self._evaluate(self.federation.theta, 0))
        self._keep_theta()

    def round(self, t: int) -> None:
        """Round t with everything around it: its time in phases, its evaluation, its rows in the log."""
        federation = self.federation
        with state_restored_on_error(federation.scheme):
            self._compare_clocks()
            self.exchange_residuals()
            if self._checkpoint_is_due():
                self.scheme_state = t, state_of(federation.scheme)
            timeline: Timeline[str] = Timeline(self.world.now)

            def write_previous_round() -> None:
                with timeline.during("record"):
                    self.write_rounds()

            self.link.open_round(t, self.number, self.config.run.seed)
            step = federation.round(t, timeline.during, meanwhile=write_previous_round)
            with timeline.during("evaluate"):
                due = self._evaluation_is_due(t + 1)
                evaluation = self._evaluate(step.theta, t + 1) if due else None
            federation.adopt(step)
            self._keep_theta()
            self._add_to_log(step, evaluation, timeline)
        if not math.isfinite(step.update_norm) or not np.isfinite(step.theta).all():
            raise Diverged(f"θ is not finite after round {t}: lower client.eta_l or server.eta_g")

    def _add_to_log(self, step: Step, evaluation: Evaluation | None, timeline: Timeline[str]) -> None:
        scheme, sizes = self.federation.scheme, (step.theta.nbytes, self.link.encoder.nbytes)
        ledger = Ledger(*sizes, step.probed, len(step.cohort), scheme.scalars_per_client, scheme.probe == "norm")
        numbers = step.update_norm, step.rejected, ledger, evaluation, timeline, self.world.now()
        self.log.add(Outcome(step.t, step.cohort, step.traffic, *numbers))

    def write_rounds(self) -> None:
        """Write the finished rounds to the record, call `on_round` for each, and checkpoint when that is due."""
        for outcome in self.log.write():
            self.on_round(outcome)
        if self._checkpoint_is_due():
            t, state = self.scheme_state
            self._checkpoint(state if t == self.t else state_of(self.federation.scheme))

    def _checkpoint_is_due(self) -> bool:
        every = self.config.run.checkpoint_every
        return every > 0 and self.t > 0 and self.t % every == 0

    def _checkpoint(self, scheme_state: State) -> None:
        """Write what is needed to continue from θᵗ; the rounds before it are in the record already."""
        self.log.record.sync()
        now = Checkpoint(self.config, self.t, self.federation.theta, scheme_state, self.residuals)
        write_checkpoint(self.log.record.path, now)

    def exchange_residuals(self, at_end: bool = False) -> None:
        """Where compression keeps residuals: send those of a checkpoint to the clients' ranks, and gather them when the
        next checkpoint is due."""
        if not self.link.encoder.keeps_residuals:
            return
        if self.residuals_to_scatter:
            self.link.scatter_residuals(self.number, self.residuals_to_scatter)
            self.residuals_to_scatter = {}
        due = at_end or self._checkpoint_is_due()
        self.residuals = self.link.gather_residuals(self.number) if due else {}

    def _compare_clocks(self) -> None:
        """Measure the workers' clocks at first and every comm.sync_every rounds; one run of a job does it for all."""
        if not self.link.clocks.measured or (self.number == 0 and self.t % self.config.comm.sync_every == 0):
            self.link.compare_clocks()

    def _evaluate(self, theta: NDArray[np.float32], t: int) -> Evaluation:
        return Evaluation(t, self.federation.scheme.p, self.link.evaluate(theta))

    def _evaluation_is_due(self, t: int) -> bool:
        every = self.config.eval.every
        return every > 0 and (t % every == 0 or t == self.config.run.T)

    def _keep_theta(self) -> None:
        every = self.config.record.theta_every
        if every and self.t % every == 0:
            self.log.keep_theta(self.federation.theta, self.t)

    def close(self, status: str, sentence: str) -> None:
        """Write the last rounds, θ and a checkpoint, and close the record."""
        record, theta = self.log.record, self.federation.theta
        if not record.broken:
            self.log.write()
            record.write_theta(theta, self.t)
            keeps_residuals = self.link.encoder.keeps_residuals
            if status == DONE and not (self.federation.scheme.state() or keeps_residuals):
                remove_checkpoint(record.path)  # the record's θ is all that is needed to continue
            elif np.isfinite(theta).all() and (status == DONE or not keeps_residuals):
                self._checkpoint(state_of(self.federation.scheme))
        record.close(status, sentence)


def state_of(scheme: Scheme) -> State:
    """A copy of a scheme's state."""
    return {name: np.array(array) for name, array in scheme.state().items()}


@contextmanager
def state_restored_on_error(scheme: Scheme) -> Iterator[None]:
    """Restore the state of a scheme whose draws change it, if the block raises."""
    before = state_of(scheme) if scheme.draws_change_state else None
    try:
        yield
    except BaseException:
        if before is not None:
            scheme.restore(before)
        raise
