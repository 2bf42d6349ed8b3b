"""Draws that follow the law pass, and each way of going wrong is named."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.sampling import make_scheme
from fedmpi.theory import plausibility
from fedmpi.theory.plausibility import inclusion_p_values

P = np.random.default_rng(0).dirichlet(np.full(20, 3.0))


def recorded(scheme, T: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    N, sums, counts = np.zeros(T), np.zeros(T), np.zeros(P.size)
    for t in range(T):
        cohort = scheme.draw(rng)
        N[t], sums[t] = len(cohort), cohort.omega.sum()
        counts[cohort.clients] += 1
    return N, sums, counts


@pytest.mark.parametrize("name", ["full", "md", "uniform", "binomial", "poisson", "clustered"])
def test_true_draws_are_plausible(name: str) -> None:
    scheme = make_scheme(name, p=P, m=4)
    for seed, T in [(0, 1), (1, 5), (2, 200), (3, 200), (4, 1000)]:
        result = plausibility(scheme.law(), *recorded(scheme, T, seed))
        assert result.plausible, result.sentences
        assert [check.name for check in result.checks] == [
            "mean of Σω", "variance of Σω", "mean of N", "variance of N",
        ]  # fmt: skip
    for check in result.checks:
        assert check.low <= check.observed <= check.high


def test_intervals_cover_the_law_about_as_often_as_they_say() -> None:
    scheme = make_scheme("binomial", p=P, m=4)
    covered = np.zeros(4)
    for seed in range(100):
        checks = plausibility(scheme.law(), *recorded(scheme, 100, seed)).checks
        covered += [check.low <= check.expected <= check.high for check in checks]
    # Binomial(100, 0.95) is below 86 once in 5,000 times; the variances' normal intervals are a little short.
    assert (covered >= 84).all()


@pytest.mark.parametrize(
    ("drawn", "claimed", "words"),
    [
        ("fedavg", "uniform", "variance of Σω"),
        ("md", "uniform", "mean of N"),
        ("uniform", "binomial", "variance of N"),
        ("uniform", "md", "mean of N"),
        ("poisson", "binomial", "clients took part"),
    ],
)
def test_draws_of_another_scheme_are_not(drawn: str, claimed: str, words: str) -> None:
    law = make_scheme(claimed, p=P, m=4).law()
    result = plausibility(law, *recorded(make_scheme(drawn, p=P, m=4), 600, 5))
    assert not result.plausible
    assert words in " ".join(result.sentences)


def test_one_client_left_out_is_found_and_named() -> None:
    scheme = make_scheme("uniform", p=P, m=10)
    N, sums, counts = recorded(scheme, 100, 6)
    counts[7] = 5
    result = plausibility(scheme.law(), N, sums, counts)
    assert len(result.sentences) == 1
    assert "1 of 20 clients" in result.sentences[0]
    assert "client 7 in 5 of 100 rounds" in result.sentences[0]
    assert "expects 50.0" in result.sentences[0]


def test_a_quantity_the_law_fixes_may_not_move_even_once() -> None:
    scheme = make_scheme("md", p=P, m=4)
    N, sums, counts = recorded(scheme, 3, 7)
    sums[1] = 1.01
    sentences = plausibility(scheme.law(), N, sums, counts).sentences
    assert any("mean of Σω" in s for s in sentences)


def test_the_p_value_is_an_upper_bound_on_the_exact_one() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    for T, q in [(5, 0.3), (40, 0.02), (200, 0.7)]:
        counts = np.arange(T + 1.0)
        exact = 2 * np.minimum(scipy_stats.binom.cdf(counts, T, q), scipy_stats.binom.sf(counts - 1, T, q))
        assert (inclusion_p_values(counts, T, np.full(T + 1, q)) >= np.minimum(exact, 1) - 1e-12).all()
    sure = inclusion_p_values(np.array([0.0, 1.0, 10.0, 9.0]), 10, np.array([0.0, 0.0, 1.0, 1.0]))
    assert sure.tolist() == [1, 0, 1, 0]


def test_shapes_are_checked() -> None:
    law = make_scheme("md", p=P, m=4).law()
    with pytest.raises(ValueError, match="one count per client"):
        plausibility(law, [4], [1.0], [1, 2])
    with pytest.raises(ValueError, match="at least one round"):
        plausibility(law, [], [], np.zeros(20))
