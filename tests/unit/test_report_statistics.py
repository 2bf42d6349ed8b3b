"""Intervals against tables, scipy and hand-worked numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from fedmpi.report.statistics import Estimate, bands, estimate, t_quantile, wilson


@pytest.mark.parametrize(("dof", "printed"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045)])
def test_t_quantile_is_that_of_the_printed_tables(dof: int, printed: float) -> None:
    assert round(t_quantile(dof), 3) == printed


@pytest.mark.parametrize("dof", [1, 2, 3, 10, 31, 200])
def test_t_quantile_agrees_with_scipy(dof: int) -> None:
    assert t_quantile(dof) == pytest.approx(scipy.stats.t.ppf(0.975, dof), rel=1e-8)


def test_mean_over_three_seeds() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.k) == (2.0, 3)
    assert found.half == pytest.approx(4.302653 * 1 / math.sqrt(3), rel=1e-6)
    assert found.low == pytest.approx(-0.484138, abs=1e-6)
    assert not found.excludes_zero


def test_one_seed_has_no_interval() -> None:
    assert estimate([4.0]) == Estimate(4.0, None, 1)
    assert not estimate([4.0]).excludes_zero


def test_equal_seeds_have_an_interval_of_no_width() -> None:
    assert estimate([4.0, 4.0]) == Estimate(4.0, 0.0, 2)
    assert estimate([4.0, 4.0]).excludes_zero


def test_band_is_point_by_point() -> None:
    band = bands(np.array([0.0, 1.0]), np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert band.mean.tolist() == [2.0, 5.0]
    # s = √2 at the first point: 12.706 · √2/√2
    assert band.half == pytest.approx([12.7062047, 0.0])


def test_wilson_by_hand() -> None:
    low, high = wilson(np.array([0.0, 5.0, 10.0]), 10)
    assert low == pytest.approx([0.0, 0.2366, 0.7225], abs=1e-4)
    assert high == pytest.approx([0.2775, 0.7634, 1.0], abs=1e-4)
