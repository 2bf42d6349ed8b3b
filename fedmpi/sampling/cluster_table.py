"""Cluster tables: m distributions r_k over the clients, in whole numbers, so that their sums hold exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.sampling.block_search import BlockSearch
from fedmpi.sampling.law import Floats, Ints

Whole = NDArray[Any]
"""int64 where every number fits, else an object array of Python ints: the same code runs on both."""

INT64_ROOM = 2**62
EXACT_N = 100_000
"""Up to this many clients, p without sizes is converted exactly; Python ints take a second per 200,000."""


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """m clusters of capacity M, laid end to end: cluster k is [k M, (k+1) M), r_ki = (units of i in it)/M.

    client: (s,) int64, the owner of each segment. end: (s,) whole numbers, ascending, where it ends; the last is m M.
    A segment may run through several clusters, and a client may own several segments.
    """

    m: int
    M: int
    client: Ints
    end: Whole

    def draw(self, rng: Generator) -> Ints:
        """One client from each cluster, (m,) int64, by one search in one table.

        u = rng.integers(0, C, size=m), and cluster k draws the owner of the point k C + u_k, where C = M. If m M
        is beyond int64, C = ⌊2⁶²/m⌋ and segments end where ⌊end · C/M⌋ says: r_ki is then drawn to 1/C.
        """
        points = rng.integers(0, self._C, size=self.m) + self._cluster_start
        return self.client[self._search.first_above(points)]

    @cached_property
    def _C(self) -> int:
        return self.M if self.end.dtype != object else INT64_ROOM // self.m

    @cached_property
    def _cluster_start(self) -> Ints:
        return np.arange(self.m, dtype=np.int64) * self._C

    @cached_property
    def _search(self) -> BlockSearch:
        return BlockSearch(self.end if self.end.dtype != object else (self.end * self._C // self.M).astype(np.int64))

    @cached_property
    def entries(self) -> tuple[Ints, Ints, Whole]:
        """The non-zeros of r as (cluster, client, units), at most s + m of them; units/M is r_ki."""
        cluster_end = np.arange(1, self.m + 1, dtype=self.end.dtype) * self.M
        cut = np.unique(np.concatenate([self.end, cluster_end]))
        cut = cut[cut > 0]
        units = np.diff(cut, prepend=cut.dtype.type(0) if cut.dtype != object else 0)
        inside = cut - 1
        owner = self.client[np.searchsorted(self.end, inside, side="right")]
        return (inside // self.M).astype(np.int64), owner, units

    def probabilities(self) -> Floats:
        """r_ki of each entry as float64."""
        units = self.entries[2]
        if units.dtype == object:
            return np.array([u / self.M for u in units], dtype=np.float64)
        return units / self.M

    def dense(self, n: int) -> Whole:
        """The (m, n) table of units; every row sums to M, column i to m n_i. For small n."""
        table = np.zeros((self.m, n), dtype=self.end.dtype)
        cluster, client, units = self.entries
        np.add.at(table, (cluster, client), units)
        return table


def whole_shares(p: Floats, m: int) -> tuple[Whole, int]:
    """Whole numbers P and their sum M, exactly, with P_i/M within one ulp of p_i.

    Equal importances become ones, M = n. Otherwise every float64 is a whole number over a power of two. With the common
    denominator M = 2^b, the sum differs from M by the rounding of p; this difference is spread over the clients, at
    most one ulp each. Where it is larger than that, M is the sum itself, and P_i/M is exactly p_i/Σp.

    For more than EXACT_N clients P_i is p_i 2^b rounded, b such that m M fits int64, and the ulp is that of 2^−b.
    """
    if p.min() == p.max():
        return np.ones(p.size, dtype=np.int64), p.size
    shares, ulps, M = _over_power_of_two(p) if p.size <= EXACT_N else _rounded(p, 61 - m.bit_length())
    total = int(shares.sum())
    missing = M - total
    if abs(missing) > int(ulps.sum()):
        return shares, total
    given = np.minimum(np.cumsum(ulps), abs(missing))
    shares += np.diff(given, prepend=0) * (1 if missing > 0 else -1)
    return shares, M


def _rounded(p: Floats, b: int) -> tuple[Whole, Whole, int]:
    """(shares, ulps, M) in int64: p_i = shares_i/M within half an ulp of M = 2^b."""
    shares = np.rint(np.ldexp(p, b)).astype(np.int64)
    # A client with a single unit keeps it; otherwise it would never be drawn.
    return shares, (shares > 1).astype(np.int64), 1 << b


def _over_power_of_two(p: Floats) -> tuple[Whole, Whole, int]:
    """(shares, ulps, M), Python ints: p_i = shares_i/M exactly, one ulp of p_i is ulps_i/M (0 if p_i = 0)."""
    exponent = np.frexp(p)[1]
    exponent = np.where(p > 0, np.maximum(exponent - 53, -1074), 0)
    b = max(0, -int(exponent.min()))
    whole = np.ldexp(p, -exponent).astype(np.int64).astype(object)
    shift = (exponent + b).astype(object)
    ulps = np.where(p > 0, np.left_shift(np.ones(p.size, dtype=object), shift), 0)
    return np.left_shift(whole, shift), ulps, 1 << b


def narrowed(whole: Whole, largest: int) -> Whole:
    """`whole` as int64 if every number up to `largest` fits, else as Python ints."""
    return whole.astype(np.int64 if largest < INT64_ROOM else object, copy=False)
