"""A job on all ranks: set it up, give every rank its role, and end it whole whatever happens."""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.comm.round import device_of_messages
from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.timeline import Spans
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import World, connect
from fedmpi.config import Config
from fedmpi.errors import FedmpiError, Stopped
from fedmpi.federation import Federation, memory_of, work
from fedmpi.job.prepare import AS_CONFIGURED, Cast, Plan, Setup, prepare
from fedmpi.job.profile import Trace
from fedmpi.job.round_log import Outcome
from fedmpi.job.start import Seating, take_seats
from fedmpi.record import remove_checkpoint
from fedmpi.record.schema import DONE, FAILED, STOPPED

# How long mpirun is given to pass on the last sentence: it may drop what it has not read when a job is aborted.
FORWARD_SECONDS = 0.3

OnRound = Callable[[Outcome], None]


def silent(outcome: Outcome) -> None:
    """The default of `on_round`."""


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    force: bool = False,
    resume: bool = False,
    debug: bool = False,
    on_round: OnRound = silent,
    world: World | None = None,
    profile: str | Path | None = None,
) -> Path:
    """**Collective.** The path of the record of one run of `config`.

    In one process, or under mpirun with every rank calling it; rank 0's config counts. `out` defaults to
    `<run.name>.h5`. With `resume`, what an earlier job has left there is continued. `on_round` is called on rank 0
    after each round. `profile` is a file for the timeline of all ranks, in Chrome's trace format.
    """
    world = world or connect()
    config = Config.from_toml(world.first(config.to_toml))
    path = Path(out or f"{config.run.name}.h5")
    timeline = Path(profile) if profile else None
    together([config], [path], world, force=force, resume=resume, debug=debug, on_round=on_round, profile=timeline)
    return path


def together(
    configs: Sequence[Config],
    paths: Sequence[Path],
    world: World,
    *,
    force: bool = False,
    resume: bool = False,
    debug: bool = False,
    on_round: OnRound = silent,
    attributes: dict[str, str] | None = None,
    cast: Cast = AS_CONFIGURED,
    profile: Path | None = None,
) -> None:
    """**Collective.** Run several configurations in one job, their rounds interleaved, each into its own record.

    They may differ in run.name, run.seed and [sampling] only: clients, data and model are the same for all.
    """
    with world.vigil.signals.heeded(), ending_all(world, debug):
        hosts = world.vigil.meet(platform.node(), configs[0].comm.timeout)
        plan = Plan(configs, paths, force, resume, attributes or {}, cast)
        seating = take_seats(world, configs[0], plan.earlier() if world.is_server else None)
        plan = replace(plan, configs=[seating.with_threads(config) for config in configs])
        if not world.is_server:
            world.follow()
            take_part(world, seating.on_device(configs[0], world.rank), cast, Spans(world.now, profile is not None))
            return
        torch.set_num_threads(seating.threads)
        with world.leading():
            setup = prepare(plan, hosts, seating.devices, world)
        seating.announce()
        job = Job(setup, seating, world, on_round, cast, Trace() if profile else None)
        job.play()
        if job.trace and profile:
            job.trace.write(profile, hosts)


@contextmanager
def ending_all(world: World, debug: bool) -> Iterator[None]:
    """Let an error that hits one rank end them all, with one sentence; not one that all ranks know of anyway."""
    try:
        yield
    except BaseException as error:
        if world.size == 1 or world.knows(error):
            raise
        if debug:
            traceback.print_exc()
        if not world.is_server:
            world.report_failure(describe(error))
        print(f"fedmpi: {describe(error)}", file=sys.stderr, flush=True)
        time.sleep(FORWARD_SECONDS)
        world.abort(getattr(error, "exit_code", 1))
        raise


class Job:
    """The server's side of a job: its runs, whose rounds take turns, over one link to the workers."""

    def __init__(
        self, setup: Setup, seating: Seating, world: World, on_round: OnRound, cast: Cast, trace: Trace | None = None
    ) -> None:
        self.setup, self.seating, self.world, self.cast = setup, seating, world, cast
        self.on_round, self.trace = on_round, trace
        self.config, self.home = setup.parts[0].config, setup.home
        self.runs: list[Federation] = []
        # Who was lost, since when, until the others go on.
        self.lost: dict[int, tuple[str, float]] = {}
        # Kept: when ranks are lost, MPI may still write to what they hold.
        self.dead_links: list[ServerLink] = []

    def play(self) -> None:
        """All rounds of all runs; every record is closed, whatever happens."""
        try:
            self.begin()
            for t in range(self.config.run.T):
                for federation in self.runs:
                    if federation.t == t:
                        self.surely(partial(federation.round, t))
            self.surely(self.finish)
        except Exception as error:
            told = self.close(STOPPED if isinstance(error, Stopped) else FAILED, describe(error))
            if not isinstance(error, FedmpiError):
                raise FedmpiError(told) from error
            error.args = (told,)
            raise
        unwritten = self.close(DONE)
        self.dismiss()
        if unwritten:
            raise FedmpiError(unwritten)

    def begin(self) -> None:
        """Meet the workers, and begin every run or go on with it."""
        self.link = self.new_link()
        for number, part in enumerate(self.setup.parts):
            run = Federation(part.config, self.world, part.scheme, part.theta, self.link, part.books, self.tell, number)
            self.runs.append(run)
            if part.start:
                run.resume(part.start)
            if part.resumed:
                part.books.note(run.t, self.world.now(), "resumed", f"from round {run.t} on {self.world.size} ranks")
        self.surely(lambda: self.world.share(self.home), again=False)
        for run in self.runs:
            self.surely(run.begin)

    def tell(self, outcome: Outcome) -> None:
        if self.trace:
            self.trace.round(outcome)
        self.on_round(outcome)

    def new_link(self) -> ServerLink:
        workers = self.world.workers(self.config.server.hosts_clients)
        host = self.cast.host(self.seating.on_device(self.config, 0), self.setup.dataset) if 0 in workers else None
        d, on_spans = len(self.setup.parts[0].theta), self.trace.worker if self.trace else None
        return ServerLink(self.world, self.home, workers, d, self.config.comm, host, on_spans)

    def finish(self) -> None:
        """Write the last rounds, and compare clocks a last time."""
        offsets = self.link.compare_clocks()
        for run in self.runs:
            run.exchange_left(at_end=True)
            run.settle()
            run.books.write_clocks(offsets)

    def dismiss(self) -> None:
        """Send the workers home. All is written: a rank that is lost now is no loss."""
        try:
            self.link.stop()
        except BaseException as error:
            if not self.world.vigil.loses_rank(error):
                raise

    def surely(self, step: Callable[[], object], again: bool = True) -> None:
        """Take a step of the job; if ranks are lost in it and the others are to go on, do so and take it again."""
        steps = [step]
        while steps:
            try:
                steps[0]()
                del steps[0]
            except Exception as error:
                if self.config.run.on_rank_failure != "continue" or not self.world.vigil.loses_rank(error):
                    raise
                steps = [self.go_on, step] if again else [self.go_on]

    def go_on(self) -> None:
        """**Collective** among the ranks that are left: number them anew and share the lost ones' clients out.

        If ranks are lost in here, too, it is begun again: what is noted about the losses is noted at its end.
        """
        began, named = self.world.now(), self.world.vigil.names()
        self.lost |= {rank: (named[rank], began) for rank in self.world.regroup()}
        who = " and ".join(name for name, _ in self.lost.values())
        if self.world.size == 1:
            raise FedmpiError(f"no worker is left: lost {who}")
        workers = self.world.workers(self.config.server.hosts_clients)
        self.home = self.cast.home([part.scheme for part in self.setup.parts], workers)
        self.dead_links.append(self.link)
        self.link = self.new_link()
        for run in self.runs:
            run.settle()  # as the ranks were numbered
            run.link, run.books.origin = self.link, self.world.origin
        self.world.share(self.home)
        self.link.compare_clocks()
        now = self.world.now()
        for run in self.runs:
            run.books.write_homes(self.home)
            for rank, (name, since) in self.lost.items():
                run.books.note(run.t, now, "lost", name, rank, now - since)
        self.lost.clear()
        print(f"fedmpi: lost {who}; going on without", file=sys.stderr, flush=True)

    def close(self, status: str, sentence: str = "") -> str:
        """Close every record, with what there is to go on from; the sentence to end with."""
        told, over = sentence, status == DONE
        for number, part in enumerate(self.setup.parts):
            try:
                if number < len(self.runs):
                    self.leave(self.runs[number], status, sentence)
                else:
                    part.books.record.close(status, sentence)
            except Exception as error:  # what ended the run may keep its end from being written
                told += f"; {describe(error)}" if describe(error) not in told else ""
            part.lock.release()
        if len(self.setup.parts) == 1:
            return told if over else f"{told}; go on with `fedmpi run {self.setup.parts[0].books.record.path} --resume`"
        return told if over else f"{told}; start the same command again to go on (compare: with --resume)"

    def leave(self, run: Federation, status: str, sentence: str) -> None:
        """Write the last rounds, θ and a checkpoint of a run, and close its record."""
        record = run.books.record
        if not record.broken:
            run.books.write()
            record.write_theta(run.theta, run.t)
            if status == DONE and not run.remembers():
                remove_checkpoint(record.path)
            elif np.isfinite(run.theta).all() and (status == DONE or not self.link.encoder.keeps_residuals):
                run.checkpoint(memory_of(run.scheme))
        record.close(status, sentence)


def take_part(world: World, config: Config, cast: Cast, spans: Spans) -> None:
    """Be a worker, for as long as there is a server."""
    dataset = cast.dataset(config)
    host = cast.host(config, dataset)
    # Both are kept: when ranks are lost, MPI may still write to them.
    homes: list[NDArray[np.int32]] = []
    links: list[WorkerLink] = []
    while True:
        try:
            homes.append(np.empty(len(dataset.n_samples), np.int32))
            world.share(homes[-1])
            device = device_of_messages(host.theta.device, config.comm)
            links.append(WorkerLink(world, len(host.theta), config.comm, spans, device))
            return work(host, links[-1], np.flatnonzero(homes[-1] == world.rank).tolist())
        except BaseException as error:
            if links and links[-1].dismissed:
                return
            if config.run.on_rank_failure != "continue" or not world.vigil.loses_rank(error):
                raise
        world.regroup()


def describe(error: BaseException) -> str:
    """An error in one sentence."""
    return str(error) if isinstance(error, FedmpiError) else f"{type(error).__name__}: {error}"
