"""Under ULFM the job continues without a killed worker, to the θ of an unbroken run. All kills are real."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from fedmpi import open_record
from fedmpi.comm.failure_detector import RANK_LOSSES
from tests.support.commands import is_open_mpi
from tests.support.jobs import Job, launch, said, same_run, settings

pytestmark = pytest.mark.skipif(
    not (RANK_LOSSES and is_open_mpi()), reason="NOT TESTED: MPICH's mpirun ends a job that has lost a rank (no ULFM)"
)
EXCHANGES = ("per-client", "reduced")


def start(folder: Path, exchange: str, **more: object) -> Job:
    how = {"comm.exchange": exchange, "run.on_rank_failure": "continue", **more}
    return launch(folder, "run", "quadratic", *settings(**how), ranks=4, mpirun=["--with-ft", "ulfm"])


def recovered(folder: Path, job: Job, lost: list[int]) -> list[float]:
    """Seconds of each recovery, once the run is known to be the unbroken one."""
    done = job.end()
    assert done.returncode == 0, done.stderr
    same_run(folder)
    with open_record(folder / "run.h5") as record:
        events = record.events[record.events["kind"] == b"lost"]
        assert sorted(events["rank"].tolist()) == sorted(lost)
        late = record.cohorts[record.cohorts["t"] > events["t"].max()]
        assert not np.isin(late["rank"], lost).any()
        return [float(seconds) for seconds in events["seconds"]]


@pytest.mark.parametrize("exchange", ["per-client", pytest.param("reduced", marks=pytest.mark.slow)])
def test_a_worker_is_killed(folder: Path, exchange: str) -> None:
    job = start(folder, exchange)
    job.wait_for_rounds(20)
    job.hit(2)
    recovered(folder, job, [2])


@pytest.mark.parametrize("exchange", ["reduced", pytest.param("per-client", marks=pytest.mark.slow)])
def test_two_workers_are_killed(folder: Path, exchange: str) -> None:
    job = start(folder, exchange)
    job.wait_for_rounds(20)
    job.hit(1)
    job.wait_for_rounds(50)
    job.hit(3)
    recovered(folder, job, [1, 3])


def test_a_silent_worker_counts_as_dead(folder: Path) -> None:
    job = start(folder, "per-client", **{"comm.timeout": 3})
    job.wait_for_rounds(20)
    job.hit(2, signal.SIGSTOP)
    recovered(folder, job, [2])


def test_all_workers_are_killed(folder: Path) -> None:
    job = start(folder, "per-client", **{"run.T": 100_000})
    job.wait_for_rounds(20)
    for rank in (1, 2, 3):
        job.hit(rank)
    done = job.end()
    assert done.returncode == 1, done.stderr
    assert "no worker is left" in said(done)
    again = launch(folder, "run", "run.h5", *settings(), "--resume", ranks=2)
    assert again.end().returncode == 0
    same_run(folder)


@pytest.mark.slow
def test_twenty_kills(tmp_path_factory: pytest.TempPathFactory, unbroken: Path) -> None:
    times = []
    for trial in range(20):
        folder = tmp_path_factory.mktemp("lost")
        (folder / "reference.h5").write_bytes(unbroken.read_bytes())
        dice = random.Random(trial)
        job, victim = start(folder, EXCHANGES[trial % 2]), dice.choice((1, 2, 3))
        job.wait_for_rounds(dice.randrange(100))
        time.sleep(dice.random() * 0.02)
        job.hit(victim)
        times += recovered(folder, job, [victim])
    print(f"\n{len(times)} recoveries: median {np.median(times):.3f} s, longest {max(times):.3f} s")
