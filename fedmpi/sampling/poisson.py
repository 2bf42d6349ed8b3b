"""Poisson sampling: each client on its own with probability m p_i."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Law, independent
from fedmpi.sampling.scheme import Cohort, Scheme
from fedmpi.sampling.uniform import distinct


class Poisson(Scheme):
    """Each client on its own with probability m p_i, ω_i = 1/m if drawn.  [FVKL, Appendix A, "Poisson"]

    Feasible iff m ≤ 1/p_max; the text has this the wrong way round ("m ≥ 1/p_max").
    """

    name = "poisson"
    summary = "each with probability m p_i, weight 1/m; needs m ≤ 1/p_max; may draw nobody"

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None) -> None:
        super().__init__(p, m, sizes=sizes)
        p_max = float(self.p.max())
        # One rounding of p must not forbid m = n with p_i = 1/n.
        if self.m * p_max > 1 + 1e-12:
            raise ConfigError(
                f"sampling.m = {self.m}: scheme 'poisson' needs m · p_max ≤ 1 and p_max = {p_max:.6g}; "
                f"the largest feasible m is {math.floor((1 + 1e-12) / p_max)}"
            )
        self._fill_buckets()

    def _fill_buckets(self) -> None:
        """Orders the clients into buckets b = 0, 1, … of probability 2^−(b+1) ≤ m p_i < 2^−b (or 1, in the first).

        The last bucket, b = ⌈log₂ n⌉ + 1, takes all smaller ones: it proposes less than one client per draw.
        """
        last = math.ceil(math.log2(self.n)) + 1
        bucket = np.empty(self.n, dtype=np.int8)
        # In slices, because n = 10⁸ would otherwise need three more arrays of that size.
        for start in range(0, self.n, 1 << 20):
            part = slice(start, start + (1 << 20))
            probability = self.p[part] * self.m
            # frexp gives e with 2^(e−1) ≤ probability < 2^e, and e = 0 for 0.
            bucket[part] = np.where(probability > 0, np.clip(-np.frexp(probability)[1], 0, last), last)
        self._order = np.argsort(bucket, kind="stable")
        size = np.bincount(bucket, minlength=last + 1)
        filled = np.flatnonzero(size)
        self._size = size[filled]
        self._start = (np.cumsum(size) - size)[filled]
        self._ceiling = 0.5**filled

    def draw(self, rng: Generator) -> Cohort:
        """Proposals from each bucket at its ceiling 2^−b, thinned to m p_i: O(m + log n), no array of size n.

        Uses counts = rng.binomial(bucket sizes, ceilings), then per bucket with a count `distinct(rng, size,
        count)`, then one rng.random over all proposals: a proposal is kept if random · 2^−b < m p_i. Drawing
        first the number and then the clients has the same law as geometric skips through the bucket. At least half
        of the proposals are kept, except in the last bucket.
        """
        counts = rng.binomial(self._size, self._ceiling)
        rows = np.flatnonzero(counts)
        if rows.size == 0:
            return Cohort(np.empty(0, dtype=np.int64), np.empty(0))
        places = [self._start[b] + distinct(rng, int(self._size[b]), int(counts[b])) for b in rows]
        proposed = self._order[np.concatenate(places)]
        ceiling = np.repeat(self._ceiling[rows], counts[rows])
        kept = rng.random(proposed.size) * ceiling < self.p[proposed] * self.m
        clients = np.sort(proposed[kept])
        return Cohort(clients, np.full(clients.size, 1 / self.m))

    def law(self) -> Law:
        """The law of poisson.  [FVKL, Appendix A]

        Var ω_i = p_i (1 − m p_i)/m,  α = 0,  Var Σω = 1/m − Σp²,  E N = m,  Var N = m − m² Σp²
        """
        return independent(self.p, self.inclusion(), np.full(self.n, 1 / self.m))

    def inclusion(self) -> Floats:
        """P(i ∈ S_t) = m p_i."""
        return np.minimum(self.m * self.p, 1.0)
