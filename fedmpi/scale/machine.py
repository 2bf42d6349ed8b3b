"""What the cost model knows of a machine: latency, seconds per byte, overheads, cores."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from fedmpi.errors import ConfigError


@dataclass(frozen=True)
class Rates:
    """Seconds per byte on one node, at one size of θ: a byte costs more where the vectors do not fit into a cache."""

    size: int  # of θ, in bytes
    copy: float  # C: per byte of an update that comes to the server from a rank on its own node
    spread: float  # B: per byte of θ and receiving rank of a node, as a broadcast hands it on there
    add: float  # A: per byte of an update, adding it into the server's fixed-point sum
    own_add: float  # A': the same where a worker adds its clients' updates, under `reduced`
    combine: float  # R: per byte of a sum (8 bytes per parameter), taking it from a rank of the same node and adding it
    step: float  # S: per byte of θ: the server's passes over θ in every round (range, zeroing, stepping, checking)

    def __post_init__(self) -> None:
        check_numbers(self)
        check_count("size", self.size)

    def changed(self, changes: Mapping[str, Any]) -> Rates:
        return replace(self, **changes)

    def per_byte(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in PER_BYTE}


@dataclass(frozen=True)
class Machine:
    """The parameters of the model, in seconds and seconds per byte; `fedmpi doctor --json` measures them."""

    latency: float  # L: one small message from one node to another
    overhead: float  # o: a core's time for handing one message to MPI, or taking one
    link: float  # G: per byte from node to node; the server's link is shared by all that it sends and receives
    round: float  # F: a round with nothing in it: draw, wake-ups, record
    worker: float  # f: what each worker adds to that: an order, its share of the broadcast, a report
    reduction: float  # F': what the reduction of an empty sum adds to a round
    reduction_worker: float  # f': the same per worker
    update: float  # u: the server's time for one update, however small: see it, take it, book it
    crowding: float  # v: what each rank of the server's node beyond its cores adds to that: it looks while it waits
    own_update: float  # u': a worker's time for one of its own, under `reduced`, and the server's to book it
    cores: int  # c: that one node has for its ranks
    rates: tuple[Rates, ...]  # C, B, A, A', R, S, by size of θ, the smallest first

    def __post_init__(self) -> None:
        check_numbers(self)
        check_count("cores", self.cores)
        sizes = [each.size for each in self.rates]
        if not sizes or sizes != sorted(set(sizes)):
            raise ConfigError(f"rates are of sizes {sizes}: must be one or more, the smallest first")

    def at(self, size: int) -> Rates:
        """The rates for a θ of this size: between the sizes that are known, linear in log size; beyond them, the same
        as at the last."""
        k = bisect(self.rates, size, key=lambda each: each.size)
        below, above = self.rates[max(0, k - 1)], self.rates[min(k, len(self.rates) - 1)]
        if below is above:
            return replace(below, size=size)
        part = math.log(size / below.size) / math.log(above.size / below.size)
        high = above.per_byte()
        return Rates(size, **{name: low + part * (high[name] - low) for name, low in below.per_byte().items()})

    def changed(self, changes: Mapping[str, Any]) -> Machine:
        """The same machine with what is not None changed."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(found: object) -> Machine:
        """The machine that `as_dict` described, read from a file that others may have written."""
        numbers = named(Machine, found)
        if not isinstance(numbers["rates"], list | tuple):
            raise ConfigError("rates: must be a list")
        return Machine(**numbers | {"rates": tuple(Rates(**named(Rates, each)) for each in numbers["rates"])})


PER_BYTE = tuple(part.name for part in fields(Rates) if part.name != "size")


def named(kind: type, found: object) -> dict[str, Any]:
    """The fields of a Machine or of Rates, as a file has them: all of them, and no others."""
    names = {part.name for part in fields(kind)}
    if not isinstance(found, dict) or set(found) != names:
        raise ConfigError(f"{kind.__name__.lower()}: must have exactly these numbers: {', '.join(sorted(names))}")
    return found


def check_numbers(found: Machine | Rates) -> None:
    for part in fields(found):
        value = getattr(found, part.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if part.name != "rates" and not (number and 0 <= value < 1e19):
            raise ConfigError(f"{part.name} = {value!r}: must be a number from 0 to 10¹⁹")


def check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} = {value!r}: must be a whole number of at least 1")


# Where nothing was measured: nodes with 100 Gbit/s between them, of which MPI makes 11 GB/s. A guess, with what a round
# costs besides in round numbers near those of the two cores that docs/scale.md was measured on.
CLUSTER = Machine(
    latency=2e-6,
    overhead=1e-6,
    link=1 / 11e9,
    round=1e-3,
    worker=0.25e-3,
    reduction=0.1e-3,
    reduction_worker=0.03e-3,
    update=0.02e-3,
    crowding=0.004e-3,
    own_update=0.02e-3,
    cores=32,
    rates=(Rates(64 * 2**20, copy=0.2e-9, spread=0.3e-9, add=0.4e-9, own_add=0.3e-9, combine=1e-9, step=1.2e-9),),
)
