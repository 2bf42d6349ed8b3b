"""Every law against two witnesses: all outcomes enumerated at n ≤ 4, and draws counted at larger n."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fedmpi.errors import ConfigError
from fedmpi.sampling import make_scheme

ONE_STEP = ["full", "md", "uniform", "binomial", "poisson", "clustered", "clustered-similarity"]


def importances(kind: str, n: int) -> np.ndarray:
    if kind == "uniform":
        return np.full(n, 1 / n)
    if kind == "ratio":
        sizes = np.random.default_rng(5).integers(10, 200, n)
        return sizes / sizes.sum()
    if kind == "heavy":
        return np.array([1.0]) if n == 1 else np.array([0.6] + [0.4 / (n - 1)] * (n - 1))
    return np.random.default_rng(6).dirichlet([0.5] * n)


def poured(sizes: list[int], m: int) -> list[list[Fraction]]:
    """r by the book: clients in descending size, one unit of mass after another into clusters of size 1."""
    M = sum(sizes)
    r = [[Fraction(0)] * len(sizes) for _ in range(m)]
    k, room = 0, Fraction(1)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        mass = Fraction(m * sizes[i], M)
        while mass:
            put = min(mass, room)
            r[k][i] += put
            mass, room = mass - put, room - put
            if room == 0:
                k, room = k + 1, Fraction(1)
    return r


def outcomes(name: str, sizes: list[int], m: int):
    """All (probability, ω) of a scheme, in exact fractions, from its definition in the paper."""
    n, M = len(sizes), sum(sizes)
    p = [Fraction(s, M) for s in sizes]
    if name == "full":
        yield Fraction(1), p
    elif name in ("md", "clustered"):
        rows = [p] * m if name == "md" else poured(sizes, m)
        for drawn in itertools.product(range(n), repeat=m):
            chance = Fraction(1)
            for row, i in zip(rows, drawn, strict=True):
                chance *= row[i]
            if chance:
                yield chance, [Fraction(drawn.count(i), m) for i in range(n)]
    elif name == "uniform":
        sets = list(itertools.combinations(range(n), m))
        for drawn in sets:
            yield Fraction(1, len(sets)), [Fraction(n, m) * p[i] * (i in drawn) for i in range(n)]
    else:
        q = [Fraction(m, n)] * n if name == "binomial" else [m * x for x in p]
        weight = [Fraction(n, m) * x for x in p] if name == "binomial" else [Fraction(1, m)] * n
        for drawn in itertools.product((0, 1), repeat=n):
            chance = Fraction(1)
            for i in range(n):
                chance *= q[i] if drawn[i] else 1 - q[i]
            yield chance, [weight[i] * drawn[i] for i in range(n)]


ENUMERATED = [
    (name, sizes, m)
    for name in ("full", "md", "uniform", "binomial", "poisson", "clustered")
    for sizes in ([1], [3, 5], [1, 1, 1], [7, 2, 4], [2, 2, 2, 2], [9, 1, 4, 6], [20, 1, 1, 2], [5, 0, 3, 4])
    for m in (1, 2, 3, 4, 6)
    if not (name in ("uniform", "binomial") and m > len(sizes))
    and not (name == "poisson" and m * max(sizes) > sum(sizes))
    # ω does not show that a binomial client was drawn if its weight is 0.
    and not (name == "binomial" and 0 in sizes)
    and len(sizes) ** m < 2000
]


@pytest.mark.parametrize(("name", "sizes", "m"), ENUMERATED)
def test_law_equals_enumeration(name: str, sizes: list[int], m: int) -> None:
    n = len(sizes)
    law = make_scheme(name, p=np.array(sizes) / sum(sizes), m=m, sizes=sizes).law()
    total, mean, second = Fraction(0), [Fraction(0)] * n, [[Fraction(0)] * n for _ in range(n)]
    sum2, N1, N2, reached = Fraction(0), Fraction(0), Fraction(0), [Fraction(0)] * n
    for chance, omega in outcomes(name, sizes, m):
        total += chance
        # A client of full or uniform sampling takes part even if its weight is 0.
        N = n if name == "full" else m if name == "uniform" else sum(w > 0 for w in omega)
        N1, N2, sum2 = N1 + chance * N, N2 + chance * N * N, sum2 + chance * sum(omega) ** 2
        for i in range(n):
            mean[i] += chance * omega[i]
            reached[i] += chance * (omega[i] > 0)
            for j in range(n):
                second[i][j] += chance * omega[i] * omega[j]
    assert total == 1
    cov = np.array([[float(second[i][j] - mean[i] * mean[j]) for j in range(n)] for i in range(n)])
    assert np.allclose(law.p, [float(x) for x in mean], rtol=0, atol=1e-12)
    assert np.allclose(law.cov_matrix(), cov, rtol=0, atol=1e-12)
    assert np.allclose(law.var, np.diag(cov), rtol=0, atol=1e-12)
    assert law.cov(0, n - 1) == pytest.approx(cov[0, n - 1], abs=1e-12)
    assert law.Sigma == pytest.approx(np.trace(cov), abs=1e-12)
    assert law.var_sum == pytest.approx(float(sum2 - sum(mean) ** 2), abs=1e-12)
    assert np.allclose(law.cov_with_sum(), cov.sum(axis=1), rtol=0, atol=1e-12)
    assert law.mean_N == pytest.approx(float(N1), abs=1e-12)
    assert law.var_N == pytest.approx(float(N2 - N1**2), abs=1e-12)
    if 0 not in sizes:
        assert np.allclose(law.inclusion, [float(x) for x in reached], rtol=0, atol=1e-12)
    x = np.random.default_rng(1).normal(size=(n, 3))
    assert law.spread(x) == pytest.approx(np.trace(x.T @ cov @ x), abs=1e-12)
    if law.alpha is not None:
        assert law.gamma == pytest.approx(law.Sigma + law.alpha * float(law.p @ law.p), abs=1e-15)


def within(observed: np.ndarray, samples: np.ndarray, expected: np.ndarray, unit: float) -> bool:
    """|mean of samples − expected| ≤ 5 standard errors + what 10 more or fewer rare events would change."""
    R = samples.shape[0]
    error = samples.std(axis=0) / np.sqrt(R)
    return bool((np.abs(observed - expected) <= 5 * error + 10 * unit / R + 1e-12).all())


@pytest.mark.parametrize("name", ONE_STEP)
@pytest.mark.parametrize("kind", ["uniform", "ratio", "heavy", "dirichlet"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (6, 1), (6, 3), (6, 6), (4, 9), (20, 4)])
def test_draws_follow_the_law(name: str, kind: str, n: int, m: int) -> None:
    p = importances(kind, n)
    try:
        scheme = make_scheme(name, p=p, m=m)
    except ConfigError:
        feasible = not (name in ("uniform", "binomial") and m > n) and not (name == "poisson" and m * p.max() > 1)
        assert not feasible
        return
    law, R, rng = scheme.law(), 2000, np.random.default_rng(2024)
    omega, N = np.zeros((R, n)), np.zeros(R)
    for r in range(R):
        cohort = scheme.draw(rng)
        assert cohort.clients.dtype == np.int64
        assert cohort.omega.dtype == np.float64
        assert (np.diff(cohort.clients) > 0).all()
        omega[r, cohort.clients] = cohort.omega
        N[r] = len(cohort)
    top = omega.max()
    assert within(omega.mean(axis=0), omega, p, top)
    centred = omega - p
    products = centred[:, :, None] * centred[:, None, :]
    assert within(products.mean(axis=0), products, law.cov_matrix(), top**2)
    sums = centred.sum(axis=1)
    assert within((sums**2).mean(), sums**2, np.float64(law.var_sum), max(top**2, sums.max() ** 2))
    assert within(N.mean(), N, np.float64(law.mean_N), 1)
    assert law.var_N is not None
    deviation = (N - law.mean_N) ** 2
    assert within(deviation.mean(), deviation, np.float64(law.var_N), max(1.0, deviation.max()))
    included = (omega > 0).astype(float)
    assert within(included.mean(axis=0), included, law.inclusion, 1)


def test_optimal_draws_follow_their_law() -> None:
    n, m, R = 7, 3, 4000
    p, norms = importances("dirichlet", n), np.array([0.5, 0, 2, 1, 9, 0.1, 0.1])
    rng = np.random.default_rng(3)
    for name in ("optimal", "optimal-approx"):
        scheme = make_scheme(name, p=p, m=m)
        law, omega, N = scheme.law(norms=norms), np.zeros((R, n)), np.zeros(R)
        for r in range(R):
            cohort = scheme.draw(rng, norms=norms)
            omega[r, cohort.clients] = cohort.omega
            N[r] = len(cohort)
        top = omega.max()
        assert law.p[1] == 0
        assert within(omega.mean(axis=0), omega, law.p, top)
        products = (omega - law.p)[:, :, None] * (omega - law.p)[:, None, :]
        assert within(products.mean(axis=0), products, law.cov_matrix(), top**2)
        assert law.var_N is not None
        assert within(N.mean(), N, np.float64(law.mean_N), 1)
        assert N.var() == pytest.approx(law.var_N, rel=0.1)


def test_md_var_N_at_a_size_where_digits_could_be_lost() -> None:
    """n = 2000 equal clients, m = 50: Var N = n(n−1)(1−2/n)^m + n(1−1/n)^m − n²(1−1/n)^2m, in fractions."""
    n, m = 2000, 50
    one, two = (1 - Fraction(1, n)) ** m, (1 - Fraction(2, n)) ** m
    exact = n * (n - 1) * two + n * one - n * n * one * one
    law = make_scheme("md", p=np.full(n, 1 / n), m=m).law()
    assert law.var_N == pytest.approx(float(exact), rel=1e-10)


def test_var_N_is_not_attempted_beyond_its_limit() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(5000))
    assert make_scheme("md", p=p, m=3).law().var_N is None
    assert make_scheme("clustered", p=p, m=3).law().var_N is None


def test_clustered_with_equal_sizes_has_the_variances_of_uniform() -> None:
    p = np.full(80, 1 / 80)
    clustered, uniform = (make_scheme(name, p=p, m=40).law() for name in ("clustered", "uniform"))
    assert np.allclose(clustered.var, uniform.var, rtol=1e-12)
    assert clustered.Sigma == pytest.approx(1 / 40 - 1 / 80)
    # The text claims Cov_Cl ≤ Cov_MD for every pair; clients in different clusters refute it.
    assert clustered.cov(0, 79) == 0 > -1 / 40 / 80**2


@pytest.mark.parametrize("name", ["md", "clustered", "uniform", "binomial", "poisson", "clustered-similarity"])
def test_a_client_without_importance_never_weighs(name: str) -> None:
    scheme = make_scheme(name, p=[0, 0.25, 0.25, 0, 0.3, 0.2, 0], m=3)
    rng = np.random.default_rng(0)
    for _ in range(300):
        cohort = scheme.draw(rng)
        assert (cohort.omega[np.isin(cohort.clients, [0, 3, 6])] == 0).all()


def test_md_draw_is_the_one_its_docstring_describes() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(300))
    cohort = make_scheme("md", p=p, m=40).draw(np.random.default_rng(9))
    drawn = [next(i for i in range(300) if u < p[: i + 1].sum()) for u in np.random.default_rng(9).random(40)]
    assert cohort.clients.tolist() == sorted(set(drawn))
    assert cohort.omega.tolist() == [drawn.count(i) / 40 for i in sorted(set(drawn))]
