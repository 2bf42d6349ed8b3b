"""Clustered sampling: one draw from each of m distributions, which together give client i its m p_i."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.sampling.cluster_table import ClusterTable, Whole, narrowed, whole_shares
from fedmpi.sampling.law import Floats, Law
from fedmpi.sampling.md import counted
from fedmpi.sampling.scheme import Cohort, Scheme

VAR_N_LIMIT = 2048
"""Var N of clustered is exact up to this many clients; the cost is its square."""


@dataclass(frozen=True, eq=False)
class ClusteredLaw(Law):
    """The law of one draw from each row of a cluster table. There is no α.  [FVKL, Appendix A, "Clustered"]

    Cov(ω_i, ω_j) = −Σ_k r_ki r_kj / m². The text bounds it by MD's for every pair, which is false: two
    clients that share no cluster have covariance 0, above −p_i p_j/m. (Σω = 1 is kept, so as Σ falls the
    covariances rise.)
    """

    table: ClusterTable

    @cached_property
    def gamma(self) -> float:
        """1/m: the bound of clustered uses γ and α of MD, both 1/m.  [FVKL, Appendix B.6]"""
        return 1 / self.table.m

    def cov(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Cov(ω_i, ω_j), broadcast over i and j; builds r as a dense (m, n) array the first time."""
        i, j = np.asarray(i), np.asarray(j)
        shared = (self._rows[i] * self._rows[j]).sum(axis=-1) / self.table.m**2
        cov: Floats = np.where(i == j, self.var[i], -shared)
        return cov

    def cov_matrix(self) -> Floats:
        """The whole (n, n) covariance matrix of ω; for small n."""
        cov: Floats = -(self._rows @ self._rows.T) / self.table.m**2
        np.fill_diagonal(cov, self.var)
        return cov

    def cov_with_sum(self) -> Floats:
        """Zeros: Σω = 1 in every draw."""
        return np.zeros(self.p.size)

    def spread(self, x: Floats) -> float:
        """E‖Σ_i (ω_i − p_i) x_i‖², the noise that sampling adds to Σ_i p_i x_i; x: (n, d) float64.

        = (1/m) Σ_i p_i ‖x_i‖² − (1/m²) Σ_k ‖Σ_i r_ki x_i‖²   [FVKL, eq. (U3)]
        """
        cluster, client, _ = self.table.entries
        means = np.zeros((self.table.m, x.shape[1]))
        np.add.at(means, cluster, self.table.probabilities()[:, None] * x[client])
        return float(self.p @ (x * x).sum(axis=1) / self.table.m - (means * means).sum() / self.table.m**2)

    @cached_property
    def _rows(self) -> Floats:
        """r transposed, (n, m) float64."""
        rows = np.zeros((self.p.size, self.table.m))
        cluster, client, _ = self.table.entries
        np.add.at(rows, (client, cluster), self.table.probabilities())
        return rows


def law_of_table(p: Floats, table: ClusterTable) -> ClusteredLaw:
    """The law of one draw from each cluster of the table.

    Var ω_i = p_i/m − Σ_k r_ki²/m²,  Var Σω = 0,  E N = Σ_i [1 − Π_k (1 − r_ki)]   [FVKL, Appendix A]
    """
    m, n = table.m, p.size
    client = table.entries[1]
    r = table.probabilities()
    # Σ_k r_ki (1 − r_ki) = m p_i − Σ_k r_ki², and a client that owns a whole cluster adds exactly 0.
    var = np.bincount(client, weights=r * (1 - r), minlength=n) / m**2
    inclusion = included(table, n)
    return ClusteredLaw(
        p=p,
        var=var,
        alpha=None,
        inclusion=inclusion,
        var_sum=0.0,
        mean_N=float(inclusion.sum()),
        variance_of_N=lambda: variance_of_N(table, inclusion),
        table=table,
    )


def included(table: ClusterTable, n: int) -> Floats:
    """P(i ∈ S_t) = 1 − Π_k (1 − r_ki), shape (n,)."""
    with np.errstate(divide="ignore"):
        log_missed = np.log1p(-table.probabilities())
    missed = np.bincount(table.entries[1], weights=log_missed, minlength=n).astype(np.float64)
    return -np.expm1(missed)


def variance_of_N(table: ClusterTable, inclusion: Floats) -> float | None:
    """Var N of clustered, exactly, or None for more than VAR_N_LIMIT clients.

    Var N = Σ_i a_i (1 − a_i) + Σ_{i≠j} a_i a_j [Π_k (1 − o_ki o_kj) − 1],  a_i = P(i ∉ S_t),  o = r/(1 − r):
    the identity used for md, cluster by cluster. A client that fills a cluster has a_i = 0 and drops out.
    """
    n = inclusion.size
    if n > VAR_N_LIMIT:
        return None
    a = 1 - inclusion
    cluster, client, _ = table.entries
    r = table.probabilities()
    log_both = np.zeros((n, n))
    for k in range(table.m):
        here = (cluster == k) & (r < 1)
        odds = r[here] / (1 - r[here])
        with np.errstate(divide="ignore"):
            log_both[np.ix_(client[here], client[here])] += np.log1p(-np.minimum(np.outer(odds, odds), 1.0))
    pairs = a[:, None] * a * np.expm1(log_both)
    np.fill_diagonal(pairs, a * (1 - a))
    return max(0.0, float(pairs.sum()))


class Clustered(Scheme):
    """Clusters by size: clients in order of n_i, m n_i units each, poured into m clusters of capacity M.

    ω_i = (1/m) Σ_{k≤m} 𝟙(l_k = i), l_k drawn from r_k   [FVKL, Appendix A; the text's sum runs to K]

    A client with m p_i > 1 fills whole clusters, so m may exceed n. All arithmetic is in whole numbers: the sizes n_i
    if given, else p within one ulp.
    """

    name = "clustered"
    summary = "one draw from each of m clusters filled in order of size, weight count/m: varies less than md"

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None) -> None:
        super().__init__(p, m, sizes=sizes)
        shares, M = shares_of(self)
        order = np.argsort(-shares, kind="stable")
        shares = narrowed(shares, self.m * M)
        self.table = ClusterTable(self.m, M, order, np.cumsum(shares[order]) * self.m)

    def draw(self, rng: Generator) -> Cohort:
        """One client per cluster, as ClusterTable.draw says; O(m log n), no array of size n."""
        return counted(self.table.draw(rng), self.m)

    def law(self) -> ClusteredLaw:
        """See `law_of_table`."""
        return law_of_table(self.p, self.table)

    def inclusion(self) -> Floats:
        """P(i ∈ S_t), shape (n,)."""
        return included(self.table, self.n)

    def tables(self) -> Whole:
        """The (m, n) whole numbers M r_ki: every row sums to M, column i to m n_i. For small n."""
        return self.table.dense(self.n)


def shares_of(scheme: Scheme) -> tuple[Whole, int]:
    """(n_i, M) if the scheme has sizes, which must agree with p; else p as whole shares."""
    if scheme.sizes is None:
        return whole_shares(scheme.p, scheme.m)
    M = int(scheme.sizes.sum())
    if M == 0 or not np.allclose(scheme.sizes / M, scheme.p, rtol=1e-9, atol=0):
        raise ConfigError("sizes: p is not sizes / sum(sizes); pass sizes only where p_i = n_i / M")
    return scheme.sizes, M
