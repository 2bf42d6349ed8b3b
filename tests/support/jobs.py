"""Real jobs to be broken: started as users start them, watched through their records, hit by signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi import open_record
from fedmpi.errors import FedmpiError
from tests.support.commands import BIN, TIME_LIMIT, Finished, as_meant, environment, mpirun_command, sentences

RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Rounds of about 5 ms with evaluations and checkpoints in between: a random moment falls into any of these.
SETTINGS = {"run.T": 120, "run.checkpoint_every": 7, "eval.every": 5, "data.dim": 2000, "record.theta_every": 40}


def settings(**more: object) -> list[str]:
    return [word for key, value in {**SETTINGS, **more}.items() for word in ("-s", f"{key}={value}")]


@dataclass
class Job:
    """A job that has been started in `folder`; `output` is its record."""

    folder: Path
    process: subprocess.Popen[str]
    output: str
    by_script: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def rounds(self) -> int:
        """Committed rounds, −1 before there is a record."""
        try:
            with open_record(self.folder / self.output) as record:
                return record.rounds_done
        except FedmpiError:
            return -1

    def wait_for_rounds(self, count: int) -> None:
        deadline = time.monotonic() + TIME_LIMIT
        while self.rounds < count:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "the job makes no progress"
            time.sleep(0.01)

    def rank(self, number: int) -> int:
        """The process id of a rank."""
        return {rank: pid for pid, rank in ranks_in(self.folder)}[number]

    def hit(self, target: int | str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a rank, or to `mpirun` (or the only process)."""
        with contextlib.suppress(KeyError, ProcessLookupError):  # it may have come to its end already
            os.kill(self.process.pid if target == "mpirun" else self.rank(int(target)), number)

    def end(self) -> Finished:
        """Wait for the job and for all its ranks; one that hangs is killed and fails the test."""
        try:
            out, err = self.process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            for pid in (self.process.pid, *(pid for pid, _ in ranks_in(self.folder))):
                os.kill(pid, signal.SIGKILL)
            raise
        deadline = time.monotonic() + TIME_LIMIT
        while ranks_in(self.folder):
            assert time.monotonic() < deadline, "ranks are left"
            time.sleep(0.02)
        done = subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)
        return done if self.by_script else as_meant(done)


def ranks_in(folder: Path) -> list[tuple[int, int]]:
    """(process id, rank) of the processes that run in a folder; rank 0 if they are no part of an MPI job."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                if b"fedmpi" not in (entry / "cmdline").read_bytes().split(b"\0mpirun")[0]:
                    continue
                pairs = (line.partition(b"=") for line in (entry / "environ").read_bytes().split(b"\0"))
                variables = {name.decode(): value for name, _, value in pairs}
                ranks = [int(variables[name]) for name in RANK_VARIABLES if name in variables]
                if ranks:
                    found.append((int(entry.name), ranks[0]))
        except (OSError, ValueError):
            continue
    return found


def launch(
    folder: Path,
    *arguments: str,
    ranks: int = 0,
    output: str = "run.h5",
    mpirun: Sequence[str] = (),
    starter: Sequence[str] = (),
    **env: str,
) -> Job:
    """Start `fedmpi` with these arguments and -o `output`: under mpirun with its options, or by a script."""
    start = mpirun_command(ranks)
    command = [*start[:1], *mpirun, *start[1:], str(BIN / "fedmpi")]
    command = [*(starter or command), *arguments, "-o", output]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, env=environment(**env), text=True, errors="replace", **pipes)
    return Job(folder, process, output, bool(starter))


def theta_of(path: Path) -> NDArray[np.float32]:
    """θ of a finished run, after a look at everything else that must hold of its record."""
    with open_record(path) as record:
        assert record.status == "done", record.message
        assert record.rounds["t"].tolist() == list(range(record.config.run.T))
        assert record.rounds["cohort_end"][-1] == len(record.cohorts)
        assert (np.diff(record.cohorts["t"]) >= 0).all()
        assert record.evals["t"].tolist() == sorted(set(record.evals["t"].tolist()))
        assert len(record.ranks["compute_time"]) == record.config.run.T
        return record.theta


def same_run(folder: Path, other: str = "run.h5", reference: str = "reference.h5") -> None:
    """Two records are of the same run: θ, every S_t and ω, every loss, bit for bit."""
    assert (theta_of(folder / other) == theta_of(folder / reference)).all()
    with open_record(folder / other) as first, open_record(folder / reference) as second:
        for name in ("client", "omega", "train_loss", "delta_norm"):
            assert (first.cohorts[name] == second.cohorts[name]).all()
        assert (first.evals["loss"] == second.evals["loss"]).all()
        assert (first.history[1] == second.history[1]).all()


def said(done: Finished) -> str:
    """The one sentence with which fedmpi ended."""
    found = [line for line in sentences(done) if "continuing without" not in line]
    assert len(found) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return found[0]


Launch = Callable[..., Job]
