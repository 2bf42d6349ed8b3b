"""What the cost model knows of a machine: latency, seconds per byte, overheads, cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from fedmpi.errors import ConfigError


@dataclass(frozen=True)
class Machine:
    """The parameters of the model, in seconds and seconds per byte; `fedmpi doctor --json` measures them."""

    latency: float  # L: one small message from one node to another
    overhead: float  # o: a core's time for handing one message to MPI, or taking one
    link: float  # G: per byte from node to node; the server's link is shared by all that it sends and receives
    copy: float  # C: per byte of an update that comes to the server from a rank on its own node
    spread: float  # B: per byte of θ and receiving rank of a node, as a broadcast hands it on there
    add: float  # A: per byte of an update, adding it into the server's fixed-point sum
    own_add: float  # A': the same where a worker adds its clients' updates, under `reduced`
    combine: float  # R: per byte of a sum (8 bytes per parameter), taking it from a rank of the same node and adding it
    step: float  # S: per byte of θ: the server's passes over θ in every round (range, zeroing, stepping, checking)
    round: float  # F: a round with nothing in it: draw, wake-ups, record
    worker: float  # f: what each worker adds to that: an order, its share of the broadcast, a report
    reduction: float  # F': what the reduction of an empty sum adds to a round
    reduction_worker: float  # f': the same per worker
    update: float  # u: the server's time for one update, however small: see it, take it, book it
    crowding: float  # v: what each rank of the server's node beyond its cores adds to that: it looks while it waits
    own_update: float  # u': a worker's time for one of its own, under `reduced`, and the server's to book it
    cores: int  # c: that one node has for its ranks

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise ConfigError(f"{part.name} = {value!r}: must be a number from 0 to 10⁹")
        if not isinstance(self.cores, int) or self.cores < 1:
            raise ConfigError(f"cores = {self.cores!r}: must be a whole number of at least 1")

    def changed(self, changes: Mapping[str, float | None]) -> Machine:
        """The same machine with what is not None changed."""
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given)

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @staticmethod
    def from_dict(values: object) -> Machine:
        """The machine that `as_dict` described, read from a file that others may have written."""
        names = {part.name for part in fields(Machine)}
        if not isinstance(values, dict) or set(values) != names:
            raise ConfigError(f"the machine must have exactly these numbers: {', '.join(sorted(names))}")
        return Machine(**values)


# Where nothing was measured: nodes with 100 Gbit/s between them, of which MPI makes 11 GB/s. A guess, with what a round
# costs besides in round numbers near those of the two cores that docs/scale.md was measured on.
CLUSTER = Machine(
    latency=2e-6,
    overhead=1e-6,
    link=1 / 11e9,
    copy=1 / 6e9,
    spread=1 / 4e9,
    add=1 / 3e9,
    own_add=1 / 3e9,
    combine=1 / 3e9,
    step=1 / 0.5e9,
    round=3e-3,
    worker=0.2e-3,
    reduction=0.1e-3,
    reduction_worker=0.1e-3,
    update=0.1e-3,
    crowding=0.1e-3,
    own_update=0.05e-3,
    cores=32,
)
