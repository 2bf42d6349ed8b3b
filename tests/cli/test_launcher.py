"""Ranks that another MPI's mpirun has started do not know of each other: they are refused, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import BIN, Finished, is_open_mpi, sentences

ROOT = Path(__file__).parents[2]
OTHER = ROOT / ".venv-mpich/bin/mpirun"
COMMAND = ["run", "quadratic", "-s", "run.T=2", "-o", "run.h5"]


def refused(done: Finished, folder: Path, count: int) -> None:
    assert done.returncode == 2, done.stderr
    assert len(sentences(done)) == 1, done.stderr
    assert f"has started {count} processes, and MPI sees each of them alone: start them with" in sentences(done)[0]
    assert not list(folder.glob("*.h5"))


def test_the_other_mpirun(start: Callable[..., Finished], tmp_path: Path) -> None:
    if not is_open_mpi():
        pytest.skip("Open MPI's mpirun and MPICH: MPICH stops by itself")
    if not OTHER.exists():
        pytest.skip("NOT TESTED: MPICH's mpirun and Open MPI (needs `make install MPI=mpich`)")
    refused(start(OTHER, "-n", "3", BIN / "fedmpi", *COMMAND), tmp_path, 3)


def test_what_the_other_mpirun_says(fedmpi: Callable[..., Finished], tmp_path: Path) -> None:
    """Its variables alone, as where it is not installed: this process is the first of four, and alone."""
    said = {"PMI_SIZE": "4", "PMI_RANK": "0"} if is_open_mpi() else {"OMPI_COMM_WORLD_SIZE": "4"}
    refused(fedmpi(*COMMAND, **said), tmp_path, 4)
