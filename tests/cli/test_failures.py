"""An exception on any rank ends the whole job with one message that names the rank, and a readable record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.commands import sentences

# Breaks one place of a real run on one rank, in round 3 or at set-up, then runs as a user's script would.
SCRIPT = """
import sys
from fedmpi import Config, run
from fedmpi import client, federation
from fedmpi.comm.world import connect

world, place, rank = connect(), sys.argv[1], int(sys.argv[2])

def break_method(owner, name, when):
    original = getattr(owner, name)
    def broken(*arguments, **options):
        if when(*arguments):
            raise ZeroDivisionError("injected")
        return original(*arguments, **options)
    setattr(owner, name, broken)

if world.rank == rank:
    if place == "train":
        break_method(client, "local_steps", lambda model, theta, data, settings, key, *rest: key[1] == 3)
    elif place == "evaluate":
        break_method(client.LocalClients, "evaluate", lambda *given: True)
    elif place == "host":
        break_method(client.LocalClients, "__init__", lambda *rest: True)
    elif place == "draw":
        break_method(federation.Federation, "round", lambda self, t, *rest: t == 3)
settings = {"run.T": 1000, "sampling.scheme": "full", "eval.every": 4, "comm.exchange": sys.argv[3]}
run(Config.load("quadratic", settings), "run.h5", world=world)
"""


# The exchange matters where updates are on their way: elsewhere one of them is enough, but for `make test-all`.
PLACES = [
    ("train", 2, "rank 2, client "),
    ("train", 1, "round 3: ZeroDivisionError: injected"),
    ("evaluate", 1, "rank 1, ZeroDivisionError: injected"),
    ("host", 2, "rank 2, ZeroDivisionError: injected"),
    ("draw", 0, "ZeroDivisionError: injected"),
]
CASES = [
    pytest.param(*place, exchange, marks=[pytest.mark.slow] if exchange == "reduced" and place[0] != "train" else [])
    for place in PLACES
    for exchange in ("per-client", "reduced")
]


@pytest.mark.parametrize(("place", "rank", "words", "exchange"), CASES)
def test_one_rank_fails(start: Callable, tmp_path: Path, place: str, rank: int, words: str, exchange: str) -> None:
    (tmp_path / "broken.py").write_text(SCRIPT)
    done = start(sys.executable, "broken.py", place, str(rank), exchange, ranks=3)
    said = sentences(done)
    assert done.returncode == 1, done.stderr
    assert len(said) == 1, done.stderr
    assert words in said[0]
    assert "Traceback" not in done.stderr
    with open_record(tmp_path / "run.h5") as record:
        assert record.status == "failed"
        assert record.message in said[0]
        assert len(record.rounds) == {"train": 3, "draw": 3}.get(place, 0)
        assert record.theta_t == len(record.rounds)


def test_a_failure_alone_is_an_exception_like_any_other(start: Callable, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(SCRIPT)
    done = start(sys.executable, "broken.py", "train", "0", "per-client")
    assert done.returncode == 1
    assert "ZeroDivisionError: injected" in done.stderr
    with open_record(tmp_path / "run.h5") as record:
        assert record.status == "failed"
        assert len(record.rounds) == 3


@pytest.mark.parametrize("ranks", [0, 2])
def test_divergence_stops_the_run_and_is_seen(fedmpi: Callable, tmp_path: Path, ranks: int) -> None:
    done = fedmpi("run", "quadratic", "-s", "client.eta_l=2.5", "-s", "eval.every=1", "-o", "d.h5", ranks=ranks)
    said = sentences(done)
    assert done.returncode == 1
    assert len(said) == 1
    assert "lower client.eta_l" in said[0]
    with open_record(tmp_path / "d.h5") as record:
        losses = record.evals["loss"]
        assert record.status == "failed"
        assert len(losses) > 3
        assert losses[-1] > 1e6 * losses[0]
