"""The cost of reaching a target loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedmpi.report.curves import AXES, ROUNDS, Axis, points
from fedmpi.report.statistics import Estimate, Floats, estimate
from fedmpi.report.study import Group, Run


@dataclass(frozen=True)
class Reach:
    """How many of a group's seeds reach the target, and, if all do, the mean cost by axis name."""

    reached: int
    seeds: int
    costs: dict[str, Estimate]


def crossing(x: Floats, loss: Floats, target: float) -> float | None:
    """The cost x at which the loss first reaches the target, interpolated linearly; None if it never does."""
    below = np.flatnonzero(loss <= target)
    if not len(below):
        return None
    k = int(below[0])
    if k == 0:
        return float(x[0])
    share = (loss[k - 1] - target) / (loss[k - 1] - loss[k])
    return float(x[k - 1] + share * (x[k] - x[k - 1]))


def reach(group: Group, target: float) -> Reach:
    """The mean cost of the target on each axis, over the group's seeds.

    If a seed does not reach it there is no mean: the mean over the others would be too small.
    """
    evaluated = [run for run in group.runs if len(points(run, ROUNDS)[0])]
    found = {axis.name: costs_of(evaluated, axis, target) for axis in AXES}
    reached = len(found[ROUNDS.name])
    whole = reached == len(evaluated) > 0
    return Reach(reached, len(evaluated), {name: estimate(xs) for name, xs in found.items()} if whole else {})


def costs_of(runs: Sequence[Run], axis: Axis, target: float) -> list[float]:
    """The cost of the target for each run that reached it."""
    found = [crossing(*points(run, axis), target) for run in runs]
    return [x for x in found if x is not None]


def default_target(groups: Sequence[Group]) -> float | None:
    """The lowest loss that every run reaches, rounded up to four digits; None without evaluations."""
    best = [points(run, ROUNDS)[1].min() for group in groups for run in group.runs if len(points(run, ROUNDS)[0])]
    return rounded_up(float(max(best))) if best else None


def rounded_up(x: float, digits: int = 4) -> float:
    """The smallest number with this many digits that is at least x."""
    if x == 0:
        return 0.0
    places = digits - 1 - math.floor(math.log10(abs(x)))
    try:
        near = round(x, places)
        return near if near >= x else round(near + 10.0**-places, places)
    except OverflowError:
        # The largest numbers cannot be rounded up.
        return x
