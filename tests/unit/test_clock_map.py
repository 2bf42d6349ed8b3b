"""Clock arithmetic, on hand-made measurements and on made-up clocks whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmpi.comm.clocks import MAX_DRIFT, WANDER, ClockMap, Offsets


def measured(*rows: tuple[float, float, float]) -> ClockMap:
    """A map of two ranks; each row is rank 1's (offset, error, at)."""
    clocks = ClockMap(2)
    for offset, error, at in rows:
        clocks.add(Offsets(np.array([0.0, offset]), np.array([0.0, error]), np.array([at, at])))
    return clocks


def test_the_servers_own_clock_is_itself() -> None:
    clocks = measured((3.0, 1e-3, 100.0))
    assert clocks.to_server(0, 1234.5) == 1234.5
    assert clocks.error(0, 1234.5) == 0.0


def test_one_measurement_holds_and_its_error_grows_with_the_maximal_drift() -> None:
    clocks = measured((3.0, 1e-3, 100.0))
    assert clocks.to_server(1, 103.0) == 100.0
    assert clocks.error(1, 103.0) == pytest.approx(1e-3)
    assert clocks.to_server(1, 113.0) == 110.0
    assert clocks.error(1, 113.0) == pytest.approx(1e-3 + 10 * MAX_DRIFT)
    assert clocks.error(1, 93.0) == pytest.approx(1e-3 + 10 * MAX_DRIFT)


def test_between_two_measurements_the_offset_is_interpolated() -> None:
    # The worker shows 3 s more at 100, 3.01 s more at 200: its clock goes from 103 to 203.01.
    clocks = measured((3.0, 1e-3, 100.0), (3.01, 3e-3, 200.0))
    middle = (103.0 + 203.01) / 2
    assert clocks.to_server(1, middle) == pytest.approx(150.0, abs=1e-9)
    assert clocks.error(1, middle) == pytest.approx(2e-3 + WANDER * 100.01 / 2)
    assert clocks.error(1, 103.0) == pytest.approx(1e-3)
    assert clocks.error(1, 203.01) == pytest.approx(3e-3)


def test_after_the_last_the_mean_rate_goes_on_with_its_uncertainty() -> None:
    clocks = measured((0.0, 1e-4, 0.0), (0.01, 1e-4, 1000.0))
    shown = 2000.02
    assert clocks.to_server(1, shown) == pytest.approx(2000.0, abs=1e-6)
    assert clocks.error(1, shown) == pytest.approx(1e-4 + (2e-4 / 1000.01 + WANDER) * (shown - 1000.01))


def test_a_rate_from_measurements_too_close_together_is_not_used() -> None:
    # 1 ms of error each within one second would allow a rate of 2000 ppm.
    clocks = measured((0.0, 1e-3, 0.0), (1e-3, 1e-3, 1.0))
    assert clocks.to_server(1, 11.001) == pytest.approx(11.0)
    assert clocks.error(1, 11.001) == pytest.approx(1e-3 + 10 * MAX_DRIFT)


def test_a_clock_never_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 1"):
        ClockMap(2).to_server(1, 0.0)


@given(
    offset=st.floats(-1e5, 1e5),
    rate=st.floats(-MAX_DRIFT + WANDER, MAX_DRIFT - WANDER),
    wave=st.floats(0.0, 0.99),
    times=st.lists(st.floats(0.0, 600.0), min_size=1, max_size=5, unique=True),
    misses=st.lists(st.floats(-1.0, 1.0), min_size=5, max_size=5),
    asked=st.floats(0.0, 900.0),
)
def test_the_truth_is_within_the_stated_error(
    offset: float, rate: float, wave: float, times: list[float], misses: list[float], asked: float
) -> None:
    """A clock with a constant rate and a slow wave of at most half of WANDER around it, measured with errors."""

    def truth(server_time: float) -> float:
        return offset + rate * server_time + wave * WANDER / 2 * 50 * math.sin(server_time / 50)

    error = 1e-4
    rows = [(truth(at) + miss * error, error, at) for at, miss in zip(sorted(times), misses, strict=False)]
    clocks = measured(*rows)
    shown = asked + truth(asked)
    rounding = 1e-9  # times up to 1e5 s in float64, and a rate per second of one clock or of the other
    assert abs(clocks.to_server(1, shown) - asked) <= clocks.error(1, shown) * (1 + MAX_DRIFT) + rounding
