"""The exact sum: order cannot matter, and the result is Σ ω_i Δ_i to float32 rounding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedmpi.native import native_available
from fedmpi.server import CHUNK, ROUNDER_RANGE, ExactSum, magnitude, round_any, round_small

RNG = np.random.default_rng(7)
D = CHUNK + 100


def summed(order: list[int], omega: np.ndarray, delta: np.ndarray, exponent: int = 0) -> ExactSum:
    total = ExactSum(D)
    total.reset(exponent)
    for i in order:
        total.add(float(omega[i]), delta[i], float(np.linalg.norm(delta[i])))
    return total


def test_any_order_and_any_grouping_give_the_same_bits() -> None:
    omega, delta = RNG.random(9), RNG.standard_normal((9, D)).astype(np.float32)
    forward = summed(list(range(9)), omega, delta).total
    backward = summed(list(range(9))[::-1], omega, delta).total
    grouped = summed([0, 3, 5], omega, delta).total + summed([8, 1, 2, 4, 6, 7], omega, delta).total
    assert (forward == backward).all()
    assert (forward == grouped).all()


@pytest.mark.skipif(not native_available(), reason="no compiler at installation: there are no loops in C to compare")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0])
def test_numpy_and_the_loops_in_c_give_the_same_bits(scale: float) -> None:
    """An update half a quantum from the next number, and steps that a fused multiply-add would round otherwise."""
    omega, delta = RNG.random(6), (scale * RNG.standard_normal((6, D))).astype(np.float32)
    delta[0, :4] = np.array([0.5, -0.5, 1.5, -1.5]) * 2.0**-36
    omega[0] = 1.0
    compiled, plain = ExactSum(D), ExactSum(D)
    assert compiled._loops is not None
    plain._loops = None
    theta, steps = RNG.standard_normal(D).astype(np.float32), []
    for total in (compiled, plain):
        total.reset(1)
        for i in range(6):
            total.add(float(omega[i]), delta[i], float(np.linalg.norm(delta[i])))
        steps.append(np.empty_like(theta))
        assert total.apply(theta, 0.7, steps[-1]) == pytest.approx(math.sqrt(((0.7 * omega @ delta) ** 2).sum()), 1e-4)
    assert (compiled.total == plain.total).all()
    assert (steps[0] == steps[1]).all()
    assert compiled.apply(theta, 0.7, theta) > 0
    assert (theta == steps[0]).all()


def test_plain_float32_sums_would_not() -> None:
    """The reason for fixed point: what the test above checks is not true of ordinary sums."""
    delta = RNG.standard_normal((9, D)).astype(np.float32)
    forward, backward = np.zeros(D, np.float32), np.zeros(D, np.float32)
    for i in range(9):
        forward += delta[i]
        backward += delta[8 - i]
    assert (forward != backward).any()


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e9])
def test_the_step_is_that_of_float64_to_float32_rounding(scale: float) -> None:
    theta = (scale * RNG.standard_normal(D)).astype(np.float32)
    omega, delta = RNG.random(5), (0.1 * scale * RNG.standard_normal((5, D))).astype(np.float32)
    expected = theta.astype(float) + 0.7 * omega @ delta.astype(float)
    total = summed(list(range(5)), omega, delta, magnitude(theta))
    norm = total.apply(theta, 0.7, theta)
    # Half a float32 unit of the result, and five roundings to a quantum.
    quantum = math.ldexp(1.0, total.exponent - 36)
    assert (np.abs(theta - expected) <= np.spacing(np.abs(expected).astype(np.float32)) / 2 + 5 * quantum).all()
    assert norm == pytest.approx(np.linalg.norm(0.7 * omega @ delta.astype(float)), rel=1e-4)


def test_magnitude_bounds_theta() -> None:
    for largest, e in ((0.0, 0), (0.3, 0), (1.0, 1), (1.5, 1), (1000.0, 10)):
        assert magnitude(np.array([-largest, 0.1], np.float32)) == e


def test_updates_out_of_range_are_not_admitted() -> None:
    total = ExactSum(3)
    total.reset(4)
    assert total.admits(0.5, 2.0**25)
    assert not total.admits(1.0, 2.0**25)
    assert not total.admits(0.5, float("nan"))
    assert not total.admits(0.0, float("inf"))
    assert total.holds(2.0**30)
    assert not total.holds(2.0**31)


def test_the_largest_admitted_sum_does_not_overflow() -> None:
    total = ExactSum(1)
    total.reset(0)
    for _ in range(64):
        total.add(1.0, np.array([2.0**20], np.float32), 2.0**20)
    assert total.total[0] == 2**62


def test_both_roundings_agree_where_both_may_be_used() -> None:
    halves = np.arange(-9.0, 10.0) / 2
    wide = RNG.standard_normal(5000) * 2.0 ** RNG.integers(-10, 48, 5000)
    numbers = np.concatenate([halves, wide, [ROUNDER_RANGE, -ROUNDER_RANGE, 0.0, -0.0]])
    assert (round_small(numbers.copy()) == round_any(numbers.copy())).all()
    assert round_any(np.array([2.0**55]))[0] == 2**55
