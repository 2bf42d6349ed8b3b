"""Cluster tables in whole numbers: m distributions r_k over the clients, whose sums hold exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.sampling.law import Floats, Ints
from fedmpi.sampling.search import BlockSearch

Whole = NDArray[Any]
"""int64 where every number fits, else an object array of Python ints: the same code runs on both."""

INT64_ROOM = 2**62


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """m clusters of capacity M, laid end to end on [0, m M); cluster k is [k M, (k+1) M), r_ki = (units of i in it)/M.

    client: (s,) int64, whose segment it is. end: (s,) whole numbers, ascending, where it ends; the last is m M.
    A segment may run through several clusters, and a client may own several segments.
    """

    m: int
    M: int
    client: Ints
    end: Whole

    def draw(self, rng: Generator) -> Ints:
        """One client from each cluster, (m,) int64, by one search in one table.

        Cluster k draws the owner of the point k M + u_k. u = rng.integers(0, M, size=m) if m M fits int64;
        else u_k = ⌊w_k M / 2⁶⁴⌋ with w = rng.integers(0, 2⁶⁴, size=m, dtype=uint64).
        """
        if self.end.dtype == object:
            words = rng.integers(0, 2**64, size=self.m, dtype=np.uint64, endpoint=False)
            points: Whole = np.array(
                [k * self.M + (int(w) * self.M >> 64) for k, w in enumerate(words)], dtype=object
            )
        else:
            points = rng.integers(0, self.M, size=self.m) + self._cluster_start
        return self.client[self._search.first_above(points)]

    @cached_property
    def _cluster_start(self) -> Ints:
        return np.arange(self.m, dtype=np.int64) * self.M

    @cached_property
    def _search(self) -> BlockSearch:
        return BlockSearch(self.end)

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


def whole_shares(p: Floats) -> tuple[Whole, int]:
    """Whole numbers P and their sum M, exactly, with P_i/M within one ulp of p_i.

    Equal importances become ones, M = n. Otherwise every float64 is a whole number over a power of two, so p is
    taken over the common one, M = 2^b, and what their sum misses of M (the rounding of p) is spread over the
    largest, no client giving or taking more than one ulp. Where that is not enough there are no such numbers;
    then M is the sum itself, and P_i/M is exactly p_i/Σp.
    """
    if p.min() == p.max():
        return np.ones(p.size, dtype=np.int64), p.size
    shares, ulps, M = _over_power_of_two(p)
    total = int(shares.sum())
    missing = M - total
    if abs(missing) > int(ulps.sum()):
        return shares, total
    order = np.argsort(-p, kind="stable")
    given = np.minimum(np.cumsum(ulps[order]), abs(missing))
    shares[order] += np.diff(given, prepend=0) * (1 if missing > 0 else -1)
    return shares, M


def _over_power_of_two(p: Floats) -> tuple[Whole, Whole, int]:
    """(shares, ulps, M): p_i = shares_i/M exactly, and one ulp of p_i is ulps_i/M (0 for p_i = 0). Object arrays."""
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
