"""Theorem 1 with explicit constants: a bound on (1/T) Σ_t E‖∇L(θᵗ)‖², and the step sizes it holds for.

The constants are those at the end of the proof of the intermediary theorem [FVKL, Appendix B],
with two corrections:

- Its last display mixes D, E with D′, E′; here all of A–E are divided by 1 − Ω.
- Its Ω is too small by a factor 4. With G = L η̃ β² Σγ_i a_i² / K_eff, the coefficients of ‖∇L‖² add up to
  −½ + ¼ + (3/2) G, and this equals −¼ (1 − Ω) only for Ω = 6 G. (The text has Ω = (3/2) G, and so 3 instead
  of 12 in the condition Ω ≤ ½.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Law


@dataclass(frozen=True)
class Problem:
    """The constants of Theorem 1 that do not depend on the scheme.

    L: smoothness. sigma2: σ², variance of a stochastic gradient. beta2, kappa2: β² ≥ 1 and κ² of bounded
    dissimilarity. gap: L(θ⁰) − L(θ*). mu: client.mu of FedProx, 0 for SGD. The rest as in the config.
    """

    L: float = 1.0
    sigma2: float = 1.0
    kappa2: float = 1.0
    beta2: float = 1.0
    gap: float = 1.0
    eta_l: float = 0.01
    eta_g: float = 1.0
    K: int = 10
    T: int = 1000
    mu: float = 0.0

    def __post_init__(self) -> None:
        for name in ("L", "eta_l", "eta_g", "K", "T"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be a number above 0")
        for name in ("sigma2", "kappa2", "gap", "mu"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be a number of at least 0")
        if not 1 <= self.beta2 < math.inf:
            raise ConfigError(f"beta2 = {self.beta2}: must be at least 1, which identical clients have")
        if self.eta_l * self.mu > 1:
            raise ConfigError(f"mu = {self.mu}: eta_l · mu must be at most 1, so at most {1 / self.eta_l:g} here")

    @property
    def a(self) -> Floats:
        """a_k = (1 − η_l μ)^(K−1−k), shape (K,): the weight of local gradient k in Δ_i; ones for SGD.

        The text writes (1 − μ)^(K−1−k). A client here steps by −η_l (g + μ (θ − θᵗ)), so its μ is our η_l μ.
        """
        weights: Floats = (1 - self.eta_l * self.mu) ** np.arange(self.K - 1, -1, -1.0)
        return weights

    @property
    def K_eff(self) -> float:
        """Σ_i p_i ‖a_i‖₁ = ‖a‖₁, as all clients run the same solver; K for SGD."""
        return float(self.a.sum())


@dataclass(frozen=True)
class Condition:
    """One step-size condition, `left` ≤ 1, and the largest η_l that meets it with everything else fixed."""

    name: str
    formula: str
    left: float
    largest_eta_l: float

    @property
    def holds(self) -> bool:
        """Whether the condition is met."""
        return self.left <= 1


@dataclass(frozen=True)
class Bound:
    """Theorem 1 for one scheme: its constants, its terms, and its conditions.

    A–E as in the text; A′ = A/(1 − Ω) and so on. terms: the six summands of the bound, by name, in its order.
    The bound is proved only if every condition holds; for Ω ≥ 1 it is infinite.
    """

    K_eff: float
    R: float
    Omega: float
    A: float
    B: float
    C: float
    D: float
    E: float
    terms: dict[str, float]
    conditions: tuple[Condition, ...]

    @property
    def total(self) -> float:
        """The bound on (1/T) Σ_t E‖∇L(θᵗ)‖²."""
        return sum(self.terms.values())

    @property
    def primes(self) -> dict[str, float]:
        """A′–E′: A–E over 1 − Ω, infinite for Ω ≥ 1."""
        return {name: _over(getattr(self, name), 1 - self.Omega) for name in "ABCDE"}

    @property
    def holds(self) -> bool:
        """Whether every step-size condition is met."""
        return all(condition.holds for condition in self.conditions)

    @property
    def largest_eta_l(self) -> float:
        """The largest η_l that meets every condition."""
        return min(condition.largest_eta_l for condition in self.conditions)


def bound(problem: Problem, law: Law, m: int) -> Bound:
    """Theorem 1 for a scheme with this law.  [FVKL, Theorem 1 and eq. (end_intermediary)]

    (1/T) Σ_t E‖∇L(θᵗ)‖² ≤ 4 gap/((1−Ω) η̃ K_eff T) + 2L η̃ (A′/m) σ² + 3 η_l² L² B′ σ² + 6 η_l² L² C′ κ²
                           + 3L η̃ D′ σ² + 6L η̃ E′ κ²,   η̃ = η_g η_l

    A = (m/K_eff) ‖a‖₂² Σ_i (Var ω_i + p_i²),  B = ‖a‖₂² − a_{K−1}²,  C = ‖a‖₁ (‖a‖₁ − a_{K−1}),
    D = C γ/K_eff,  E = ‖a‖₁² γ/K_eff,  R = 2 η_l² L² C. m cancels in A/m.

    A clustered law has no α: its γ and α are MD's, 1/m, and only A sees its variances  [FVKL, Appendix B.6].
    (There the text calls D and E "E" and "F", and says A is smaller than "for Clustered" where it means MD.)
    """
    eta_l, L, a = problem.eta_l, problem.L, problem.a
    norm1, norm2, last = float(a.sum()), float(a @ a), float(a[-1])
    K_eff, eta = problem.K_eff, problem.eta_g * eta_l
    A = m / K_eff * norm2 * (law.Sigma + float(law.p @ law.p))
    B = norm2 - last**2
    C = norm1 * (norm1 - last)
    D = C * law.gamma / K_eff
    E = norm1**2 * law.gamma / K_eff
    Omega = 6 * L * eta * problem.beta2 * law.gamma * norm1**2 / K_eff
    rest = 1 - Omega
    terms = {
        "start": _over(4 * problem.gap, rest * eta * K_eff * problem.T),
        "A": _over(2 * L * eta * A / m * problem.sigma2, rest),
        "B": _over(3 * eta_l**2 * L**2 * B * problem.sigma2, rest),
        "C": _over(6 * eta_l**2 * L**2 * C * problem.kappa2, rest),
        "D": _over(3 * L * eta * D * problem.sigma2, rest),
        "E": _over(6 * L * eta * E * problem.kappa2, rest),
    }
    return Bound(
        K_eff=K_eff,
        R=2 * eta_l**2 * L**2 * C,
        Omega=Omega,
        A=A,
        B=B,
        C=C,
        D=D,
        E=E,
        terms=terms,
        conditions=conditions(problem, law),
    )


def conditions(problem: Problem, law: Law) -> tuple[Condition, ...]:
    """The three conditions on η_l, each as `left` ≤ 1.  [FVKL, "Synthesis of local learning rate conditions"]

    With s = η_l ‖a‖₁, the distance that K unit gradients move a client:
    drift 2 (2β²+1) L² s²,  descent L η_g (1−α) s,  sampling 2Ω = 12 L η_g β² γ s  (3 in the text, see above).
    """
    L, eta_g, beta2 = problem.L, problem.eta_g, problem.beta2
    # Clustered: α_MD = γ_MD = 1/m.
    alpha = law.gamma if law.alpha is None else law.alpha
    s = problem.eta_l * problem.K_eff
    drift = L * math.sqrt(2 * (2 * beta2 + 1))
    descent = L * eta_g * (1 - alpha)
    sampling = 12 * L * eta_g * beta2 * law.gamma

    def condition(name: str, formula: str, left: float, slope: float) -> Condition:
        return Condition(name, formula, left, eta_l_for_reach(_over(1, slope), problem))

    return (
        condition("drift", "2 (2β²+1) η_l² L² ‖a‖₁² < 1", (drift * s) ** 2, drift),
        condition("descent", "L η_g η_l (1−α) K_eff < 1", descent * s, descent),
        condition("sampling", "12 L η_g η_l β² Σγ_i a_i² / K_eff ≤ 1", sampling * s, sampling),
    )


def eta_l_for_reach(s: float, problem: Problem) -> float:
    """The η_l with η_l ‖a‖₁ = s: s/K for SGD; (1 − (1 − s μ)^(1/K))/μ for FedProx, at most 1/μ."""
    if problem.mu == 0:
        return s / problem.K
    if s * problem.mu >= 1:
        return 1 / problem.mu
    return -math.expm1(math.log1p(-s * problem.mu) / problem.K) / problem.mu


def _over(x: float, y: float) -> float:
    """x/y; infinite for y ≤ 0, where the theorem gives no bound."""
    return x / y if y > 0 else math.inf
