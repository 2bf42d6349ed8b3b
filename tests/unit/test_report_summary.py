"""What `fedmpi show` says of how evenly the ranks were busy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedmpi import Config
from fedmpi.record import open_record
from fedmpi.report.summary import about, balance
from tests.support.records import make_record


def said(busy: list[list[float]], placement: str = "static") -> str:
    config = Config.load(None, {"comm.placement": placement})
    return balance(SimpleNamespace(ranks={"compute_time": np.array(busy)}, config=config))


def test_the_slowest_rank_is_compared_with_the_mean_of_those_that_train() -> None:
    assert said([[0, 3.0, 1.0], [0, 4.0, 4.0], [0, 3.0, 1.0]]) == (
        "static over 2 ranks: the slowest rank trained 1.50 × the mean time (median over rounds)"
    )
    assert said([[2.0]], "dynamic").startswith("dynamic over 1 rank: the slowest rank trained 1.00 ×")


def test_rounds_in_which_nobody_trains_say_nothing() -> None:
    assert said([[0.0, 0.0]]) == ""
    assert "1.50 ×" in said([[0.0, 0.0, 0.0], [0.0, 3.0, 1.0]])


@pytest.mark.parametrize(
    ("end", "line"),
    [({"stopped": "stopped by SIGTERM"}, "stopped   by SIGTERM"), ({"failure": "it broke"}, "failure   it broke")],
)
def test_a_run_that_ended_early_says_how(tmp_path: Path, end: dict[str, str], line: str) -> None:
    with open_record(make_record(tmp_path / "a.h5", **end, T=9)) as record:
        assert about(record).splitlines()[-1] == line
