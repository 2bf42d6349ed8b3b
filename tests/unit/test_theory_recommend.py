"""The corollary and the advice: both sides of Σp² = 1/(n−m+1)."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.sampling import make_scheme
from fedmpi.theory import Problem, corollary, recommend, survey
from fedmpi.theory.corollary import one_heavy_client


def heavy(n: int, p1: float) -> np.ndarray:
    return np.array([p1] + [(1 - p1) / (n - 1)] * (n - 1))


@pytest.mark.parametrize(("n", "m"), [(2, 1), (10, 5), (80, 40), (80, 4), (100, 99)])
def test_the_recommendation_flips_exactly_at_the_corollary(n: int, m: int) -> None:
    _, edge = one_heavy_client(n, np.array([float(m)]))
    for factor, choice in [(1 - 1e-7, "uniform"), (1 + 1e-7, "clustered")]:
        p = heavy(n, 1 / n + (edge[0] - 1 / n) * factor) if m > 1 else heavy(n, 1 / n if factor < 1 else 1 / n + 1e-4)
        md, uniform = (make_scheme(name, p=p, m=m).law() for name in ("md", "uniform"))
        test = corollary(p, m)
        assert test.holds == (p @ p <= 1 / (n - m + 1) * (1 + 1e-12)) == (choice == "uniform")
        assert (test.Sigma_md, test.gamma_md) == pytest.approx((md.Sigma, md.gamma))
        assert (test.Sigma_uniform, test.gamma_uniform) == pytest.approx((uniform.Sigma, uniform.gamma))
        if choice == "uniform":
            assert uniform.Sigma <= md.Sigma * (1 + 1e-12)
            assert uniform.gamma <= md.gamma * (1 + 1e-12)
        else:
            assert uniform.Sigma > md.Sigma
        advice = recommend(p, m, survey(p, m, Problem()))
        assert advice.scheme == choice
        assert ("≤" if choice == "uniform" else ">") in advice.reasons[0]
        assert "corollary" in advice.reasons[0]


@pytest.mark.parametrize("n", [2, 7, 80, 1000])
def test_equal_importances_are_on_uniforms_side_for_every_m(n: int) -> None:
    """At m = 1 this is an equality, which rounding of Σp² must not break."""
    assert all(corollary(np.full(n, 1 / n), m).holds for m in range(1, n + 1))


def test_region_of_one_heavy_client_is_the_corollarys() -> None:
    n = 30
    m = np.arange(2, n, dtype=float)
    low, high = one_heavy_client(n, m)
    for k in range(m.size):
        for p1 in np.linspace(0, 1, 41):
            assert corollary(heavy(n, p1), int(m[k])).holds == (low[k] - 1e-12 <= p1 <= high[k] + 1e-12)


def test_survey_lists_every_scheme_once_with_the_reason_for_those_left_out() -> None:
    p = heavy(10, 0.5)
    table = survey(p, 4, Problem(), theta_bytes=1000)
    assert [row.scheme for row in table.rows] == [
        "full", "md", "uniform", "binomial", "clustered", "clustered-similarity", "optimal", "optimal-approx",
    ]  # fmt: skip
    assert set(table.left_out) == {"poisson", "fedavg", "power-of-choice"}
    assert "largest feasible m is 2" in table.left_out["poisson"]
    assert "biased" in table.left_out["fedavg"]
    moved = {row.scheme: row.bytes for row in table.rows}
    assert moved["uniform"] == 2 * 4 * 1000
    assert moved["full"] == 2 * 10 * 1000
    optimal = table.row("optimal")
    assert optimal
    assert moved["optimal"] == pytest.approx((10 + optimal.law.mean_N) * 1000 + 10 * 8)
    assert moved["optimal-approx"] == pytest.approx(moved["optimal"] + 10 * 8 * 8)
    assert table.row("poisson") is None


def test_advice_at_the_edges() -> None:
    p = heavy(5, 0.3)
    assert recommend(p, 5, survey(p, 5, Problem())).scheme == "full"
    beyond = survey(p, 7, Problem())
    assert recommend(p, 7, beyond).scheme == "clustered"
    assert {row.scheme for row in beyond.rows} == {"full", "md", "clustered", "clustered-similarity"}


def test_advice_mentions_what_else_matters() -> None:
    p = np.full(80, 1 / 80)
    words = " ".join(recommend(p, 40, survey(p, 40, Problem())).reasons)
    assert "clustered does the same" in words
    assert "Theorem 1 drops the gain of α > 0" in words
    p = heavy(80, 0.3)
    words = " ".join(recommend(p, 40, survey(p, 40, Problem(eta_l=1.0))).reasons)
    assert "Poisson cannot be used here: p_max = 0.3" in words
    assert "proved only for η_l ≤" in words
