"""Where each rank sits: its host, the cores it may use, the devices it sees; and what is wrong with that."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mpi4py import MPI

from fedmpi.comm.world import World
from fedmpi.devices import MASK, Place
from fedmpi.native import native_installed

# Where Slurm says how many cores each rank has.
GRANTED = "SLURM_CPUS_PER_TASK"


@dataclass(frozen=True)
class Seat(Place):
    """One rank's place. `cores` are the numbers of those it may run on, of `host_cores` that its host has."""

    cores: tuple[int, ...]
    host_cores: int
    granted: int = 0  # cores that Slurm gives each rank; 0 if it does not say
    compiled: bool = True  # whether it has fedmpi's loops in C


def seats(world: World, devices: Sequence[str]) -> list[Seat]:
    """**Collective.** Every rank's seat, on rank 0; empty elsewhere. `devices` are those that this rank sees."""
    node, local_rank = own_node(world)
    seen = tuple(devices), os.environ.get(MASK)
    granted = int(os.environ.get(GRANTED) or 0)
    mine = Seat(
        world.rank,
        platform.node(),
        node,
        local_rank,
        *seen,
        own_cores(),
        os.cpu_count() or 1,
        granted,
        native_installed(),
    )
    found = [json.loads(text) for text in world.gather_text(json.dumps(asdict(mine)), width=16384)]
    return [Seat(**{**each, "devices": tuple(each["devices"]), "cores": tuple(each["cores"])}) for each in found]


def own_node(world: World) -> tuple[int, int]:
    """**Collective.** This rank's node, known by the lowest rank there, and its number among that node's ranks."""
    sharing = world.comm.Split_type(MPI.COMM_TYPE_SHARED, key=world.rank)
    (lowest,) = MPI.Group.Translate_ranks(sharing.group, [0], world.comm.group)
    local_rank = sharing.rank
    sharing.Free()
    return lowest, local_rank


def own_cores() -> tuple[int, ...]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def threads_for(taken: Sequence[Seat]) -> int:
    """How many threads every rank can have: what Slurm grants the poorest, or cores ÷ ranks of the fullest host."""
    granted = min(seat.granted for seat in taken)
    if granted:
        return granted
    shares = []
    for host in {seat.host for seat in taken}:
        here = [seat for seat in taken if seat.host == host]
        shares.append(len(set().union(*(seat.cores for seat in here))) // len(here))
    return max(1, min(shares))


def complaints(taken: Sequence[Seat], threads: int) -> list[str]:
    """One sentence with its remedy for each thing that will make ranks of `threads` threads slow each other down."""
    found = []
    for host in dict.fromkeys(seat.host for seat in taken):
        here = [seat for seat in taken if seat.host == host]
        cores = sorted(set().union(*(seat.cores for seat in here)))
        wanted = len(here) * threads
        crowded = [core for core in cores if sum(seat.cores == (core,) for seat in here) > 1]
        for core in crowded:
            ranks = ", ".join(str(seat.rank) for seat in here if seat.cores == (core,))
            found.append(
                f"{host}: ranks {ranks} are bound to core {core} together: start with `mpirun --bind-to none`, or "
                "give each rank cores of its own (`--map-by slot:PE=…`, Slurm's --cpus-per-task)"
            )
        if wanted > len(cores):
            found.append(
                f"{host}: {len(here)} ranks × {threads} {'thread' if threads == 1 else 'threads'} on {len(cores)} "
                f"{'core' if len(cores) == 1 else 'cores'}: times will vary; use more hosts (fewer slots per host in "
                "the hostfile), or fewer ranks or client.threads"
            )
    return found
