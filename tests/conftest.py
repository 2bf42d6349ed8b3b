"""How tests start fedmpi as its users do: as a command, alone or under mpirun."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
# A limit, not a measurement: a job that hangs is killed and fails its test.
TIME_LIMIT = 120

Finished = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    settings = {
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    # Started from within an MPI job, mpirun would take that job's settings for its own.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PRTE_", "PMI_"))}
    return {**kept, **settings, **more}


@cache
def is_open_mpi() -> bool:
    """Whether the MPI that is installed is Open MPI; otherwise it is MPICH."""
    version = subprocess.run([BIN / "mpirun", "--version"], capture_output=True, text=True, check=True).stdout
    return "Open MPI" in version


def mpirun_command(ranks: int) -> list[str]:
    if not ranks:
        return []
    oversubscribe = ["--oversubscribe"] if is_open_mpi() else []
    return [str(BIN / "mpirun"), *oversubscribe, "-n", str(ranks)]


def mpi_hostfile(hosts: Mapping[str, int]) -> str:
    """The text of a hostfile that gives so many ranks to each host, in the syntax of the MPI that is installed."""
    form = "{} slots={}\n" if is_open_mpi() else "{}:{}\n"
    return "".join(form.format(*each) for each in hosts.items())


def sentences(done: Finished, *starts: str) -> list[str]:
    """What fedmpi itself said on stderr. mpirun's own words may stand around it, and may leave a blank before it."""
    lines = [line.lstrip() for line in done.stderr.splitlines()]
    return [line for line in lines if line.startswith(starts or ("fedmpi: ",))]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Finished]:
    """Run a command in a fresh directory; `ranks` > 0 puts it under mpirun."""

    def run(*command: str | Path, ranks: int = 0, cwd: Path = tmp_path, **env: str) -> Finished:
        full = [*mpirun_command(ranks), *map(str, command)]
        return subprocess.run(full, capture_output=True, text=True, timeout=TIME_LIMIT, cwd=cwd, env=environment(**env))

    return run


@pytest.fixture
def fedmpi(start: Callable[..., Finished]) -> Callable[..., Finished]:
    """Run the fedmpi command."""
    return lambda *arguments, **options: start(BIN / "fedmpi", *arguments, **options)
