"""MD sampling: m independent draws from the multinomial distribution p."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedmpi.sampling.block_search import BlockSearch
from fedmpi.sampling.law import Floats, Ints, Law
from fedmpi.sampling.scheme import Cohort, Scheme

DISTINCT_P_LIMIT = 4096
"""Var N of md is exact up to this many distinct values of p; the cost is its square."""


def counted(clients: Ints, m: int) -> Cohort:
    """The cohort of m draws with repeats: each drawn client once, ω_i = (count of i)/m. clients: (m,) int64.

    A client drawn twice trains once and weighs 2/m.  [FVKL, eq. (MD_aggreg_weight)]
    """
    clients = np.sort(clients)
    starts = np.flatnonzero(clients[1:] != clients[:-1]) + 1
    bounds = np.concatenate(([0], starts, [m]))
    return Cohort(clients[bounds[:-1]], (bounds[1:] - bounds[:-1]) / m)


class MD(Scheme):
    """m iid draws l_k with P(l_k = i) = p_i; ω_i = (1/m) Σ_k 𝟙(l_k = i). m may exceed n.  [FVKL, §2]

    The text gives the support as {1..m}; it is {1..n}.
    """

    name = "md"
    summary = "m independent draws from p, weight count/m: the weights sum to 1"

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None) -> None:
        super().__init__(p, m, sizes=sizes)
        cumulative = np.cumsum(self.p)
        cumulative /= cumulative[-1]
        self._cumulative = BlockSearch(cumulative)

    def draw(self, rng: Generator) -> Cohort:
        """u = rng.random(m); each u draws the first i with u < p_0 + … + p_i. O(m log n), no array of size n.

        u is sorted so that the search reads the table in order, which is faster where it does not fit in the cache.
        """
        u = np.sort(rng.random(self.m))
        return counted(self._cumulative.first_above(u), self.m)

    def law(self) -> Law:
        """The law of md.

        Var ω_i = p_i (1 − p_i)/m,  α = 1/m,  Var Σω = 0,  E N = n − Σ_i (1 − p_i)^m   [FVKL, Appendix A]
        """
        inclusion = self.inclusion()
        return Law(
            p=self.p,
            var=self.p * (1 - self.p) / self.m,
            alpha=1 / self.m,
            inclusion=inclusion,
            var_sum=0.0,
            mean_N=float(inclusion.sum()),
            variance_of_N=lambda: variance_of_N(self.p, self.m),
        )

    def inclusion(self) -> Floats:
        """P(i ∈ S_t) = 1 − (1 − p_i)^m."""
        with np.errstate(divide="ignore"):
            missed: Floats = np.expm1(self.m * np.log1p(-self.p))
        return -missed


def variance_of_N(p: Floats, m: int) -> float | None:
    """Var N of md, exactly, or None for more than DISTINCT_P_LIMIT distinct importances.

    Var N = Σ_i a_i (1 − a_i) + Σ_{i≠j} [(1 − p_i − p_j)^m − a_i a_j],  a_i = P(i ∉ S_t) = (1 − p_i)^m.
    Since 1 − p_i − p_j = (1 − p_i)(1 − p_j)(1 − o_i o_j) with the odds o = p/(1 − p), the bracket is
    a_i a_j [(1 − o_i o_j)^m − 1], which loses no digits. Clients of equal p are counted together.
    """
    values, count = np.unique(p, return_counts=True)
    if values.size > DISTINCT_P_LIMIT:
        return None
    if values[-1] == 1.0:
        return 0.0
    a = np.exp(m * np.log1p(-values))
    odds = values / (1 - values)
    total = float(count @ (a * (1 - a)))
    for g in range(values.size):
        pairs = count * count[g]
        pairs[g] -= count[g]
        with np.errstate(divide="ignore"):
            # Two clients that hold all of p cannot both be missed; rounding may put their product above 1.
            both = np.expm1(m * np.log1p(-np.minimum(odds * odds[g], 1.0)))
        total += float(pairs @ (a * a[g] * both))
    return max(0.0, total)
