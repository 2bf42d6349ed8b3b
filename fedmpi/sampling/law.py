"""The law of the weights ω: mean, variance, covariance, and the number of clients drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Law:
    """The law of the weights ω of one scheme, in closed form.  [FVKL, Table 1 and Appendix A]

    p: (n,) float64, E[ω_i]. var: (n,) float64, Var ω_i. inclusion: (n,) float64, P(i ∈ S_t).
    alpha: the α of the assumption Cov(ω_i, ω_j) = −α p_i p_j for i ≠ j; None where there is none.
    var_sum: Var Σ_i ω_i. mean_N: E N, N = number of distinct clients drawn.
    variance_of_N: returns Var N, or None where it costs too much; called once, when var_N is first read.
    """

    p: Floats
    var: Floats
    alpha: float | None
    inclusion: Floats
    var_sum: float
    mean_N: float
    variance_of_N: Callable[[], float | None]

    @cached_property
    def var_N(self) -> float | None:
        """Var N, or None where it costs too much to compute."""
        return self.variance_of_N()

    @cached_property
    def Sigma(self) -> float:
        """Σ = Σ_i Var ω_i.  [FVKL, Theorem 1]"""
        return float(self.var.sum())

    @cached_property
    def gamma(self) -> float:
        """γ = Σ + α Σ_i p_i².  [FVKL, Theorem 1]"""
        return self.Sigma + self._alpha * float(self.p @ self.p)

    def cov(self, i: ArrayLike, j: ArrayLike) -> Floats:
        """Cov(ω_i, ω_j), broadcast over i and j: Var ω_i on the diagonal, −α p_i p_j off it."""
        i, j = np.asarray(i), np.asarray(j)
        cov: Floats = np.where(i == j, self.var[i], -self._alpha * self.p[i] * self.p[j])
        return cov

    def cov_matrix(self) -> Floats:
        """The whole (n, n) covariance matrix of ω; for small n."""
        i = np.arange(self.p.size)
        return self.cov(i[:, None], i)

    def cov_with_sum(self) -> Floats:
        """Cov(ω_i, Σ_j ω_j) = Var ω_i − α p_i (1 − p_i), shape (n,)."""
        return self.var - self._alpha * self.p * (1 - self.p)

    def spread(self, x: Floats) -> float:
        """E‖Σ_i (ω_i − p_i) x_i‖², the noise that sampling adds to Σ_i p_i x_i; x: (n, d) float64.

        = Σ_i γ_i ‖x_i‖² − α ‖Σ_i p_i x_i‖²,  γ_i = Var ω_i + α p_i²   [FVKL, Lemma 1]
        """
        gamma_i = self.var + self._alpha * self.p**2
        mean = self.p @ x
        return float(gamma_i @ (x * x).sum(axis=1) - self._alpha * (mean @ mean))

    @property
    def _alpha(self) -> float:
        if self.alpha is None:
            raise TypeError("this law has no α: it must define gamma, cov, cov_with_sum and spread itself")
        return self.alpha


def independent(p: Floats, q: Floats, weight: Floats) -> Law:
    """The law of independent Bernoulli(q_i) inclusions with ω_i = weight_i if drawn (α = 0).

    Var ω_i = q_i (1 − q_i) weight_i²,  E N = Σ q_i,  Var N = Σ q_i (1 − q_i). All three arrays: (n,) float64.
    """
    var = q * (1 - q) * weight**2
    return Law(
        p=p,
        var=var,
        alpha=0.0,
        inclusion=q,
        var_sum=float(var.sum()),
        mean_N=float(q.sum()),
        variance_of_N=lambda: float((q * (1 - q)).sum()),
    )
