"""From what `fedmpi doctor` measures to a machine, and back from the file in which it writes this."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.data.sources.archive import read_file
from fedmpi.errors import ConfigError
from fedmpi.scale.fit import Measured, fit
from fedmpi.scale.machine import CLUSTER, Machine

MOST_BYTES = 32 << 20
# Seconds per byte for the server to add an update, and for its passes over θ.
Arithmetic = tuple[float, float]
# Size and one-way seconds of the messages to one worker, the smallest first.
Echoes = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class FittedMachine:
    """A machine, the names of its parameters that were assumed, not measured, and the rounds it was fitted to."""

    machine: Machine
    assumed: tuple[str, ...]
    rounds: Sequence[Measured]


@dataclass(frozen=True)
class MeasuredMachine:
    """A machine as read from doctor's file: what was assumed, and the most ranks that a node had."""

    machine: Machine
    assumed: tuple[str, ...]
    ranks_per_node: int


def fit_machine(
    rounds: Sequence[Measured],
    *,
    overhead: float,
    cores: int,
    arithmetic: Mapping[int, Arithmetic],
    far: Sequence[Echoes],
) -> FittedMachine:
    """The machine that these measurements describe; what none of them shows is as in a typical cluster.

    overhead: seconds to hand a message to MPI. cores: of the server's node. arithmetic: by size of θ in bytes. far:
    for each worker on another node than the server's.
    """
    rates = [replace(CLUSTER.rates[-1], size=size, add=add, step=step) for size, (add, step) in arithmetic.items()]
    known = CLUSTER.changed({"overhead": overhead, "cores": cores, "rates": tuple(rates)})
    if far:
        # The slowest connection counts, because a broadcast waits for it.
        latency = max(smallest for (_, smallest), *_ in far)
        link = max((echoes[-1][1] - echoes[0][1]) / echoes[-1][0] for echoes in far)
        known = known.changed({"latency": max(0.0, latency - 2 * overhead), "link": max(0.0, link)})
    machine, assumed = fit(known, rounds)
    return FittedMachine(machine, (*assumed, *(() if far else ("latency", "link"))), rounds)


def typical_round(N: NDArray[Any], compute_seconds: NDArray[Any]) -> tuple[int, float]:
    """The mean number of clients per round, at least 1, and the median training time of a client, of a run.

    N: (T,), per round. compute_seconds: per client and round.
    """
    return max(1, round(float(N.mean()))), float(np.median(compute_seconds))


def read_machine(file: Path) -> MeasuredMachine:
    """The machine in a file of `fedmpi doctor --json`; a ConfigError names what is wrong with the file."""
    again = f"write it with `mpirun -n 3 fedmpi doctor --json {file.name}`"
    try:
        found = json.loads(read_file(file, MOST_BYTES))
        ranks = Counter(int(rank["node"]) for rank in found["ranks"])
        described, assumed = found["machine"], list(found["machine_assumed"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{file}: not a file of fedmpi doctor; {again}") from None
    if described is None or not ranks:
        raise ConfigError(f"{file}: doctor ran without workers and measured no rounds; {again}")
    try:
        machine = Machine.from_dict(described)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}; {again}") from None
    return MeasuredMachine(machine, tuple(str(name) for name in assumed), max(ranks.values()))
