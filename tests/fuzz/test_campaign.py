"""A short campaign, always the same; the slow one takes other inputs. `python -m tests.fuzz.campaign` is the whole."""

from __future__ import annotations

import pytest

from tests.fuzz.campaign import campaign
from tests.support.guard import Tally, explain, try_all

SHORT = {"config": 6000, "records": 120, "datasets": 400}
LONG = {"config": 30_000, "records": 600, "datasets": 2500}


def check(kind: str, tally: Tally, inputs: int) -> None:
    assert not tally.failures, explain(kind, tally)
    assert tally.inputs == inputs
    # Neither does everything get through, nor is everything turned away at the door.
    assert tally.accepted > 0.01 * inputs
    assert tally.refused > 0.01 * inputs


@pytest.mark.parametrize("kind", SHORT)
def test_nothing_escapes(kind: str) -> None:
    check(kind, campaign(kind, SHORT[kind], seed=1), SHORT[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_nothing_escapes_for_longer(kind: str) -> None:
    check(kind, campaign(kind, LONG[kind], seed=2), LONG[kind])


def test_the_guard_catches_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception, a message of two lines, a crash, a hang and a hoarder; the inputs between them are tried."""
    import ctypes
    import time

    from fedmpi.errors import FedmpiError

    def attempt(number: int) -> None:
        if number == 1:
            raise KeyError("escaped")
        if number == 2:
            raise FedmpiError("two\nlines")
        if number == 3:
            ctypes.string_at(0)
        if number == 4:
            time.sleep(60)
        if number == 5:
            bytearray(2 << 30)
        if number == 6:
            raise FedmpiError("refused")

    monkeypatch.setattr("tests.support.guard.SECONDS", 3.0)
    tally = try_all(attempt, range(8))
    assert sorted(tally.failures) == [1, 2, 3, 4, 5]
    assert (tally.inputs, tally.accepted) == (8, 2)
    assert "KeyError" in tally.failures[1]
    assert "-11" in tally.failures[3]
    assert "Timeout" in tally.failures[4]
    assert "MemoryError" in tally.failures[5]
