"""Means over seeds and their confidence intervals: Student's t, without scipy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95

Floats = NDArray[np.float64]


UNBOUNDED = (-math.inf, math.inf)


@dataclass(frozen=True)
class Estimate:
    """A mean over k seeds and the half-width of its 95 % confidence interval; None with one seed.

    bounds: the range of the quantity, to which the interval is clipped; (0, 1) for an accuracy.
    """

    mean: float
    half: float | None = None
    k: int = 1
    bounds: tuple[float, float] = UNBOUNDED

    @property
    def low(self) -> float:
        return max(self.mean - (self.half or 0.0), self.bounds[0])

    @property
    def high(self) -> float:
        return min(self.mean + (self.half or 0.0), self.bounds[1])

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is known and does not contain zero."""
        return self.half is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, eq=False)
class Band:
    """A mean curve over k seeds. x, mean: (points,); half: (points,), or None with one seed. bounds: as in Estimate."""

    x: Floats
    mean: Floats
    half: Floats | None
    k: int
    bounds: tuple[float, float] = UNBOUNDED

    @property
    def low(self) -> Floats:
        """The lower edge of the band, (points,)."""
        return self.mean if self.half is None else np.maximum(self.mean - self.half, self.bounds[0])

    @property
    def high(self) -> Floats:
        """The upper edge of the band, (points,)."""
        return self.mean if self.half is None else np.minimum(self.mean + self.half, self.bounds[1])


@cache
def t_quantile(dof: int) -> float:
    """The q with P(|t| ≤ q) = 95 % for Student's t with `dof` degrees of freedom; found by bisection."""
    low, high = 0.0, 1e3
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, dof) < CONFIDENCE else (low, middle)
    return high


def central(t: float, dof: int) -> float:
    """P(|t_dof| ≤ t): with φ = atan(t/√dof), a finite sum in cos φ.  [Abramowitz & Stegun, 26.7.3 and 26.7.4]"""
    phi = math.atan(t / math.sqrt(dof))
    odd = dof % 2
    term, total = math.cos(phi) if odd else 1.0, 0.0
    for k in range(odd + 1, dof, 2):
        total += term
        term *= math.cos(phi) ** 2 * k / (k + 1)
    return 2 / math.pi * (phi + math.sin(phi) * total) if odd else math.sin(phi) * total


def estimate(values: ArrayLike) -> Estimate:
    """The mean of one value per seed, ± t_{k−1} s/√k."""
    band = bands(np.zeros(1), np.asarray(values, dtype=np.float64)[:, None])
    return Estimate(float(band.mean[0]), None if band.half is None else float(band.half[0]), band.k)


def bands(x: Floats, values: Floats, bounds: tuple[float, float] = UNBOUNDED) -> Band:
    """The mean over seeds at each x, ± t_{k−1} s/√k. values: (k, points), one row per seed."""
    k = len(values)
    mean = values.mean(axis=0)
    half = None if k < 2 else t_quantile(k - 1) * values.std(axis=0, ddof=1) / math.sqrt(k)
    return Band(x, mean, half, k, bounds)


def wilson(counts: Floats, trials: int) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval (low, high) of a share, counts out of `trials`; shapes as counts."""
    z2 = 1.959963984540054**2
    share = counts / trials
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = np.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2))) / (1 + z2 / trials)
    return centre - half, centre + half
