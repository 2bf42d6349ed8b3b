"""What `fedmpi show` says of how evenly the ranks were busy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from fedmpi import Config
from fedmpi.report.summary import balance


def said(busy: list[list[float]], placement: str = "static") -> str:
    config = Config.load(None, {"comm.placement": placement})
    return balance(SimpleNamespace(ranks={"compute_time": np.array(busy)}, config=config))


def test_the_slowest_rank_is_compared_with_the_mean_of_those_that_train() -> None:
    assert said([[0, 3.0, 1.0], [0, 4.0, 4.0], [0, 3.0, 1.0]]) == (
        "static over 2 ranks: the slowest trained 1.50 × the mean (median round)"
    )
    assert said([[2.0]], "dynamic").startswith("dynamic over 1 rank: the slowest trained 1.00 ×")


def test_rounds_in_which_nobody_trains_say_nothing() -> None:
    assert said([[0.0, 0.0]]) == ""
    assert "1.50 ×" in said([[0.0, 0.0, 0.0], [0.0, 3.0, 1.0]])
