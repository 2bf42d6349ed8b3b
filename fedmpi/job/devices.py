"""What each rank computes with: its device, its threads, compiled loops or not; and notes on what makes ranks slow."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fedmpi.comm.failure_detector import fault_tolerant
from fedmpi.comm.hardware import (
    RankHardware,
    choose_devices,
    gather_hardware,
    placement_rows,
    slowdowns,
    threads_for,
)
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.models.device import AUTO, CPU, visible_devices
from fedmpi.native import use_native
from fedmpi.report.tables import text_table


@dataclass(frozen=True)
class EarlierSettings:
    """Settings of the earlier rounds that a resumed run must keep for θ to have the same bits."""

    threads: int
    compiled: bool
    same_loops: bool = True  # whether their compiled loops had the arithmetic of ours


@dataclass(frozen=True)
class Allocation:
    """Every rank's device ("" if it trains nobody), the threads of each rank, and, on rank 0, notes for the user."""

    devices: list[str]
    threads: int
    notes: list[str]

    def with_threads(self, config: Config) -> Config:
        """The configuration with the number of threads in place of 0."""
        return config.replace({"client.threads": self.threads})

    def for_rank(self, config: Config, rank: int) -> Config:
        """The configuration with the device of `rank` in place of "auto", and the number of threads in place of 0."""
        return self.with_threads(config).replace({"client.device": self.devices[rank]})

    def print_notes(self) -> None:
        for note in self.notes:
            print_note(note)


def allocate(world: World, config: Config, earlier: EarlierSettings | None = None) -> Allocation:
    """**Collective.** The allocation of a job: rank 0 decides, from what every rank has.

    earlier: known on rank 0, if a run is resumed.
    """
    auto = config.client.device == AUTO
    ranks = gather_hardware(world, visible_devices() if auto else [])
    workers = world.workers(config.server.hosts_clients)

    def decide() -> tuple[list[str], int, bool]:
        fixed = [config.client.device if rank.rank in workers else "" for rank in ranks]
        threads = config.client.threads or (earlier.threads if earlier else threads_for(ranks))
        # For one θ: what some ranks cannot compute in C, or did not in earlier rounds, none does.
        compiled = all(rank.compiled for rank in ranks) and (earlier is None or earlier.compiled)
        return choose_devices(ranks, workers) if auto else fixed, threads, compiled

    devices, threads, compiled = world.from_server(decide)
    use_native(compiled)
    return Allocation(devices, threads, notes(ranks, devices, threads, config, earlier) if world.is_server else [])


def notes(
    ranks: Sequence[RankHardware],
    devices: Sequence[str],
    threads: int,
    config: Config,
    earlier: EarlierSettings | None = None,
) -> list[str]:
    """What the user should know at the start: slowdowns with their remedy, missing loops, and who trains where (unless
    all is on the CPU because it was configured so)."""
    found = [f"note: {sentence}" for sentence in slowdowns(ranks, threads)]
    if config.run.on_rank_failure == "continue" and len(ranks) > 1 and not fault_tolerant():
        found.append(
            "note: run.on_rank_failure = 'continue' has no effect here: start with Open MPI's `mpirun --with-ft ulfm`"
        )
    without = sorted({rank.host for rank in ranks if not rank.compiled})
    if without and any(rank.compiled for rank in ranks):
        found.append(f"note: no compiled loops on {', '.join(without)}: all ranks train without them, and slower")
    if earlier and earlier.compiled and without:
        found.append(
            "note: the rounds so far were computed with compiled loops: an LSTM's θ will differ in its last bits"
        )
    if earlier and earlier.compiled and not earlier.same_loops and not without:
        found.append(
            "note: the rounds so far were computed with the loops of an earlier version: an LSTM's θ will differ in "
            "its last bits"
        )
    if earlier and not earlier.compiled and not without:
        found.append("note: the rounds so far were computed without compiled loops, and so will be the next")
    if not config.client.threads:
        found.append(f"threads: {threads} per rank")
    if config.client.device == AUTO or set(devices) - {"", CPU}:
        found.append(text_table(("host", "ranks", "device"), placement_rows(ranks, devices), left=(0, 1, 2)))
    return found


@cache
def print_note(note: str) -> None:
    """Print it on stderr: once, however many jobs of a sweep it holds for."""
    print(note, file=sys.stderr, flush=True)
