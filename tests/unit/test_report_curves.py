"""Curves, paired differences and costs of a target, on records whose numbers are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmpi.report.curves import BYTES, ROUNDS, SECONDS, cost, difference, last, mean_curve
from fedmpi.report.study import Group, read_run
from fedmpi.report.target import crossing, default_target, reach, rounded_up
from tests.support.records import make_record


def group(*paths: Path) -> Group:
    runs = tuple(read_run(path) for path in paths)
    return Group(runs[0].scheme, runs[0].scheme, 0, runs, ())


def test_costs_add_up_from_zero(tmp_path: Path) -> None:
    run = read_run(make_record(tmp_path / "a.h5", losses=(8, 4, 2), cohorts=[(0,), (0, 1, 2)]))
    assert cost(run, ROUNDS).tolist() == [0, 1, 2]
    assert cost(run, BYTES).tolist() == [0, 40, 160]
    assert cost(run, SECONDS).tolist() == [0, 6, 12]


def test_mean_over_rounds_is_where_all_seeds_were_evaluated(tmp_path: Path) -> None:
    short = make_record(tmp_path / "a.h5", seed=1, losses=(8, 4))
    long = make_record(tmp_path / "b.h5", seed=2, losses=(8, 6, 5))
    band = mean_curve(group(short, long), ROUNDS)
    assert band is not None
    assert band.half is not None
    assert band.x.tolist() == [0, 1]
    assert band.mean.tolist() == [8, 5]
    assert band.half == pytest.approx([0, 12.7062047])


def test_mean_over_bytes_interpolates_and_ends_with_the_first_seed(tmp_path: Path) -> None:
    # losses 8 -> 4 over 40 bytes, and 8 -> 0 over 80 bytes: at 20 bytes 6 and 6, at 40 bytes 4 and 4
    one = make_record(tmp_path / "a.h5", seed=1, losses=(8, 4), cohorts=[(0,)])
    two = make_record(tmp_path / "b.h5", seed=2, losses=(8, 0), cohorts=[(0, 1)])
    band = mean_curve(group(one, two), BYTES)
    assert band is not None
    assert band.half is not None
    assert (band.x[0], band.x[-1]) == (0, 40)
    assert np.allclose(band.mean, 8 - band.x / 10)
    assert np.allclose(band.half, 0)


def test_the_band_of_an_accuracy_stays_between_0_and_1(tmp_path: Path) -> None:
    # Means 0.95 and half-widths of 12.7 · 0.05: far beyond both ends.
    paths = [make_record(tmp_path / f"{a}.h5", seed=k, accuracy=a) for k, a in enumerate((0.9, 1.0))]
    band = mean_curve(group(*paths), ROUNDS, "accuracy")
    assert band is not None
    assert band.low == pytest.approx([0.95 - 12.7062047 * 0.05] * 3)
    assert band.high.tolist() == [1, 1, 1]
    low = make_record(tmp_path / "low.h5", seed=2, accuracy=0.0)
    end = last(mean_curve(group(*paths, low), BYTES, "accuracy"))
    assert end is not None
    assert (end.low, end.high) == (0, 1)


def test_losses_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    band = mean_curve(group(make_record(tmp_path / "a.h5", losses=(8, float("nan"), 2))), ROUNDS)
    assert band is not None
    assert band.x.tolist() == [0, 2]


def test_without_evaluations_there_is_no_curve(tmp_path: Path) -> None:
    run = group(make_record(tmp_path / "a.h5", losses=(), rounds=3))
    assert mean_curve(run, ROUNDS) is None
    assert last(None) is None
    assert default_target([run]) is None
    assert reach(run, 1.0).seeds == 0


def test_difference_is_paired_by_seed(tmp_path: Path) -> None:
    # The reference differs by 100 between seeds; paired, only 1 and 3 are left, whose mean is 2 ± 12.706.
    md = group(
        make_record(tmp_path / "m1.h5", "md", 1, (9, 5)),
        make_record(tmp_path / "m2.h5", "md", 2, (9, 105)),
        make_record(tmp_path / "m9.h5", "md", 9, (9, 1e6)),
    )
    other = group(
        make_record(tmp_path / "u1.h5", "uniform", 1, (9, 4)),
        make_record(tmp_path / "u2.h5", "uniform", 2, (9, 102)),
        make_record(tmp_path / "u7.h5", "uniform", 7, (9, -1e6)),
    )
    end = last(difference(md, other))
    assert end is not None
    assert (end.mean, end.k) == (2.0, 2)
    assert end.half == pytest.approx(12.7062047)


def test_groups_without_a_common_seed_have_no_difference(tmp_path: Path) -> None:
    md = group(make_record(tmp_path / "a.h5", "md", 1))
    other = group(make_record(tmp_path / "b.h5", "uniform", 2))
    assert difference(md, other) is None


def test_crossing_is_linear_between_evaluations() -> None:
    x, loss = np.array([0.0, 10.0, 20.0, 30.0]), np.array([8.0, 4.0, 6.0, 2.0])
    assert crossing(x, loss, 5.0) == pytest.approx(7.5)
    assert crossing(x, loss, 4.0) == pytest.approx(10.0)
    assert crossing(x, loss, 3.0) == pytest.approx(27.5)
    assert crossing(x, loss, 9.0) == 0.0
    assert crossing(x, loss, 1.0) is None


def test_target_costs_rounds_bytes_and_seconds(tmp_path: Path) -> None:
    # 8 -> 4 in the first round of 80 bytes and 6 s: 6 is reached half-way; the other seed needs 1.5 rounds.
    one = make_record(tmp_path / "a.h5", seed=1, losses=(8, 4, 2))
    two = make_record(tmp_path / "b.h5", seed=2, losses=(9, 8, 4))
    found = reach(group(one, two), 6.0)
    assert (found.reached, found.seeds) == (2, 2)
    assert found.costs["rounds"].mean == pytest.approx(1.0)
    assert found.costs["rounds"].half == pytest.approx(12.7062047 * 0.5)
    assert found.costs["bytes"].mean == pytest.approx(80.0)
    assert found.costs["seconds"].mean == pytest.approx(6.0)


def test_a_target_that_one_seed_misses_has_no_mean(tmp_path: Path) -> None:
    found = reach(
        group(make_record(tmp_path / "a.h5", seed=1), make_record(tmp_path / "b.h5", seed=2, losses=(8, 7))), 3
    )
    assert (found.reached, found.seeds, found.costs) == (1, 2, {})


def test_default_target_is_reached_by_every_run(tmp_path: Path) -> None:
    one = group(make_record(tmp_path / "a.h5", "md", losses=(8, 2.00001, 3)))
    two = group(make_record(tmp_path / "b.h5", "uniform", losses=(8, 1)))
    assert default_target([one, two]) == 2.001


@pytest.mark.parametrize(
    ("x", "up"), [(2.00001, 2.001), (2.0, 2.0), (0.0, 0.0), (-1.23456, -1.234), (12345.0, 12350.0)]
)
def test_rounded_up(x: float, up: float) -> None:
    assert rounded_up(x) == up
