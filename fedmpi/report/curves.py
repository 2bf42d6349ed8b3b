"""Loss and accuracy against their cost in rounds, bytes and seconds: means over seeds, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedmpi.report.statistics import UNBOUNDED, Band, Estimate, Floats, bands
from fedmpi.report.study import Group, Run

LARGEST = 1e100
"""A larger loss is left out, like an infinite one: means and spreads of such numbers overflow."""
SHARE = (0.0, 1.0)
"""The range of an accuracy."""
GRID = 201
"""Points of a mean curve over bytes or seconds, if the seeds were evaluated at different costs."""


@dataclass(frozen=True)
class Axis:
    """A cost that grows with the rounds: the sum of these columns of /rounds; without columns, the number of rounds."""

    name: str
    columns: tuple[str, ...]
    title: str
    unit: str


ROUNDS = Axis("rounds", (), "rounds", "")
BYTES = Axis("bytes", ("down_bytes_logical", "up_bytes_logical"), "logical bytes moved, down + up", "B")
SECONDS = Axis("seconds", ("time_down", "time_up"), "communication time, down + up", "s")
AXES = (ROUNDS, BYTES, SECONDS)


def cost(run: Run, axis: Axis) -> Floats:
    """The cost up to each evaluation, (evaluations,); 0 at θ⁰."""
    t: NDArray[np.int64] = run.evals["t"]
    if axis is ROUNDS:
        return t.astype(np.float64)
    per_round = sum(run.rounds[name].astype(np.float64) for name in axis.columns)
    until: Floats = np.concatenate([[0.0], np.cumsum(per_round)])
    return until[t]


def points(run: Run, axis: Axis, quantity: str = "loss") -> tuple[Floats, Floats]:
    """(cost, quantity) at each evaluation where the quantity, loss or accuracy, is finite and at most LARGEST."""
    y = run.evals[quantity]
    known = np.abs(y) <= LARGEST
    return cost(run, axis)[known], y[known]


def mean_curve(group: Group, axis: Axis, quantity: str = "loss") -> Band | None:
    """The mean over the group's seeds with its 95 % band; None without evaluations.

    Over rounds, it has the evaluations that all seeds have. Over bytes and seconds, each seed's curve is interpolated
    linearly on a common grid, which ends at the smallest final cost of a seed.
    """
    curves = [points(run, axis, quantity) for run in group.runs]
    curves = [(x, y) for x, y in curves if len(x)]
    if not curves:
        return None
    if axis is ROUNDS:
        grid = common([x for x, _ in curves])
    elif all(np.array_equal(x, curves[0][0]) for x, _ in curves):
        grid = curves[0][0]
    else:
        grid = np.linspace(max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves), GRID)
    if not len(grid):
        return None
    bounds = SHARE if quantity == "accuracy" else UNBOUNDED
    return bands(grid, np.array([np.interp(grid, x, y) for x, y in curves]), bounds)


def difference(reference: Group, group: Group) -> Band | None:
    """L_ref − L by round, mean and 95 % band over the seeds that both groups have; None if they share none.

    Above zero, the group's loss is below the reference's.  [FVKL, Figure 1]
    """
    theirs = {run.seed: run for run in reference.runs}
    pairs = [(points(theirs[run.seed], ROUNDS), points(run, ROUNDS)) for run in group.runs if run.seed in theirs]
    pairs = [(a, b) for a, b in pairs if len(a[0]) and len(b[0])]
    t = common([x for pair in pairs for x, _ in pair])
    if not len(t):
        return None
    return bands(t, np.array([np.interp(t, *a) - np.interp(t, *b) for a, b in pairs]))


def common(xs: Sequence[Floats]) -> Floats:
    """The values that are in all arrays, ascending."""
    if not xs:
        return np.zeros(0)
    shared = xs[0]
    for x in xs[1:]:
        shared = np.intersect1d(shared, x)
    return shared


def last(band: Band | None) -> Estimate | None:
    """The last point of a curve; None if there is no curve."""
    if band is None:
        return None
    half = None if band.half is None else float(band.half[-1])
    return Estimate(float(band.mean[-1]), half, band.k, band.bounds)
