"""Jobs killed with SIGKILL at random moments, and resumed: θ is that of the unbroken run and no round is lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.jobs import Job, launch, same_run, settings

TARGETS = ("mpirun", 0, 1, 2)


def committed(folder: Path) -> list[tuple[int, float]]:
    """(t, wall_time) of the committed rounds: what must not be lost or rewritten."""
    if not (folder / "run.h5").exists():
        return []
    with open_record(folder / "run.h5") as record:
        assert len(record.cohorts) == (record.rounds["cohort_end"][-1] if record.rounds_done else 0)
        return [(int(t), float(wall)) for t, wall in zip(record.rounds["t"], record.rounds["wall_time"], strict=True)]


def break_and_resume(folder: Path, dice: random.Random, target: int | str, times: int) -> None:
    """Kill a job `times` times, each at a random moment of another third of its rounds, then let it end."""
    before: list[tuple[int, float]] = []
    for k in range(times + 1):
        ranks = dice.choice((2, 3, 4)) if k else 3
        exchange = dice.choice(("per-client", "reduced"))
        how = [*settings(**{"comm.exchange": exchange}), "--resume"]
        job: Job = launch(folder, "run", "quadratic", *how, ranks=ranks)
        if k < times:
            job.wait_for_rounds(min(dice.randrange(110), len(before) + 40))
            job.hit(target if isinstance(target, str) else min(target, ranks - 1))
        done = job.end()
        now = committed(folder)
        assert now[: len(before)] == before, "a committed round is missing, or was written again"
        before = now
    assert done.returncode == 0, done.stderr
    same_run(folder)


@pytest.mark.parametrize("target", ["mpirun", 1])
def test_a_killed_run_is_resumed_to_the_same_theta(folder: Path, target: int | str) -> None:
    break_and_resume(folder, random.Random(f"kill {target}"), target, times=1)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(25))
def test_fifty_kills(folder: Path, trial: int) -> None:
    """Two kills each: of the server, a worker or mpirun; the resumed job has other ranks and another exchange."""
    dice = random.Random(trial)
    break_and_resume(folder, dice, TARGETS[trial % 4], times=2)
