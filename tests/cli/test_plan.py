"""`fedmpi plan`, alone and on what doctor has measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi.scale import CLUSTER, JobShape, Machine, predict
from tests.support.commands import sentences


def test_plan_says_what_the_model_says(fedmpi: Callable) -> None:
    done = fedmpi("plan", "--workers", "1024", "--theta", "400MB", "-m", "1024", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for exchange, plan in found["exchanges"].items():
        job = JobShape(1024, 1024, 400_000_000, exchange, ranks_per_node=4)
        assert JobShape(**plan["job"]) == job
        assert plan["seconds"] == pytest.approx(predict(CLUSTER, job).total)
    assert found["reduced_faster_from"] == 1
    assert found["advice"].startswith("Choose reduced")


def test_plan_in_words(fedmpi: Callable) -> None:
    asked = ("plan", "--workers", "256", "--theta", "100MB", "-m", "256", "--compute-seconds", "20")
    done = fedmpi(*asked, "--bandwidth", "125MB", "--latency", "5e-5", "--ranks-per-node", "8", "--cores", "4")
    assert done.returncode == 0, done.stderr
    assert "257 ranks" not in done.stdout
    assert "on 33 nodes of 8 ranks and 4 cores" in done.stdout
    assert "50 µs and 125 MB/s" in done.stdout
    assert "is assumed" not in done.stdout
    assert "8 ranks share 4 cores" in done.stdout
    assert "most of it for the server's link" in done.stdout
    assert "6 steps of a tree over the nodes" in done.stdout
    assert "Choose reduced" in done.stdout
    only = fedmpi(*asked, "--exchange", "per-client").stdout
    assert "\nper-client " in only
    assert "\nreduced  " not in only


def test_plan_takes_the_job_from_a_preset_or_a_record(fedmpi: Callable, tmp_path: Path) -> None:
    preset = json.loads(fedmpi("plan", "--workers", "4", "--preset", "quadratic", "--json").stdout)
    job = preset["exchanges"]["reduced"]["job"]
    assert job["theta_bytes"] == 4 * 20
    assert fedmpi("run", "quadratic", "-s", "run.T=2", "-s", "data.dim=50", "-o", "a.h5").returncode == 0
    ran = json.loads(fedmpi("plan", "--workers", "4", "--record", "a.h5", "-m", "7", "--json").stdout)
    job = ran["exchanges"]["per-client"]["job"]
    assert (job["theta_bytes"], job["m"]) == (200, 7)
    assert job["compute"] > 0


def test_plan_reads_what_doctor_measured(fedmpi: Callable, tmp_path: Path) -> None:
    done = fedmpi("doctor", "--max-size", "1", "--json", "found.json", ranks=3)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    machine = Machine.from_dict(found["machine"])
    # One host: nothing is known of a link between nodes.
    assert {"latency", "link"} <= set(found["machine_assumed"])
    jobs = {(each["workers"], each["theta_bytes"], each["exchange"]) for each in found["rounds"]}
    assert jobs == {(W, b, exchange) for W in (1, 2) for b in (4, 2**18) for exchange in ("per-client", "reduced")}
    assert all(each["seconds"] > 0 and each["ranks_per_node"] == 3 for each in found["rounds"])
    (rates,) = machine.rates
    assert rates.size == 2**18
    assert machine.overhead > 0
    assert rates.add >= 0  # a fit to noisy rounds may end at the bound
    planned = fedmpi("plan", "--workers", "2", "--theta", "1MiB", "-m", "8", "--measured", "found.json", "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    job = JobShape(2, 8, 2**20, ranks_per_node=3)
    assert plan["exchanges"]["per-client"]["seconds"] == pytest.approx(predict(machine, job).total)
    many = fedmpi("plan", "--workers", "64", "--theta", "1MiB", "--measured", "found.json").stdout
    assert "the link between nodes is assumed" in many


def test_doctor_alone_has_nothing_to_plan_with(fedmpi: Callable) -> None:
    assert fedmpi("doctor", "--max-size", "0.1", "--json", "alone.json").returncode == 0
    done = fedmpi("plan", "--workers", "2", "--theta", "1MB", "--measured", "alone.json")
    assert done.returncode == 2
    (sentence,) = sentences(done)
    assert "mpirun -n 3 fedmpi doctor --json alone.json" in sentence


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--theta", "much"),
        ("--theta", "0MB"),
        ("--theta", "1MB", "--bandwidth", "0"),
        ("--theta", "1MB", "--latency", "-1"),
        ("--theta", "1MB", "--latency", "nan"),
        ("--theta", "1MB", "--compute-seconds", "-2"),
        ("--theta", "1MB", "--compute-seconds", "inf"),
        ("--theta", "1MB", "--measured", "missing.json"),
        ("--theta", "1MB", "--measured", "wrong.json"),
        ("--preset", "no-such-preset"),
        ("--record", "missing.h5"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(fedmpi: Callable, tmp_path: Path, wrong: tuple[str, ...]) -> None:
    (tmp_path / "wrong.json").write_text('{"machine": {"link": 1}, "machine_assumed": [], "ranks": [{"node": 0}]}')
    done = fedmpi("plan", "--workers", "4", *wrong)
    assert done.returncode == 2, done.stdout
    assert len(sentences(done)) == 1
    assert done.stderr.count("\n") == 1
