"""A machine's parameters from rounds that were measured: the model is linear in them when nobody trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.scale.machine import Machine
from fedmpi.scale.model import Job, predict

# What only whole rounds show. The others are measured one by one.
FITTED = (
    "round", "worker", "reduction", "reduction_worker", "update", "crowding", "own_update", "copy", "spread", "own_add",
    "combine",
)  # fmt: skip
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
    parameters none of them shows: those stay as they are in `known`, as do those that are not fitted."""
    nothing = known.changed(dict.fromkeys(known.as_dict(), 0.0) | {"cores": known.cores})
    rest = known.changed(dict.fromkeys(FITTED, 0.0))
    seconds = np.array([each.seconds for each in rounds])
    columns = [[predict(nothing.changed({name: 1.0}), each.job).total for each in rounds] for name in FITTED]
    # Relative to what was measured, with every parameter in its own scale.
    matrix = np.array(columns).T / seconds[:, None]
    target = 1.0 - np.array([predict(rest, each.job).total for each in rounds]) / seconds
    scale = np.abs(matrix).max(axis=0, initial=0.0)
    shown = np.flatnonzero(scale > 0)
    values = least_error(matrix[:, shown] / scale[shown], target) / scale[shown]
    found = {FITTED[k]: float(value) for k, value in zip(shown, values, strict=True)}
    return known.changed(found), [name for name in FITTED if name not in found]


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
