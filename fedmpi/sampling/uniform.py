"""Schemes that draw all clients with the same probability: full, uniform and binomial."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from fedmpi.sampling.law import Floats, Ints, Law, independent
from fedmpi.sampling.scheme import Cohort, Scheme


def distinct(rng: Generator, n: int, count: int) -> Ints:
    """`count` of n clients without replacement, sorted, in O(count).

    Uses rng.choice(n, count, replace=False, shuffle=False), then sorts. numpy uses Floyd's algorithm unless
    count > n/20, so an array of size n is allocated only where the cohort is of similar size.
    """
    return np.sort(rng.choice(n, count, replace=False, shuffle=False))


class Full(Scheme):
    """Every client, every round: ω_i = p_i. m is not used.  [FVKL, Appendix A, "No sampling scheme"]"""

    name = "full"
    summary = "every client, weight p_i: the reference without sampling"

    def draw(self, rng: Generator) -> Cohort:
        """All n clients with ω = p. Uses no randomness."""
        return Cohort(np.arange(self.n, dtype=np.int64), self.p.copy())

    def law(self) -> Law:
        """The law of full participation: Var ω_i = 0, α = 0, N = n."""
        return Law(
            p=self.p,
            var=np.zeros(self.n),
            alpha=0.0,
            inclusion=np.ones(self.n),
            var_sum=0.0,
            mean_N=float(self.n),
            variance_of_N=lambda: 0.0,
        )


class Uniform(Scheme):
    """m of n clients without replacement, ω_i = (n/m) p_i if drawn.  [FVKL, eq. (Uniform_aggreg_weight)]"""

    name = "uniform"
    summary = "m of n without replacement, weight (n/m) p_i"
    largest_m_is_n = True

    def draw(self, rng: Generator) -> Cohort:
        """m distinct clients in O(m log m): the sorted rng.choice(n, m, replace=False, shuffle=False)."""
        clients = distinct(rng, self.n, self.m)
        return Cohort(clients, self.p[clients] * (self.n / self.m))

    def law(self) -> Law:
        """The law of uniform.  [FVKL, Appendix A]

        Var ω_i = (n/m − 1) p_i²,  α = (n − m)/(m (n − 1)),  Var Σω = α (n Σp² − 1),  N = m
        A single client (n = m = 1) has no pair, so α is taken as 0.
        """
        n, m = self.n, self.m
        alpha = (n - m) / (m * (n - 1)) if n > 1 else 0.0
        return Law(
            p=self.p,
            var=(n / m - 1) * self.p**2,
            alpha=alpha,
            inclusion=np.full(n, m / n),
            # n Σp² − 1 = n Σ (p_i − 1/n)², which is exactly 0 for equal p.
            var_sum=alpha * n * float(np.square(self.p - 1 / n).sum()),
            mean_N=float(m),
            variance_of_N=lambda: 0.0,
        )

    def inclusion(self) -> Floats:
        """m/n for everyone."""
        return np.full(self.n, self.m / self.n)


class Binomial(Scheme):
    """Each client on its own with probability m/n, ω_i = (n/m) p_i if drawn.  [FVKL, Appendix A]"""

    name = "binomial"
    summary = "each with probability m/n, weight (n/m) p_i; may draw nobody"
    largest_m_is_n = True

    def draw(self, rng: Generator) -> Cohort:
        """N = rng.binomial(n, m/n), then N of n as in `uniform`: the same law as n coins, in O(N log N)."""
        count = int(rng.binomial(self.n, self.m / self.n))
        clients = distinct(rng, self.n, count)
        return Cohort(clients, self.p[clients] * (self.n / self.m))

    def law(self) -> Law:
        """The law of binomial.  [FVKL, Appendix A]

        Var ω_i = ((n − m)/m) p_i²,  α = 0,  Var Σω = ((n − m)/m) Σp²,  E N = m,  Var N = m − m²/n
        """
        return independent(self.p, self.inclusion(), self.p * (self.n / self.m))

    def inclusion(self) -> Floats:
        """m/n for everyone."""
        return np.full(self.n, self.m / self.n)
