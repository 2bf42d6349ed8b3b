"""Exact expectations of whole runs on quadratic clients, L_i(θ) = ½‖θ − θ_i*‖²."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedmpi.sampling.law import Floats, Law


def local_contraction(eta_l: float, K: int, mu: float = 0.0) -> float:
    """φ with Δ_i = φ (θ_i* − θ) after K exact gradient steps: φ = 1 − (1 − η_l)^K.

    With FedProx's μ the step is −η_l (θ_k − θ_i* + μ (θ_k − θ)), and φ = [1 − (1 − η_l (1+μ))^K]/(1+μ).
    """
    return float((1 - (1 - eta_l * (1 + mu)) ** K) / (1 + mu))


def expected_squared_error(
    law: Law,
    minima: ArrayLike,
    theta0: ArrayLike,
    *,
    T: int,
    eta_l: float,
    K: int,
    eta_g: float = 1.0,
    mu: float = 0.0,
) -> Floats:
    """E‖θᵗ − θ*‖² for t = 0 … T, shape (T+1,), exactly; θ* = Σ_i p_i θ_i*.

    With e = θ − θ*, b_i = θ_i* − θ* and c = η_g φ, one round is e⁺ = (1 − c Σω) e + c Σ_i ω_i b_i. The draw
    does not depend on e and Σ p_i b_i = 0, so

    E e⁺    = (1 − c) E e
    E‖e⁺‖² = [(1 − c)² + c² Var Σω] E‖e‖² − 2c² ⟨Σ_i Cov(ω_i, Σω) b_i, E e⟩ + c² E‖Σ_i (ω_i − p_i) b_i‖².

    The last expectation is [FVKL, Lemma 1] where there is an α, and clustered's own covariance where not.
    minima: (n, d) float64, the θ_i*. theta0: (d,) float64.
    """
    minima = np.asarray(minima, dtype=np.float64)
    target = law.p @ minima
    b = minima - target
    c = eta_g * local_contraction(eta_l, K, mu)
    along = law.cov_with_sum() @ b
    spread = law.spread(b)
    error = np.asarray(theta0, dtype=np.float64) - target
    squared = np.empty(T + 1)
    squared[0] = error @ error
    for t in range(T):
        squared[t + 1] = contraction(law, c) * squared[t] - 2 * c**2 * (along @ error) + c**2 * spread
        error = (1 - c) * error
    return squared


def contraction(law: Law, c: float) -> float:
    """(1 − c)² + c² Var Σω, the factor of E‖e‖² per round, c = η_g φ; the run converges iff it is below 1."""
    return (1 - c) ** 2 + c**2 * law.var_sum


def plateau(law: Law, minima: ArrayLike, *, eta_l: float, K: int, eta_g: float = 1.0, mu: float = 0.0) -> float:
    """The limit of E‖θᵗ − θ*‖², c² E‖Σ(ω_i − p_i) b_i‖²/(1 − contraction); infinite if the run diverges."""
    minima = np.asarray(minima, dtype=np.float64)
    c = eta_g * local_contraction(eta_l, K, mu)
    factor = contraction(law, c)
    if factor >= 1:
        return float("inf")
    return c**2 * law.spread(minima - law.p @ minima) / (1 - factor)
