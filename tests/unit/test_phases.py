"""Division of a round's time, on hand-made timelines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmpi.comm.timeline import PHASES, divide, union


def test_a_round_by_hand() -> None:
    spans = {
        "sample": [(0.0, 1.0)],
        "down": [(1.0, 3.0)],
        "record": [(2.5, 4.0)],  # half a second of it while θ was still on its way
        "up": [(5.0, 7.0), (6.0, 8.0), (10.0, 11.0)],
        "aggregate": [(7.0, 7.5), (8.0, 8.5), (11.0, 12.0)],  # the first while another update was in flight
        "evaluate": [(12.0, 14.0)],
    }
    assert divide(0.0, 14.0, spans) == pytest.approx(
        {"sample": 1, "down": 2, "wait": 2.5, "up": 4, "aggregate": 1.5, "evaluate": 2, "record": 1}
    )


def test_flights_outside_the_round_do_not_count() -> None:
    assert divide(10.0, 20.0, {"up": [(5.0, 12.0), (19.0, 30.0)]})["up"] == pytest.approx(3)


def test_an_idle_round_is_all_wait() -> None:
    assert divide(0.0, 2.0, {})["wait"] == 2.0


interval = st.tuples(st.floats(-1, 11), st.floats(-1, 11)).map(lambda pair: (min(pair), max(pair)))
spans = st.dictionaries(st.sampled_from([p for p in PHASES if p != "wait"]), st.lists(interval, max_size=5))


@given(spans)
def test_phases_are_non_negative_and_add_up(seen: dict[str, list[tuple[float, float]]]) -> None:
    seconds = divide(0.0, 10.0, seen)
    assert sum(seconds.values()) == pytest.approx(10.0)
    assert min(seconds.values()) >= -1e-9


def test_union_merges_what_touches() -> None:
    assert union([(3, 4), (0, 1), (1, 2), (5, 5)]) == [(0, 2), (3, 4)]
