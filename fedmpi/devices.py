"""Which device each rank trains on: chosen from what all ranks see, with torch asked in one place only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

AUTO = "auto"
CPU = "cpu"
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


def visible_devices() -> list[str]:
    """The CUDA devices that this process sees, as torch calls them. None of them is touched."""
    import torch

    return [f"cuda:{k}" for k in range(torch.cuda.device_count())] if torch.cuda.is_available() else []


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


def placement_table(places: Sequence[Place], devices: Sequence[str]) -> list[str]:
    """Who trains where, in lines of columns: host, ranks, device."""
    ranks: dict[tuple[int, str, str], list[str]] = {}
    for place, device in zip(places, devices, strict=True):
        spelled = place.masked(device) if device else "none (server)"
        ranks.setdefault((place.node, place.host, spelled), []).append(str(place.rank))
    rows = [("host", "ranks", "device")]
    by_node = sorted(ranks, key=lambda row: row[0])
    rows += [(host, ", ".join(ranks[node, host, device]), device) for node, host, device in by_node]
    widths = [max(len(row[k]) for row in rows) for k in range(2)]
    return [f"{host:<{widths[0]}}  {who:<{widths[1]}}  {device}" for host, who, device in rows]
