"""The start of a job on all ranks: who trains on which device, and what will make ranks slow each other down."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fedmpi.comm.failure_detector import fault_tolerant
from fedmpi.comm.hardware import Seat, choose, complaints, placement_rows, seats, threads_for
from fedmpi.comm.world import World
from fedmpi.config import Config
from fedmpi.models.device import AUTO, CPU, visible_devices
from fedmpi.native import use_native
from fedmpi.report.tables import text_table


@dataclass(frozen=True)
class Earlier:
    """How the rounds were computed that a job goes on with: θ is the same to the last bit if it does as they did."""

    threads: int
    compiled: bool


@dataclass(frozen=True)
class Seating:
    """Every rank's device ("" if it trains nobody); on rank 0, what there is to say about the ranks' places."""

    devices: list[str]
    threads: int
    remarks: list[str]

    def on_device(self, config: Config, rank: int) -> Config:
        """The configuration with the device of `rank` in place of "auto"."""
        return self.with_threads(config).replace({"client.device": self.devices[rank]})

    def with_threads(self, config: Config) -> Config:
        """The configuration with the number of threads in place of 0."""
        return config.replace({"client.threads": self.threads})

    def announce(self) -> None:
        for remark in self.remarks:
            say(remark)


def take_seats(world: World, config: Config, earlier: Earlier | None = None) -> Seating:
    """**Collective.** The seating of a job: rank 0 decides, from what every rank sees. earlier: known on rank 0, if a
    run is to be resumed."""
    auto = config.client.device == AUTO
    taken = seats(world, visible_devices() if auto else [])
    workers = world.workers(config.server.hosts_clients)

    def decide() -> str:
        fixed = [config.client.device if seat.rank in workers else "" for seat in taken]
        threads = config.client.threads or (earlier.threads if earlier else threads_for(taken))
        # θ is one θ: what some ranks cannot compute in C, or did not before, none does.
        compiled = all(seat.compiled for seat in taken) and (earlier is None or earlier.compiled)
        return json.dumps([choose(taken, workers) if auto else fixed, threads, compiled])

    devices, threads, compiled = json.loads(world.first(decide))
    use_native(compiled)
    return Seating(devices, threads, remarks(taken, devices, threads, config, earlier) if world.is_server else [])


def remarks(
    taken: Sequence[Seat], devices: Sequence[str], threads: int, config: Config, earlier: Earlier | None = None
) -> list[str]:
    """The placement table, unless all is on the CPU because it was configured so; and complaints, with their fix."""
    found = [f"note: {sentence}" for sentence in complaints(taken, threads)]
    if config.run.on_rank_failure == "continue" and len(taken) > 1 and not fault_tolerant():
        found.append(
            "note: run.on_rank_failure = 'continue' has no effect here: start with Open MPI's `mpirun --with-ft ulfm`"
        )
    without = sorted({seat.host for seat in taken if not seat.compiled})
    if without and any(seat.compiled for seat in taken):
        found.append(f"note: no compiled loops on {', '.join(without)}: all ranks train without them, and slower")
    if earlier and earlier.compiled and without:
        found.append(
            "note: the rounds so far were computed with compiled loops: an LSTM's θ will differ in its last bits"
        )
    if earlier and not earlier.compiled and not without:
        found.append("note: the rounds so far were computed without compiled loops, and so are those to come")
    if not config.client.threads:
        found.append(f"threads: {threads} per rank")
    if config.client.device == AUTO or set(devices) - {"", CPU}:
        found.append(text_table(("host", "ranks", "device"), placement_rows(taken, devices), left=(0, 1, 2)))
    return found


@cache
def say(remark: str) -> None:
    """Say it on stderr: once, however many jobs of a sweep it holds for."""
    print(remark, file=sys.stderr, flush=True)
