"""A machine's parameters from rounds that were measured: the model is linear in them when nobody trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.scale.machine import PER_BYTE, Machine, Rates
from fedmpi.scale.model import Job, predict

# What only whole rounds show: of rounds with hardly any bytes, and then for each size of θ.
FIXED = ("round", "worker", "reduction", "reduction_worker", "update", "crowding", "own_update")
# To be wrong by all of what was known of a parameter counts as much as this error of one round. It decides where rounds
# show only the sum of two parameters, and hardly anything elsewhere.
TRUST = 0.02
# Least squares again and again, each time with less weight on what fits badly: in the end, the least mean error.
REPEATS = 20
SMALLEST_ERROR = 0.01


@dataclass(frozen=True)
class Measured:
    """A job of no-op rounds and the median seconds of its rounds."""

    job: Job
    seconds: float


def fit(known: Machine, rounds: Sequence[Measured]) -> tuple[Machine, list[str]]:
    """The machine whose predictions have the least mean relative error over these rounds, and which of its fitted
    parameters none of them shows: those stay as they are in `known`, as do those that are not fitted.

    The rounds of the smallest θ give what does not depend on it, those of each other size the rates at that size.
    """
    smallest, *sizes = sorted({each.job.theta_bytes for each in rounds})
    machine, shown = fit_fixed(known, [each for each in rounds if each.job.theta_bytes == smallest])
    rates = []
    for size in sizes:
        found, seen = fit_rates(machine, [each for each in rounds if each.job.theta_bytes == size])
        rates.append(found)
        shown |= seen
    machine = machine.changed({"rates": tuple(rates)}) if rates else machine
    return machine, [name for name in (*FIXED, *PER_BYTE) if name not in shown]


def fit_fixed(known: Machine, rounds: Sequence[Measured]) -> tuple[Machine, set[str]]:
    """The machine with what does not depend on θ as these rounds show it, and what that is."""
    found = solve(known.changed, {name: getattr(known, name) for name in FIXED}, rounds)
    return known.changed(found), set(found)


def fit_rates(known: Machine, rounds: Sequence[Measured]) -> tuple[Rates, set[str]]:
    """The rates at the size of θ that these rounds have, and which of them they show."""
    rates = known.at(rounds[0].job.theta_bytes)
    found = solve(lambda changes: known.changed({"rates": (rates.changed(changes),)}), rates.per_byte(), rounds)
    return rates.changed(found), set(found)


def solve(
    machine: Callable[[Mapping[str, float]], Machine], known: Mapping[str, float], rounds: Sequence[Measured]
) -> dict[str, float]:
    """Values of the parameters in `known` with which `machine(values)` explains the rounds; without those that no
    round shows."""
    nothing = dict.fromkeys(known, 0.0)

    def shares(values: Mapping[str, float]) -> NDArray[np.float64]:
        """Of each round's measured time, what the model explains with these."""
        return np.array([predict(machine(values), each.job).total / each.seconds for each in rounds])

    rest = shares(nothing)
    columns = {name: shares(nothing | {name: 1.0}) - rest for name in known}
    shown = [name for name in known if columns[name].any()]
    # Every parameter in its own scale, with one line more for what was known of it.
    scale = np.array([columns[name].max() for name in shown])
    matrix = np.array([columns[name] for name in shown]).T / scale
    prior = np.diag([TRUST / (known[name] or np.inf) for name in shown]) / scale
    trust = np.array([TRUST * (known[name] > 0) for name in shown])
    values = least_error(np.vstack([matrix, prior]), np.concatenate([1 - rest, trust])) / scale
    return dict(zip(shown, values.tolist(), strict=True))


def least_error(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """x ≥ 0 with a small Σ|matrix x − target|."""
    weights = np.ones(len(target))
    x = np.zeros(matrix.shape[1])
    for _ in range(REPEATS):
        x = nonnegative_least_squares(matrix * weights[:, None], target * weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(matrix @ x - target), SMALLEST_ERROR))
    return x


def nonnegative_least_squares(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares, leaving out the most negative number as long as there is one."""
    kept = np.arange(matrix.shape[1])
    x = np.zeros(matrix.shape[1])
    while len(kept):
        found = np.linalg.lstsq(matrix[:, kept], target, rcond=None)[0]
        if (found >= 0).all():
            x[kept] = found
            break
        kept = np.delete(kept, found.argmin())
    return x
