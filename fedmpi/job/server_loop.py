"""The server's side of a job: all rounds of all its runs, and every record closed whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.world import World
from fedmpi.errors import FedmpiError, Stopped, describe
from fedmpi.job.devices import Allocation
from fedmpi.job.outcome import Outcome
from fedmpi.job.prepare import Components, PreparedJob
from fedmpi.job.profile import Profile
from fedmpi.job.recovery import Recovery
from fedmpi.job.server_run import ServerRun
from fedmpi.record.schema import DONE, FAILED, STOPPED


class ServerLoop:
    """The runs of a job, whose rounds take turns, over one link to the workers."""

    def __init__(
        self,
        job: PreparedJob,
        allocation: Allocation,
        world: World,
        on_round: Callable[[Outcome], None],
        components: Components,
        profile: Profile | None = None,
    ) -> None:
        self.job, self.allocation, self.world, self.components = job, allocation, world, components
        self.on_round, self.profile = on_round, profile
        self.config, self.home = job.runs[0].config, job.home
        self.runs: list[ServerRun] = []
        self.recovery = Recovery(self)
        # Kept: when ranks are lost, MPI may still write to the buffers of earlier links.
        self.earlier_links: list[ServerLink] = []

    def run_rounds(self) -> None:
        """All rounds of all runs."""
        retrying = self.recovery.retry_on_rank_loss
        try:
            self.open_runs()
            for t in range(self.config.run.T):
                for run in self.runs:
                    if run.t == t:
                        retrying(partial(run.round, t))
            retrying(self.finish)
        except Exception as error:
            sentence = self.close(STOPPED if isinstance(error, Stopped) else FAILED, describe(error))
            if not isinstance(error, FedmpiError):
                raise FedmpiError(sentence) from error
            error.args = (sentence,)
            raise
        unwritten = self.close(DONE)
        self.dismiss_workers()
        if unwritten:
            raise FedmpiError(unwritten)

    def open_runs(self) -> None:
        """Connect to the workers, and start or resume every run."""
        self.link = self.new_link()
        for number, state in enumerate(self.job.runs):
            run = ServerRun(state, number, self.link, self.world, self.finished)
            self.runs.append(run)
            if state.resumed:
                how = f"from round {run.t} on {self.world.size} ranks"
                run.log.write_event(run.t, self.world.now(), "resumed", how)
        self.recovery.retry_on_rank_loss(lambda: self.world.broadcast(self.home), repeat=False)
        for run in self.runs:
            self.recovery.retry_on_rank_loss(run.evaluate_first)

    def finished(self, outcome: Outcome) -> None:
        if self.profile:
            self.profile.add_round(outcome)
        self.on_round(outcome)

    def new_link(self) -> ServerLink:
        workers = self.world.workers(self.config.server.hosts_clients)
        own = None
        if 0 in workers:
            own = self.components.clients(self.allocation.for_rank(self.config, 0), self.job.dataset)
        d, on_timeline = len(self.job.runs[0].theta), self.profile.add_worker if self.profile else None
        return ServerLink(self.world, self.home, workers, d, self.config.comm, own, on_timeline)

    def connect_again(self) -> None:
        """**Collective.** After a loss: new homes for the clients, a new link, and the clocks of the present ranks."""
        workers = self.world.workers(self.config.server.hosts_clients)
        self.home = self.components.home([state.scheme for state in self.job.runs], workers)
        self.earlier_links.append(self.link)
        self.link = self.new_link()
        for run in self.runs:
            run.federation.link, run.log.original_ranks = self.link, self.world.original_ranks
        self.world.broadcast(self.home)
        self.link.compare_clocks()
        for run in self.runs:
            run.log.write_homes(self.home)

    def finish(self) -> None:
        """Write the last rounds, and compare clocks a last time."""
        offsets = self.link.compare_clocks()
        for run in self.runs:
            run.exchange_residuals(at_end=True)
            run.write_rounds()
            run.log.write_clocks(offsets)

    def dismiss_workers(self) -> None:
        """Stop the workers. All is written: a rank that is lost now does not matter."""
        try:
            self.link.stop()
        except BaseException as error:
            if not self.world.detector.is_rank_loss(error):
                raise

    def close(self, status: str, sentence: str = "") -> str:
        """Close every record, with a checkpoint to continue from; the sentence to end with."""
        said, done = sentence, status == DONE
        for number, state in enumerate(self.job.runs):
            try:
                if number < len(self.runs):
                    self.runs[number].close(status, sentence)
                else:
                    state.log.record.close(status, sentence)
            except Exception as error:  # what ended the run may keep its end from being written
                said += f"; {describe(error)}" if describe(error) not in said else ""
            state.lock.release()
        if done:
            return said
        if len(self.job.runs) == 1:
            return f"{said}; continue with `fedmpi run {self.job.runs[0].log.record.path} --resume`"
        return f"{said}; repeat the same command to continue (compare: with --resume)"
