"""Signals end a run with a checkpoint, exit code 3 and the command that continues it; continued, it has the same θ."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.commands import BIN, is_open_mpi
from tests.support.jobs import SETTINGS, Job, launch, said, same_run, settings

ROOT = Path(__file__).parents[2]
LONG = settings(**{"run.T": 100_000})


def resume(folder: Path, ranks: int) -> None:
    """Continue as the sentence says, and compare with an unbroken run of as many rounds."""
    with open_record(folder / "run.h5") as record:
        T = max(SETTINGS["run.T"], record.rounds_done + 10)
    if T > SETTINGS["run.T"]:  # the signal took its time, and the run went past the reference
        unbroken = launch(folder, "run", "quadratic", *settings(**{"run.T": T}), "--force", output="reference.h5").end()
        assert unbroken.returncode == 0, unbroken.stderr
    job = launch(folder, "run", "run.h5", *settings(**{"run.T": T}), "--resume", ranks=ranks)
    assert job.end().returncode == 0
    same_run(folder)


def stopped(folder: Path, job: Job, words: str) -> None:
    done = job.end()
    assert done.returncode == 3, done.stderr
    assert words in said(done)
    assert "`fedmpi run run.h5 --resume`" in said(done)
    with open_record(folder / "run.h5") as record:
        assert record.status == "stopped"
        assert words in record.message
        assert record.theta_t == record.rounds_done


OTHERS = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGUSR1)]


@pytest.mark.parametrize("number", [signal.SIGTERM, *OTHERS])
def test_alone(folder: Path, number: signal.Signals) -> None:
    job = launch(folder, "run", "quadratic", *LONG)
    job.wait_for_rounds(20)
    job.hit("mpirun", number)
    stopped(folder, job, f"stopped by {number.name}")
    resume(folder, 0)


@pytest.mark.parametrize(
    ("target", "words"),
    [(2, "stopped by SIGTERM, sent to rank 2"), pytest.param(0, "stopped by SIGTERM", marks=pytest.mark.slow)],
)
def test_to_one_rank(folder: Path, target: int, words: str) -> None:
    job = launch(folder, "run", "quadratic", *LONG, ranks=4)
    job.wait_for_rounds(20)
    job.hit(target, signal.SIGTERM)
    stopped(folder, job, words)
    resume(folder, 2)


@pytest.mark.slow
def test_usr1_to_mpirun_is_passed_on(folder: Path) -> None:
    job = launch(folder, "run", "quadratic", *LONG, ranks=4)
    job.wait_for_rounds(20)
    job.hit("mpirun", signal.SIGUSR1)
    stopped(folder, job, "stopped by SIGUSR1")
    resume(folder, 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_launch_script_turns_it_into_a_checkpoint(folder: Path, number: signal.Signals) -> None:
    script = [str(ROOT / "launch" / "mpirun.sh"), str(ROOT / "hostfiles" / hostfile()), "4"]
    job = launch(folder, "run", "quadratic", *LONG, starter=script, FEDMPI_PREFIX=str(BIN.parent))
    job.wait_for_rounds(20)
    job.hit("mpirun", number)
    stopped(folder, job, "stopped by SIGUSR1")
    resume(folder, 3)


def hostfile() -> str:
    """The hostfile of this machine, in the syntax of the MPI that is installed."""
    return "localhost" if is_open_mpi() else "localhost.mpich"


def test_term_to_mpirun_leaves_a_run_to_resume(folder: Path) -> None:
    """Open MPI's mpirun then exits with 1 and drops what its ranks say: see docs/reliability.md."""
    job = launch(folder, "run", "quadratic", *LONG, ranks=4)
    job.wait_for_rounds(20)
    job.hit("mpirun", signal.SIGTERM)
    assert job.end().returncode != 0
    with open_record(folder / "run.h5") as record:
        assert record.rounds_done >= 20
    resume(folder, 3)
