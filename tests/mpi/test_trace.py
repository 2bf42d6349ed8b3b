"""The timeline of a run: every rank's spans, every client once a round, every message within its round."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fedmpi import Config, open_record, run
from tests.support.ranks import COMM, fail_together

pytestmark = pytest.mark.mpi
ROUNDS, CLIENTS = 5, 8


@pytest.mark.parametrize("placement", ["static", "dynamic"])
@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_a_timeline_has_every_phase_client_and_message(shared_path: Path, exchange: str, placement: str) -> None:
    where = {"comm.exchange": exchange, "comm.placement": placement, "comm.sync_every": 2}
    settings = {"run.T": ROUNDS, "data.n": CLIENTS, "sampling.scheme": "full", "eval.every": 2, **where}
    run(Config.load("quadratic", settings), shared_path / "run.h5", profile=shared_path / "run.trace.json")
    with fail_together():
        if COMM.rank == 0:
            check_timeline(shared_path)


def check_timeline(folder: Path) -> None:
    events: list[dict[str, Any]] = json.loads((folder / "run.trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    rounds = {event["name"]: event for event in spans if event["name"].startswith("round ")}
    assert sorted(rounds) == [f"round {t}" for t in range(ROUNDS)]
    assert {event["pid"] for event in spans} == set(range(COMM.size))
    assert {event["pid"] for event in events if event["name"] == "process_name"} == set(range(COMM.size))

    trained = Counter(event["name"] for event in spans if event["name"].startswith("train client"))
    assert trained == {f"train client {i}": ROUNDS for i in range(CLIENTS)}

    began, over = ({(e["id"]): e for e in events if e["ph"] == phase} for phase in "be")
    remote = COMM.size > 1
    assert sorted(began) == sorted(over) == sorted(f"{t}.{i}" for t in range(ROUNDS) for i in range(CLIENTS)) * remote
    for key, event in began.items():
        within = rounds[f"round {key.split('.')[0]}"]
        assert within["ts"] <= event["ts"] <= over[key]["ts"] <= within["ts"] + within["dur"]

    with open_record(folder / "run.h5") as record:
        for phase, seconds in record.phases.items():
            drawn = sum(event["dur"] for event in spans if event["name"] == phase and event["tid"] == 2)
            assert phase == "total" or drawn == pytest.approx(1e6 * seconds.sum(), rel=1e-6, abs=1)
