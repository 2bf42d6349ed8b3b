"""What each rank has: its host, the cores it may use, the devices it sees; which device it trains on; what is wrong."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from mpi4py import MPI

from fedmpi.comm.world import World
from fedmpi.models.device import CPU
from fedmpi.native import native_installed

# Where Slurm says how many cores each rank has.
GRANTED = "SLURM_CPUS_PER_TASK"
# The environment variable by which users, Slurm and others hide devices from a process.
MASK = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Place:
    """Where a rank is, and what it sees there: `devices` as torch calls them, of those that `mask` names, if set.

    `node` is any number that the ranks of one node share, `local_rank` this one's number among them.
    """

    rank: int
    host: str
    node: int
    local_rank: int
    devices: tuple[str, ...]
    mask: str | None

    def behind(self) -> list[str]:
        """What the node calls each of `devices`: torch counts them within the mask."""
        named = [name.strip() for name in self.mask.split(",")] if self.mask else []
        return [named[k] if k < len(named) else str(k) for k in range(len(self.devices))]

    def masked(self, devices: str) -> str:
        """Devices of this rank, with the mask within which they are counted."""
        return devices if self.mask is None or devices == CPU else f"{devices} ({MASK}={self.mask})"


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


def choose(places: Sequence[Place], workers: Collection[int]) -> list[str]:
    """The device of each of `places`: "" if it is not one of the `workers`, "cpu" if it sees no device.

    The workers of a node choose in the order of their node-local ranks. Each takes, of the devices that it sees, the
    first of those that the fewest others have taken: in turn where all see the same, its own where each sees another.
    """
    chosen = {place.rank: "" for place in places}
    takers: Counter[tuple[int, str]] = Counter()
    for place in sorted(places, key=lambda place: (place.node, place.local_rank)):
        if place.rank not in workers:
            continue
        seen = [(place.node, name) for name in place.behind()]
        chosen[place.rank] = CPU
        if seen:
            k = min(range(len(seen)), key=lambda k: takers[seen[k]])
            takers[seen[k]] += 1
            chosen[place.rank] = place.devices[k]
    return [chosen[place.rank] for place in places]


def placement_rows(places: Sequence[Place], devices: Sequence[str]) -> list[tuple[str, str, str]]:
    """(host, ranks, device) of each device in use: which ranks train on it."""
    ranks: dict[tuple[int, str, str], list[str]] = {}
    for place, device in zip(places, devices, strict=True):
        spelled = place.masked(device) if device else "none (server)"
        ranks.setdefault((place.node, place.host, spelled), []).append(str(place.rank))
    by_node = sorted(ranks, key=lambda row: row[0])
    return [(host, ", ".join(ranks[node, host, device]), device) for node, host, device in by_node]
