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
class RankHardware:
    """What one rank has.

    `node` is any number that the ranks of one node share, `local_rank` this one's number among them. `devices` have
    torch's names, counted within `mask` if that is set. `cores` are the numbers of those that the rank may run on, of
    `host_cores` that its host has.
    """

    rank: int
    host: str
    node: int
    local_rank: int
    devices: tuple[str, ...]
    mask: str | None
    cores: tuple[int, ...] = ()
    host_cores: int = 1
    granted: int = 0  # cores that Slurm gives each rank; 0 if it does not say
    compiled: bool = True  # whether it has fedmpi's loops in C

    def node_devices(self) -> list[str]:
        """The node's own name of each of `devices`."""
        named = [name.strip() for name in self.mask.split(",")] if self.mask else []
        return [named[k] if k < len(named) else str(k) for k in range(len(self.devices))]

    def with_mask(self, devices: str) -> str:
        """Devices of this rank, with the mask within which they are counted."""
        return devices if self.mask is None or devices == CPU else f"{devices} ({MASK}={self.mask})"


def gather_hardware(world: World, devices: Sequence[str]) -> list[RankHardware]:
    """**Collective.** What every rank has, on rank 0; empty elsewhere. `devices` are those that this rank sees."""
    node, local_rank = own_node(world)
    mine = RankHardware(
        rank=world.rank,
        host=platform.node(),
        node=node,
        local_rank=local_rank,
        devices=tuple(devices),
        mask=os.environ.get(MASK),
        cores=own_cores(),
        host_cores=os.cpu_count() or 1,
        granted=int(os.environ.get(GRANTED) or 0),
        compiled=native_installed(),
    )
    found = [json.loads(text) for text in world.gather_text(json.dumps(asdict(mine)), width=16384)]
    return [
        RankHardware(**{**each, "devices": tuple(each["devices"]), "cores": tuple(each["cores"])}) for each in found
    ]


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


def threads_for(ranks: Sequence[RankHardware]) -> int:
    """Threads that every rank can have: the fewest that Slurm grants a rank, or cores ÷ ranks of the fullest host."""
    granted = min(rank.granted for rank in ranks)
    if granted:
        return granted
    shares = []
    for host in {rank.host for rank in ranks}:
        here = [rank for rank in ranks if rank.host == host]
        shares.append(len(set().union(*(rank.cores for rank in here))) // len(here))
    return max(1, min(shares))


def slowdowns(ranks: Sequence[RankHardware], threads: int) -> list[str]:
    """One sentence with its remedy for each thing that will make ranks of `threads` threads slow each other down."""
    found = []
    for host in dict.fromkeys(rank.host for rank in ranks):
        here = [rank for rank in ranks if rank.host == host]
        cores = sorted(set().union(*(rank.cores for rank in here)))
        for core in cores:
            bound = [str(rank.rank) for rank in here if rank.cores == (core,)]
            if len(bound) > 1:
                found.append(
                    f"{host}: ranks {', '.join(bound)} are bound to core {core} together: start with `mpirun --bind-to "
                    "none`, or give each rank cores of its own (`--map-by slot:PE=…`, Slurm's --cpus-per-task)"
                )
        if len(here) * threads > len(cores):
            found.append(
                f"{host}: {len(here)} ranks × {threads} {'thread' if threads == 1 else 'threads'} on {len(cores)} "
                f"{'core' if len(cores) == 1 else 'cores'}: times will vary; use more hosts (fewer slots per host in "
                "the hostfile), or fewer ranks or client.threads"
            )
    return found


def choose_devices(ranks: Sequence[RankHardware], workers: Collection[int]) -> list[str]:
    """The device of each rank: "" if it is not one of the `workers`, "cpu" if it sees no device.

    The workers of a node choose in the order of their node-local ranks. Each takes, of the devices that it sees, the
    first of those that the fewest others use: in turn where all see the same, its own where each sees another.
    """
    chosen = {rank.rank: "" for rank in ranks}
    users: Counter[tuple[int, str]] = Counter()
    for rank in sorted(ranks, key=lambda rank: (rank.node, rank.local_rank)):
        if rank.rank not in workers:
            continue
        seen = [(rank.node, name) for name in rank.node_devices()]
        chosen[rank.rank] = CPU
        if seen:
            k = min(range(len(seen)), key=lambda k: users[seen[k]])
            users[seen[k]] += 1
            chosen[rank.rank] = rank.devices[k]
    return [chosen[rank.rank] for rank in ranks]


def placement_rows(ranks: Sequence[RankHardware], devices: Sequence[str]) -> list[tuple[str, str, str]]:
    """(host, ranks, device) of each device in use: which ranks train on it."""
    users: dict[tuple[int, str, str], list[str]] = {}
    for rank, device in zip(ranks, devices, strict=True):
        name = rank.with_mask(device) if device else "none (server)"
        users.setdefault((rank.node, rank.host, name), []).append(str(rank.rank))
    by_node = sorted(users, key=lambda row: row[0])
    return [(host, ", ".join(users[node, host, device]), device) for node, host, device in by_node]
