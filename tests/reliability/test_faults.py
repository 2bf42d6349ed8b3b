"""Each kind of fault under mpirun -n 4: the job ends by itself, with one sentence, its exit code and a record that
opens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedmpi import open_record
from fedmpi.record import checkpoint_path, read_checkpoint
from tests.support.jobs import launch, said, same_run, settings, theta_of

LONG = settings(**{"run.T": 100_000})

SCRIPT = """
import sys
from fedmpi import Config, run
from fedmpi import client
from fedmpi.comm.world import connect

world, fault = connect(), sys.argv[1]
if world.rank == 2:
    if fault == "memory":
        original = client.local_steps
        def hungry(model, theta, data, settings, key, *rest):
            if key[1] == 3:
                bytearray(2**62)
            return original(model, theta, data, settings, key, *rest)
        client.local_steps = hungry
    elif fault == "data":
        from fedmpi.job import prepare as setup
        def unreadable(config):
            raise PermissionError(13, "Permission denied", "shakespeare.h5")
        setup.load_dataset = unreadable
run(Config.load("quadratic", {"run.T": 1000, "sampling.scheme": "full"}), "run.h5", world=world)
"""


@pytest.mark.parametrize(("fault", "words"), [("memory", "MemoryError"), ("data", "Permission denied")])
def test_on_one_rank_only(start: Callable, tmp_path: Path, fault: str, words: str) -> None:
    (tmp_path / "broken.py").write_text(SCRIPT)
    done = start(sys.executable, "broken.py", fault, ranks=4)
    assert done.returncode == 1, done.stderr
    assert words in said(done)
    assert "rank 2" in said(done)
    with open_record(tmp_path / "run.h5") as record:
        assert record.status == "failed"


def test_a_silent_worker_is_named(folder: Path) -> None:
    job = launch(folder, "run", "quadratic", *LONG, "-s", "comm.timeout=3", ranks=4)
    job.wait_for_rounds(20)
    job.hit(2, signal.SIGSTOP)
    done = job.end()
    assert done.returncode == 1, done.stderr
    assert "rank 2 on" in said(done)
    assert "no heartbeat for 3 s" in said(done)
    again = launch(folder, "run", "run.h5", *settings(), "--resume", ranks=4)
    assert again.end().returncode == 0
    same_run(folder)


@pytest.mark.slow
def test_a_dead_worker_without_ulfm_leaves_a_run_to_resume(folder: Path) -> None:
    job = launch(folder, "run", "quadratic", *LONG, ranks=4)
    job.wait_for_rounds(20)
    job.hit(3)
    assert job.end().returncode != 0
    again = launch(folder, "run", "run.h5", *settings(), "--resume", ranks=3)
    assert again.end().returncode == 0
    same_run(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB, full of nothing yet."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("NOT TESTED: a full disk (needs root, to mount a small one)")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("ranks", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_full_disk(folder: Path, small_disk: Path, ranks: int) -> None:
    endless = settings(**{"run.T": 10**6, "record.theta_every": 0})
    done = launch(folder, "run", "quadratic", *endless, ranks=ranks, output="disk/run.h5").end()
    assert done.returncode == 1, done.stderr
    assert "cannot write disk/run.h5" in said(done)
    path = small_disk / "run.h5"
    found = read_checkpoint(path)
    with open_record(path) as record:
        assert record.status == "failed"
        assert len(record.rounds) == record.rounds_done > 100
        assert found is not None
        assert 0 < found.t <= record.rounds_done
    assert not list(small_disk.glob(".*")), "a file was left half written"
    assert checkpoint_path(path).exists()


def test_two_jobs_want_one_output(folder: Path) -> None:
    first = launch(folder, "run", "quadratic", *LONG)
    first.wait_for_rounds(1)
    for more in (["--resume"], ["--force"]):
        second = launch(folder, "run", "quadratic", *LONG, *more, ranks=2).end()
        assert second.returncode == 2, second.stderr
        assert "is being written by another job (process" in said(second)
    first.hit("mpirun", signal.SIGKILL)
    first.end()
    more = settings(**{"run.T": first.rounds + 5})
    third = launch(folder, "run", "quadratic", *more, "--resume").end()
    assert third.returncode == 0, third.stderr
    theta_of(folder / "run.h5")
