"""The exact recursion against runs that go through `draw`, and against the biased baselines' fate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedmpi.sampling import make_scheme
from fedmpi.theory import expected_squared_error, local_contraction, plateau

SCHEMES = ["md", "uniform", "binomial", "poisson", "clustered"]
ETA_L, ETA_G, K = 0.1, 0.9, 3


def federation() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(sizes, p, minima, θ⁰): small and large clients with different minima; poisson can draw 5."""
    sizes = np.array([3, 4, 5, 4, 3, 34, 33, 35, 36, 34])
    minima = 0.5 * np.random.default_rng(11).normal(size=(10, 4)) + np.linspace(-2, 2, 10)[:, None]
    return sizes, sizes / sizes.sum(), minima, np.full(4, 4.0)


def simulate(name: str, m: int, runs: int, T: int, mu: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """(‖θᵗ − θ*‖² of each run and round, (runs, T+1); the last θ of each run), local steps one by one."""
    sizes, p, minima, theta0 = federation()
    scheme = make_scheme(name, p=p, m=m, sizes=sizes)
    rng = np.random.default_rng(77)
    theta = np.tile(theta0, (runs, 1))
    squared = np.empty((runs, T + 1))
    for t in range(T + 1):
        squared[:, t] = ((theta - p @ minima) ** 2).sum(axis=1)
        omega = np.zeros((runs, p.size))
        for row, now in zip(omega, theta, strict=True):
            cohort = scheme.draw(rng, **seen(scheme, rng, minima, now))
            row[cohort.clients] = cohort.omega
        local = np.repeat(theta[:, None, :], p.size, axis=1)
        for _ in range(K):
            local -= ETA_L * (local - minima + mu * (local - theta[:, None, :]))
        theta = theta + ETA_G * np.einsum("ri,rid->rd", omega, local - theta[:, None, :])
    return squared, theta


def seen(scheme, rng, minima: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
    if scheme.probe != "loss":
        return {}
    candidates = scheme.candidates(rng)
    return {"candidates": candidates, "losses": ((minima[candidates] - theta) ** 2).sum(axis=1) / 2}


def compare(name: str, runs: int, rounds: tuple[int, ...], mu: float = 0.0) -> None:
    sizes, p, minima, theta0 = federation()
    law = make_scheme(name, p=p, m=5, sizes=sizes).law()
    exact = expected_squared_error(law, minima, theta0, T=rounds[-1], eta_l=ETA_L, K=K, eta_g=ETA_G, mu=mu)
    squared, _ = simulate(name, 5, runs, rounds[-1], mu)
    for t in rounds:
        error = squared[:, t].std(ddof=1) / np.sqrt(runs)
        assert abs(squared[:, t].mean() - exact[t]) <= 4 * error, (name, t)


@pytest.mark.parametrize("name", SCHEMES)
def test_recursion_equals_the_mean_of_many_runs(name: str) -> None:
    compare(name, runs=400, rounds=(1, 10, 30))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_recursion_equals_the_mean_of_2000_runs_of_100_rounds(name: str) -> None:
    compare(name, runs=2000, rounds=(1, 10, 100))


def test_recursion_with_fedprox() -> None:
    compare("uniform", runs=300, rounds=(1, 5), mu=0.7)


def test_without_sampling_the_run_is_gradient_descent() -> None:
    sizes, p, minima, theta0 = federation()
    law = make_scheme("full", p=p, m=1, sizes=sizes).law()
    exact = expected_squared_error(law, minima, theta0, T=7, eta_l=ETA_L, K=K, eta_g=ETA_G)
    squared, _ = simulate("full", 1, 1, 7)
    assert np.allclose(exact, squared[0], rtol=1e-12)
    assert local_contraction(0.1, 3) == pytest.approx(1 - 0.9**3)


def test_the_laws_differ_enough_for_the_comparison_to_see_it() -> None:
    """No two plateaus are within 5 % of each other, so that a law in another's place would be noticed."""
    sizes, p, minima, _ = federation()
    levels = sorted(
        plateau(make_scheme(name, p=p, m=5, sizes=sizes).law(), minima, eta_l=ETA_L, K=K, eta_g=ETA_G)
        for name in SCHEMES
    )
    assert all(above > 1.05 * below for below, above in itertools.pairwise(levels))


def test_plateau_is_where_the_recursion_ends_and_may_be_infinite() -> None:
    sizes, p, minima, theta0 = federation()
    law = make_scheme("uniform", p=p, m=5, sizes=sizes).law()
    exact = expected_squared_error(law, minima, theta0, T=2000, eta_l=ETA_L, K=K, eta_g=ETA_G)
    assert exact[-1] == pytest.approx(plateau(law, minima, eta_l=ETA_L, K=K, eta_g=ETA_G), rel=1e-9)
    # One client holds nearly everything: uniform's Σω varies so much that full steps diverge.  [FVKL, §3.2]
    p = np.array([0.9] + [0.1 / 99] * 99)
    minima = np.random.default_rng(0).normal(size=(100, 2))
    assert plateau(make_scheme("uniform", p=p, m=5).law(), minima, eta_l=0.2, K=10) == np.inf
    assert plateau(make_scheme("md", p=p, m=5).law(), minima, eta_l=0.2, K=10) < np.inf


def test_biased_baselines_converge_elsewhere() -> None:
    """Mean of θ over runs at the end: the unbiased schemes centre on θ*, the biased ones visibly do not."""
    _, p, minima, _ = federation()
    target, T, runs = p @ minima, 60, 200
    for name, biased in [("md", False), ("uniform", False), ("fedavg", True), ("power-of-choice", True)]:
        _, theta = simulate(name, 2, runs, T)
        away = theta.mean(axis=0) - target
        error = np.sqrt(theta.var(axis=0, ddof=1).sum() / runs)
        assert (np.linalg.norm(away) > 5 * error) == biased, name
