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


def simulate(name: str, m: int, runs: int, T: int) -> tuple[np.ndarray, np.ndarray]:
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
            local -= ETA_L * (local - minima)
        theta = theta + ETA_G * np.einsum("ri,rid->rd", omega, local - theta[:, None, :])
    return squared, theta


def seen(scheme, rng, minima: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
    if scheme.probe != "loss":
        return {}
    candidates = scheme.candidates(rng)
    return {"candidates": candidates, "losses": ((minima[candidates] - theta) ** 2).sum(axis=1) / 2}


def compare(name: str, runs: int, rounds: tuple[int, ...]) -> None:
    sizes, p, minima, theta0 = federation()
    law = make_scheme(name, p=p, m=5, sizes=sizes).law()
    exact = expected_squared_error(law, minima, theta0, T=rounds[-1], eta_l=ETA_L, K=K, eta_g=ETA_G)
    squared, _ = simulate(name, 5, runs, rounds[-1])
    for t in rounds:
        error = squared[:, t].std(ddof=1) / np.sqrt(runs)
        assert abs(squared[:, t].mean() - exact[t]) <= 4 * error, (name, t)


def cohorts(name: str, p: np.ndarray, m: int) -> list[tuple[float, np.ndarray]]:
    """All (probability, ω) of one round; p = (½, ¼, ¼), m = 2, where clustered is one client, then one of two."""
    n = p.size
    if name == "md":
        draws = itertools.product(range(n), repeat=m)
        return [(float(np.prod(p[list(d)])), np.bincount(d, minlength=n) / m) for d in draws]
    if name == "uniform":
        pairs = list(itertools.combinations(range(n), m))
        return [(1 / len(pairs), np.isin(range(n), pair) * p * n / m) for pair in pairs]
    if name == "clustered":
        return [(0.5, np.array([0.5, 0.5, 0])), (0.5, np.array([0.5, 0, 0.5]))]
    q, weight = (np.full(n, m / n), p * n / m) if name == "binomial" else (m * p, np.full(n, 1 / m))
    coins = (np.array(c) for c in itertools.product((0, 1), repeat=n))
    return [(float(np.prod(np.where(c, q, 1 - q))), c * weight) for c in coins]


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_recursion_equals_the_sum_over_all_runs_of_three_rounds(name: str, mu: float) -> None:
    p, minima, theta0 = np.array([0.5, 0.25, 0.25]), np.array([[0.0, 1], [2, 2], [5, -1]]), np.array([3.0, 1])
    law = make_scheme(name, p=p, m=2, sizes=[2, 1, 1]).law()
    exact = expected_squared_error(law, minima, theta0, T=3, eta_l=0.2, K=3, eta_g=1.3, mu=mu)
    runs = [(1.0, theta0)]
    for t in range(4):
        expected = sum(chance * ((theta - p @ minima) ** 2).sum() for chance, theta in runs)
        assert exact[t] == pytest.approx(expected, rel=1e-12)
        following = []
        for (chance, theta), (probability, omega) in itertools.product(runs, cohorts(name, p, 2)):
            local = np.tile(theta, (3, 1))
            for _ in range(3):
                local = local - 0.2 * (local - minima + mu * (local - theta))
            following.append((chance * probability, theta + 1.3 * omega @ (local - theta)))
        runs = following


@pytest.mark.parametrize("name", SCHEMES)
def test_recursion_equals_the_mean_of_many_runs(name: str) -> None:
    compare(name, runs=400, rounds=(1, 10, 30))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_recursion_equals_the_mean_of_2000_runs_of_100_rounds(name: str) -> None:
    compare(name, runs=2000, rounds=(1, 10, 100))


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
