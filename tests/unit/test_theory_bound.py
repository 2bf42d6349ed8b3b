"""Theorem 1: its constants from loops over i and k, the step sizes from bisection, and the corrected Ω."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedmpi.errors import ConfigError
from fedmpi.sampling import make_scheme
from fedmpi.theory import Problem, bound

P = np.array([0.4, 0.3, 0.2, 0.1])
SGD = Problem(L=2.0, sigma2=3.0, kappa2=0.7, beta2=1.5, gap=5.0, eta_l=0.003, eta_g=0.8, K=6, T=50)
PROX = dataclasses.replace(SGD, mu=20.0)


@pytest.mark.parametrize("problem", [SGD, PROX, dataclasses.replace(SGD, K=1)])
@pytest.mark.parametrize("name", ["full", "md", "uniform", "binomial", "poisson", "clustered"])
def test_constants_and_terms_from_their_definitions(problem: Problem, name: str) -> None:
    m = 2
    law = make_scheme(name, p=P, m=m).law()
    found = bound(problem, law, m)
    K, eta = problem.K, problem.eta_l * problem.eta_g
    a = [[(1 - problem.eta_l * problem.mu) ** (K - 1 - k) for k in range(K)] for _ in P]
    a1, a2, last = [sum(x) for x in a], [sum(y * y for y in x) for x in a], [x[-1] for x in a]
    K_eff = sum(P[i] * a1[i] for i in range(4))
    # Clustered's γ_i are MD's: p_i/m.
    gamma_i = P / m if law.alpha is None else law.var + law.alpha * P**2
    A = m / K_eff * sum((law.var[i] + P[i] ** 2) * a2[i] for i in range(4))
    B = sum(P[i] * a1[i] / K_eff * (a2[i] - last[i] ** 2) for i in range(4))
    C = max(a1[i] * (a1[i] - last[i]) for i in range(4))
    D, E = C * sum(gamma_i) / K_eff, max(x * x for x in a1) * sum(gamma_i) / K_eff
    Omega = 6 * problem.L * eta / K_eff * sum(gamma_i[i] * a1[i] ** 2 for i in range(4)) * problem.beta2
    assert [found.K_eff, found.A, found.B, found.C, found.D, found.E, found.Omega] == pytest.approx(
        [K_eff, A, B, C, D, E, Omega]
    )
    assert pytest.approx(2 * problem.eta_l**2 * problem.L**2 * C) == found.R
    L, s2, k2 = problem.L, problem.sigma2, problem.kappa2
    total = (
        4 * problem.gap / (eta * K_eff * problem.T)
        + 2 * L * eta / m * A * s2
        + 3 * problem.eta_l**2 * L**2 * B * s2
        + 6 * problem.eta_l**2 * L**2 * C * k2
        + 3 * L * eta * D * s2
        + 6 * L * eta * E * k2
    ) / (1 - Omega)
    assert found.total == pytest.approx(total)
    assert found.primes["A"] == pytest.approx(A / (1 - Omega))


def test_sgd_constants_of_the_main_text() -> None:
    """A = m(Σ + Σp²), B = K−1, C = K(K−1), D = (K−1)γ, E = Kγ."""
    law = make_scheme("uniform", p=P, m=2).law()
    found = bound(SGD, law, 2)
    expected = [2 * (law.Sigma + P @ P), 5, 30, 5 * law.gamma, 6 * law.gamma]
    assert pytest.approx(expected) == [found.A, found.B, found.C, found.D, found.E]


def test_omega_makes_the_coefficients_of_the_gradient_add_up() -> None:
    """The proof's −½ + Rβ²/(2(1−R)) + (L η̃/K_eff)(1/(1−R)) Σγ_i a_i² β² ≤ −¼(1−Ω): with 6, not with 3/2."""
    law = make_scheme("md", p=P, m=2).law()
    R = 1 / (2 * SGD.beta2 + 1)
    sampled = SGD.L * SGD.eta_l * SGD.eta_g * law.gamma * SGD.K * SGD.beta2
    coefficient = -0.5 + R * SGD.beta2 / (2 * (1 - R)) + sampled / (1 - R)
    assert coefficient <= -0.25 * (1 - bound(SGD, law, 2).Omega)
    assert coefficient > -0.25 * (1 - 1.5 * sampled)


@pytest.mark.parametrize("mu", [0.0, 0.5, 40.0])
@pytest.mark.parametrize("name", ["full", "md", "uniform", "clustered"])
def test_largest_eta_l_is_where_each_condition_turns(name: str, mu: float) -> None:
    law = make_scheme(name, p=P, m=2).law()
    conditions = bound(dataclasses.replace(SGD, mu=mu), law, 2).conditions
    assert [c.name for c in conditions] == ["drift", "descent", "sampling"]
    for k, condition in enumerate(conditions):
        if condition.largest_eta_l == np.inf:
            assert name == "full"
            assert condition.name == "sampling"
            assert mu == 0
            continue

        def left(eta_l: float, k: int = k) -> float:
            return bound(dataclasses.replace(SGD, mu=mu, eta_l=eta_l), law, 2).conditions[k].left

        low, high = 1e-12, 1 / mu if mu else 100.0
        if left(high) <= 1:
            assert condition.largest_eta_l == pytest.approx(high)
            continue
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if left(middle) <= 1 else (low, middle)
        assert condition.largest_eta_l == pytest.approx(low, rel=1e-9)


def test_a_step_too_large_is_told_and_the_bound_becomes_infinite() -> None:
    law = make_scheme("md", p=P, m=2).law()
    large = bound(dataclasses.replace(SGD, eta_l=1.0), law, 2)
    assert not large.holds
    assert large.total == np.inf
    assert large.Omega > 1
    assert all(not c.holds and c.left > 1 for c in large.conditions)
    fits = bound(dataclasses.replace(SGD, eta_l=large.largest_eta_l * (1 - 1e-9)), law, 2)
    assert fits.holds
    assert fits.Omega <= 0.5
    assert np.isfinite(fits.total)


def test_clustered_bound_is_below_mds_by_its_variances_alone() -> None:
    md, clustered = (bound(SGD, make_scheme(name, p=P, m=2).law(), 2) for name in ("md", "clustered"))
    assert clustered.A < md.A
    assert clustered.total < md.total
    assert pytest.approx([md.B, md.C, md.D, md.E]) == [clustered.B, clustered.C, clustered.D, clustered.E]
    assert [c.left for c in clustered.conditions] == pytest.approx([c.left for c in md.conditions])


@pytest.mark.parametrize(("key", "value"), [("beta2", 0.5), ("L", 0.0), ("sigma2", -1.0), ("mu", 1e6), ("K", 0)])
def test_constants_out_of_range(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        dataclasses.replace(SGD, **{key: value})
