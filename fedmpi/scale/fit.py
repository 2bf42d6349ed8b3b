"""Fitting a machine's parameters to measured rounds: without training, the model is linear in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.scale.machine import PER_BYTE, Machine, Rates
from fedmpi.scale.model import JobShape, predict

# Parameters that do not depend on the size of θ; rounds of the smallest θ show them.
FIXED = ("round", "worker", "reduction", "reduction_worker", "update", "crowding", "own_update")
# Weight of the prior: an error of 100 % in a parameter counts as much as this relative error of one round. It matters
# only where the rounds show no more than the sum of two parameters.
TRUST = 0.02
# Repeated least squares with less weight on rounds that fit badly approaches the least mean absolute error.
REPEATS = 20
SMALLEST_ERROR = 0.01


@dataclass(frozen=True)
class Measured:
    """A job of no-op rounds and the median of its rounds' seconds."""

    job: JobShape
    seconds: float


def fit(known: Machine, rounds: Sequence[Measured]) -> tuple[Machine, list[str]]:
    """The machine with the least mean relative error over these rounds, and the names of the parameters that could not
    be fitted because no round depends on them. These, and those that are never fitted, are as in `known`.

    The rounds of the smallest θ give the parameters that do not depend on its size, those of each other size its rates.
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
    """The machine with the parameters that do not depend on the size of θ, and the names of those that were fitted."""
    found = solve(known.changed, {name: getattr(known, name) for name in FIXED}, rounds)
    return known.changed(found), set(found)


def fit_rates(known: Machine, rounds: Sequence[Measured]) -> tuple[Rates, set[str]]:
    """The rates at the size of θ of these rounds, and the names of those that were fitted."""
    rates = known.at(rounds[0].job.theta_bytes)
    found = solve(lambda changes: known.changed({"rates": (rates.changed(changes),)}), rates.per_byte(), rounds)
    return rates.changed(found), set(found)


def solve(
    machine: Callable[[Mapping[str, float]], Machine], known: Mapping[str, float], rounds: Sequence[Measured]
) -> dict[str, float]:
    """Values of the parameters in `known` for which `machine(values)` predicts the rounds best; without those that no
    round depends on."""
    nothing = dict.fromkeys(known, 0.0)

    def shares(values: Mapping[str, float]) -> NDArray[np.float64]:
        """The predicted fraction of each round's measured time."""
        return np.array([predict(machine(values), each.job).total / each.seconds for each in rounds])

    rest = shares(nothing)
    columns = {name: shares(nothing | {name: 1.0}) - rest for name in known}
    shown = [name for name in known if columns[name].any()]
    # Each parameter in its own scale, with one more row for its prior.
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
    """x ≥ 0 with a small |matrix x − target|²: the most negative entry is set to 0 until none is left."""
    kept = np.arange(matrix.shape[1])
    x = np.zeros(matrix.shape[1])
    while len(kept):
        found = np.linalg.lstsq(matrix[:, kept], target, rcond=None)[0]
        if (found >= 0).all():
            x[kept] = found
            break
        kept = np.delete(kept, found.argmin())
    return x
