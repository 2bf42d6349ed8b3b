"""Statistical checks that the cohorts drawn in a run follow the law of its scheme."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from fedmpi.sampling.law import Floats, Law

FALSE_ALARM = 1e-3
"""Upper bound, approximately, on the chance that a run that follows the law fails any of its checks."""
FEWEST_ROUNDS = 30
"""Means and variances of fewer rounds are reported but not tested: their distribution is not yet normal."""


@dataclass(frozen=True)
class Check:
    """One quantity of the run, compared with the law.

    low, high: a 95 % confidence interval around `observed`. p_value: the chance, under the law, of a deviation at
    least as large, or an upper bound on it; 1 where nothing is tested.
    """

    name: str
    observed: float
    expected: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Plausibility:
    """The checks of one run, and one sentence for each that failed."""

    checks: tuple[Check, ...]
    inclusion_p_values: Floats
    sentences: tuple[str, ...]

    @property
    def plausible(self) -> bool:
        """Whether no check failed."""
        return not self.sentences


def plausibility(law: Law, N: ArrayLike, sum_omega: ArrayLike, counts: ArrayLike) -> Plausibility:
    """The run's mean and variance of Σω and N, and every client's number of rounds, against the law.

    N, sum_omega: (T,), per round. counts: (n,), in how many of the T rounds each client took part. Rounds are
    taken as independent draws from one law. With k checks in all, one fails below FALSE_ALARM/k (Bonferroni).
    """
    N, sum_omega = np.asarray(N, dtype=np.float64), np.asarray(sum_omega, dtype=np.float64)
    counts = np.asarray(counts, dtype=np.float64)
    T = N.size
    if T == 0 or sum_omega.shape != (T,) or counts.shape != law.p.shape:
        raise ValueError("need one N and one Σω per round, at least one round, and one count per client")
    checks = (
        _mean("mean of Σω", sum_omega, float(law.p.sum()), law.var_sum),
        _variance("variance of Σω", sum_omega, law.var_sum),
        _mean("mean of N", N, law.mean_N, law.var_N),
        _variance("variance of N", N, law.var_N),
    )
    p_values = inclusion_p_values(counts, T, law.inclusion)
    level = FALSE_ALARM / (len(checks) + p_values.size)
    sentences = [
        f"The {check.name} is {check.observed:.6g} over {T} rounds, but the law says {check.expected:.6g}: "
        f"a deviation this large has a chance of {check.p_value:.1e}."
        for check in checks
        if check.p_value < level
    ]
    odd = np.flatnonzero(p_values < level)
    if odd.size:
        worst = int(odd[np.argmin(p_values[odd])])
        sentences.append(
            f"{odd.size} of {p_values.size} clients took part implausibly often or seldom; client {worst} in "
            f"{counts[worst]:.0f} of {T} rounds where the law expects {T * law.inclusion[worst]:.1f}."
        )
    return Plausibility(checks, p_values, tuple(sentences))


def inclusion_p_values(counts: Floats, T: int, inclusion: Floats) -> Floats:
    """An upper bound on each client's two-sided p-value, (n,): min(1, 2 exp(−T KL(counts/T ‖ inclusion))).

    counts_i is Binomial(T, inclusion_i); the bound is Chernoff's, valid for every T and probability.
    """
    f, q = counts / T, np.clip(inclusion, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(f > 0, f * np.log(f / q), 0.0) + np.where(f < 1, (1 - f) * np.log((1 - f) / (1 - q)), 0.0)
    p_values: Floats = np.minimum(1.0, 2 * np.exp(-T * kl))
    return p_values


def _mean(name: str, x: Floats, expected: float, variance: float | None) -> Check:
    """The mean of x against the law's, with the law's variance, or x's own where the law has none."""
    observed = float(x.mean())
    if variance is not None and variance < 1e-15:
        return _constant(name, observed, expected, float(np.abs(x - expected).max()))
    own = float(x.var(ddof=1)) if x.size > 1 else math.inf
    half = 1.96 * math.sqrt(own / x.size)
    error = math.sqrt((own if variance is None else variance) / x.size)
    return Check(
        name,
        observed,
        expected,
        observed - half,
        observed + half,
        _two_sided(observed - expected, error, x.size),
    )


def _variance(name: str, x: Floats, expected: float | None) -> Check:
    """The sample variance of x against the law's; its standard error comes from x's fourth moment."""
    if x.size < 2:
        return Check(name, math.nan, math.nan if expected is None else expected, -math.inf, math.inf, 1.0)
    observed = float(x.var(ddof=1))
    if expected is not None and expected < 1e-15:
        return _constant(name, observed, 0.0, observed)
    fourth = float(((x - x.mean()) ** 4).mean())
    error = math.sqrt(max(0.0, fourth - observed**2) / x.size)
    low, high = max(0.0, observed - 1.96 * error), observed + 1.96 * error
    if expected is None:
        return Check(name, observed, math.nan, low, high, 1.0)
    return Check(name, observed, expected, low, high, _two_sided(observed - expected, error, x.size))


def _constant(name: str, observed: float, expected: float, deviation: float) -> Check:
    """A quantity that is constant under the law: any deviation beyond rounding fails, at any number of rounds."""
    return Check(name, observed, expected, observed, observed, 1.0 if deviation < 1e-9 * max(1.0, expected) else 0.0)


def _two_sided(deviation: float, error: float, T: int) -> float:
    if T < FEWEST_ROUNDS:
        return 1.0
    if error == 0:
        return 1.0 if deviation == 0 else 0.0
    return 2 * NormalDist().cdf(-abs(deviation) / error)
