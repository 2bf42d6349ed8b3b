"""The start of a job on all ranks: prepare it, give every rank its role, and end all of them if one fails."""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from fedmpi.comm.timeline import Activity, Timeline
from fedmpi.comm.world import World, connect
from fedmpi.config import Config
from fedmpi.errors import describe
from fedmpi.job.devices import allocate
from fedmpi.job.outcome import Outcome
from fedmpi.job.prepare import AS_CONFIGURED, Components, JobSpec, prepare
from fedmpi.job.profile import Profile
from fedmpi.job.server_loop import ServerLoop
from fedmpi.job.worker_loop import worker_main

# How long mpirun is given to forward the last sentence: it may drop what it has not read when a job is aborted.
FORWARD_SECONDS = 0.3

OnRound = Callable[[Outcome], None]


def ignore(outcome: Outcome) -> None:
    """The default of `on_round`."""


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    force: bool = False,
    resume: bool = False,
    debug: bool = False,
    on_round: OnRound = ignore,
    world: World | None = None,
    profile: str | Path | None = None,
) -> Path:
    """**Collective.** Run `config`, and return the path of its record.

    In one process, or under mpirun with every rank calling it; rank 0's config counts. `out` defaults to
    `<run.name>.h5`. With `resume`, what an earlier job has left there is continued. `on_round` is called on rank 0
    after each round. `profile` is a file for the timeline of all ranks, in Chrome's trace format.
    """
    world = world or connect()
    config = world.from_server(lambda: config, Config.to_toml, Config.from_toml)
    path = Path(out or f"{config.run.name}.h5")
    trace = Path(profile) if profile else None
    run_job([config], [path], world, force=force, resume=resume, debug=debug, on_round=on_round, profile=trace)
    return path


def run_job(
    configs: Sequence[Config],
    paths: Sequence[Path],
    world: World,
    *,
    force: bool = False,
    resume: bool = False,
    debug: bool = False,
    on_round: OnRound = ignore,
    attributes: dict[str, str] | None = None,
    components: Components = AS_CONFIGURED,
    profile: Path | None = None,
) -> None:
    """**Collective.** Run several configurations in one job, their rounds in turn, each into its own record.

    Every rank passes the same configurations. They may differ in run.name, run.seed and [sampling] only: clients, data
    and model are the same for all.
    """
    with world.detector.signals.caught(), ending_all_ranks(world, debug):
        hosts = world.detector.register(platform.node(), configs[0].comm.timeout)
        spec = JobSpec(configs, paths, force, resume, attributes or {}, components)
        allocation = allocate(world, configs[0], spec.earlier_settings() if world.is_server else None)
        if not world.is_server:
            world.wait_for_server()
            timeline: Timeline[Activity] = Timeline(world.now, enabled=profile is not None)
            worker_main(world, allocation.for_rank(configs[0], world.rank), components, timeline)
            return
        torch.set_num_threads(allocation.threads)
        with world.server_step():
            spec = replace(spec, configs=[allocation.with_threads(config) for config in configs])
            job = prepare(spec, hosts, allocation.devices, world)
        allocation.print_notes()
        loop = ServerLoop(job, allocation, world, on_round, components, Profile() if profile else None)
        loop.run_rounds()
        if loop.profile and profile:
            loop.profile.write(profile, hosts)


@contextmanager
def ending_all_ranks(world: World, debug: bool) -> Iterator[None]:
    """End all ranks, with one sentence, when the block raises on one of them and the others do not know of it."""
    try:
        yield
    except BaseException as error:
        if world.size == 1 or world.is_announced(error):
            raise
        if debug:
            traceback.print_exc()
        if not world.is_server:
            world.report_failure(describe(error))
        print(f"fedmpi: {describe(error)}", file=sys.stderr, flush=True)
        time.sleep(FORWARD_SECONDS)
        world.abort(getattr(error, "exit_code", 1))
        raise
