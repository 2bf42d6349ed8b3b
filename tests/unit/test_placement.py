"""Static placement: everyone has a home, and the expected work is even."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.comm.placement import static_placement


def test_the_largest_go_first_to_the_emptiest() -> None:
    assert static_placement(np.array([0.1, 0.9, 0.5, 0.4]), [1, 2]).tolist() == [1, 1, 2, 2]


def test_equal_clients_are_dealt_evenly() -> None:
    home = static_placement(np.full(100, 0.5), [1, 2, 3])
    assert sorted(np.bincount(home, minlength=4)[1:].tolist()) == [33, 33, 34]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_loads_differ_by_at_most_the_largest_client(workers: int) -> None:
    work = np.random.default_rng(1).random(200)
    home = static_placement(work, list(range(1, workers + 1)))
    loads = np.bincount(home, weights=work, minlength=workers + 1)[1:]
    assert loads.max() - loads.min() <= work.max()


def test_clients_that_never_work_are_spread_too() -> None:
    home = static_placement(np.zeros(10), [1, 2])
    assert np.bincount(home)[1:].tolist() == [5, 5]
