"""Optimal sampling: q is optimal, AOCS reaches it, zeros and ties are settled."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.errors import ConfigError, Diverged
from fedmpi.sampling import make_scheme
from fedmpi.sampling.optimal import approximate_q, optimal_q

scipy_optimize = pytest.importorskip("scipy.optimize")


def cost(q: np.ndarray, u: np.ndarray) -> float:
    """Σ ((1 − q_i)/q_i) u_i², where a zero norm costs nothing whatever its q."""
    live = u > 0
    return float((u[live] ** 2 * (1 / q[live] - 1)).sum())


def norms(case: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    u = rng.lognormal(0, 1.5, n)
    if case == "ties":
        u = rng.choice([0.5, 1.0, 4.0], n)
    elif case == "zeros":
        u[rng.random(n) < 0.4] = 0
    elif case == "one giant":
        u[0] = 1e6
    return u


@pytest.mark.parametrize("case", ["plain", "ties", "zeros", "one giant"])
@pytest.mark.parametrize(("n", "m"), [(8, 1), (8, 3), (8, 7), (20, 5)])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_feasible_q_costs_less(case: str, n: int, m: int, seed: int) -> None:
    u = norms(case, n, seed)
    q = optimal_q(u, m)
    assert ((q >= 0) & (q <= 1)).all()
    assert q.sum() == pytest.approx(min(m, np.count_nonzero(u)), rel=1e-12)
    live = np.flatnonzero(u)
    if live.size <= m:
        assert (q[live] == 1).all()
        return
    scaled = u[live] / u.max()
    found = scipy_optimize.minimize(
        lambda x: (scaled**2 / x).sum(),
        x0=np.full(live.size, m / live.size),
        jac=lambda x: -(scaled**2) / x**2,
        bounds=[(1e-9, 1)] * live.size,
        constraints={"type": "eq", "fun": lambda x: x.sum() - m, "jac": lambda x: np.ones(live.size)},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert (scaled**2 / q[live]).sum() <= found.fun * (1 + 1e-9)
    # Nor does any exchange of probability between two clients lower it.
    rng = np.random.default_rng(seed)
    for _ in range(200):
        other = q.copy()
        i, j = rng.choice(live, 2, replace=False)
        shift = rng.random() * min(q[i], 1 - q[j])
        other[i], other[j] = other[i] - shift, other[j] + shift
        assert other[i] == 0 or cost(q, u) <= cost(other, u) * (1 + 1e-9)


@pytest.mark.parametrize("case", ["plain", "ties", "zeros", "one giant"])
@pytest.mark.parametrize("m", [1, 3, 12, 30])
def test_aocs_converges_to_the_optimum_and_never_exceeds_m(case: str, m: int) -> None:
    u = norms(case, 30, 4)
    for iterations in (0, 1, 4, 100):
        q = approximate_q(u, m, iterations)
        assert q.sum() <= m * (1 + 1e-12)
        assert ((q >= 0) & (q <= 1)).all()
    assert np.allclose(q, optimal_q(u, m), rtol=1e-9)


def test_the_rule_for_zeros() -> None:
    assert optimal_q(np.zeros(4), 2).tolist() == approximate_q(np.zeros(4), 2, 4).tolist() == [0, 0, 0, 0]
    assert optimal_q(np.array([0, 3.0, 0, 1.0]), 2).tolist() == [0, 1, 0, 1]
    assert optimal_q(np.array([0, 1.0, 1.0, 1.0, 1.0]), 2).tolist() == [0, 0.5, 0.5, 0.5, 0.5]
    cohort = make_scheme("optimal", p=[0.5, 0.5], m=1).draw(np.random.default_rng(0), norms=[0.0, 0.0])
    assert len(cohort) == 0
    assert cohort.clients.dtype == np.int64


def test_equal_norms_make_it_binomial_and_scale_does_not_matter() -> None:
    u = np.full(10, 3.0)
    assert np.allclose(optimal_q(u, 4), 0.4)
    scheme = make_scheme("optimal", p=np.full(10, 0.1), m=4)
    v = norms("plain", 10, 0)
    assert np.allclose(scheme.law(norms=v).inclusion, scheme.law(norms=1e300 * v).inclusion)


def test_what_the_federation_reads() -> None:
    optimal, approx = (make_scheme(name, p=np.full(6, 1 / 6), m=2) for name in ("optimal", "optimal-approx"))
    assert optimal.probe == approx.probe == "norm"
    assert optimal.scalars_per_client == 1
    assert approx.scalars_per_client == 9
    assert make_scheme("optimal-approx", p=[0.5, 0.5], m=1, iterations=2).scalars_per_client == 5
    assert optimal.inclusion().tolist() == [1] * 6
    assert optimal.candidates(np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 4, 5]


def test_bad_norms_and_options_are_named() -> None:
    scheme = make_scheme("optimal", p=[0.5, 0.5], m=1)
    with pytest.raises(Diverged, match="client 1 reported the norm nan"):
        scheme.draw(np.random.default_rng(0), norms=[1.0, np.nan])
    with pytest.raises(ValueError, match="all n = 2"):
        scheme.draw(np.random.default_rng(0), norms=[1.0])
    with pytest.raises(ConfigError, match=r"sampling\.iterations = -1"):
        make_scheme("optimal-approx", p=[0.5, 0.5], m=1, iterations=-1)
