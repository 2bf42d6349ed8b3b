"""The parameters of a machine in the cost model: latency, seconds per byte, overheads, cores."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from fedmpi.errors import ConfigError


@dataclass(frozen=True)
class Rates:
    """Seconds per byte on one node, for one size of θ: a byte costs more if the vectors do not fit into a cache."""

    size: int  # of θ, in bytes
    copy: float  # C: per byte of an update that the server receives from a rank on its own node
    spread: float  # B: per byte of θ that a broadcast passes to another rank of the same node
    add: float  # A: per byte of an update that the server adds to its fixed-point sum
    own_add: float  # A': per byte of an update that a worker adds to its own sum, under `reduced`
    combine: float  # R: per byte of a sum (8 bytes per parameter), to receive it from the same node and add it
    step: float  # S: per byte of θ, for the server's passes over it in every round (range, zeroing, step, check)

    def __post_init__(self) -> None:
        check_numbers(self)
        check_count("size", self.size)

    def changed(self, changes: Mapping[str, Any]) -> Rates:
        """These rates with some of them changed."""
        return replace(self, **changes)

    def per_byte(self) -> dict[str, float]:
        """The rates by name, without the size."""
        return {name: getattr(self, name) for name in PER_BYTE}


@dataclass(frozen=True)
class Machine:
    """The parameters of the model, in seconds and seconds per byte; `fedmpi doctor --json` measures them."""

    latency: float  # L: of a small message from one node to another
    overhead: float  # o: a core's time to hand one message to MPI, or to receive one
    link: float  # G: per byte between nodes; all messages of the server share its link
    round: float  # F: of a round without data: draw, wake-ups, record
    worker: float  # f: added to F by each worker: its order, its part of the broadcast, its report
    reduction: float  # F': added to a round by the reduction of an empty sum
    reduction_worker: float  # f': added to F' by each worker
    update: float  # u: the server's time for one update of any size: notice, receive and log it
    crowding: float  # v: added to u by each rank on the server's node in excess of its cores, as it polls
    own_update: float  # u': a worker's time for one of its own updates under `reduced`, and the server's to log it
    cores: int  # c: cores of one node that its ranks may use
    rates: tuple[Rates, ...]  # C, B, A, A', R, S by size of θ, in ascending order

    def __post_init__(self) -> None:
        check_numbers(self)
        check_count("cores", self.cores)
        sizes = [each.size for each in self.rates]
        if not sizes or sizes != sorted(set(sizes)):
            raise ConfigError(f"rates are of sizes {sizes}: must be one or more, in ascending order")

    def at(self, size: int) -> Rates:
        """The rates for a θ of this size: interpolated linearly in log size, constant beyond the measured sizes."""
        k = bisect(self.rates, size, key=lambda each: each.size)
        below, above = self.rates[max(0, k - 1)], self.rates[min(k, len(self.rates) - 1)]
        if below is above:
            return replace(below, size=size)
        part = math.log(size / below.size) / math.log(above.size / below.size)
        high = above.per_byte()
        return Rates(size, **{name: low + part * (high[name] - low) for name, low in below.per_byte().items()})

    def changed(self, changes: Mapping[str, Any]) -> Machine:
        """The same machine with those parameters changed that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(found: object) -> Machine:
        """The machine of a dict as `as_dict` returns it; checked, since it may come from any file."""
        numbers = named(Machine, found)
        if not isinstance(numbers["rates"], list | tuple):
            raise ConfigError("rates: must be a list")
        return Machine(**numbers | {"rates": tuple(Rates(**named(Rates, each)) for each in numbers["rates"])})


PER_BYTE = tuple(part.name for part in fields(Rates) if part.name != "size")


def named(kind: type, found: object) -> dict[str, Any]:
    """`found`, if it is a dict with exactly the fields of Machine or Rates."""
    names = {part.name for part in fields(kind)}
    if not isinstance(found, dict) or set(found) != names:
        raise ConfigError(f"{kind.__name__.lower()}: must have exactly these numbers: {', '.join(sorted(names))}")
    return found


def check_numbers(found: Machine | Rates) -> None:
    """Raise unless all parameters are finite and not negative."""
    for part in fields(found):
        value = getattr(found, part.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if part.name != "rates" and not (number and 0 <= value < 1e19):
            raise ConfigError(f"{part.name} = {value!r}: must be a number from 0 to 10¹⁹")


def check_count(name: str, value: object) -> None:
    """Raise unless the value is a positive integer."""
    if not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} = {value!r}: must be a whole number of at least 1")


# A guess for a machine that was not measured: 100 Gbit/s between nodes, of which MPI gets 11 GB/s. The overheads are
# round numbers close to those of the two cores on which docs/scale.md was measured.
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
