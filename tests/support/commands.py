"""How tests and benchmarks start fedmpi as its users do: as a command, alone or under mpirun."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

BIN = Path(sys.executable).parent
# A limit, not a measurement: a job that hangs is killed and fails its test.
TIME_LIMIT = 120

Finished = subprocess.CompletedProcess[str]


@cache
def leftovers() -> str:
    """A folder for what killed jobs leave behind, removed with this process."""
    folder = tempfile.mkdtemp(prefix="fedmpi-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(**more: str) -> dict[str, str]:
    """This process's environment for a job: one thread per rank, this virtual environment's programs first."""
    settings = {
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
        # Where Open MPI's mpirun keeps a folder named after its process. One that is killed leaves it behind, and the
        # next with the same number does not start.
        "PRTE_MCA_prte_tmpdir_base": tempfile.mkdtemp(dir=leftovers()),
    }
    # An mpirun that is started within an MPI job would read that job's settings as its own.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM", "PMIX_", "PRTE_", "PMI_"))}
    return {**kept, **settings, **more}


@cache
def is_open_mpi() -> bool:
    """Whether the MPI that is installed is Open MPI; otherwise it is MPICH."""
    version = subprocess.run([BIN / "mpirun", "--version"], capture_output=True, text=True, check=True).stdout
    return "Open MPI" in version


def mpirun_command(ranks: int) -> list[str]:
    """The words that start a command on so many ranks; none for 0, which is the command alone."""
    if not ranks:
        return []
    oversubscribe = ["--oversubscribe"] if is_open_mpi() else []
    return [str(BIN / "mpirun"), *oversubscribe, "-n", str(ranks)]


def with_fedmpi_exit_code(done: Finished) -> Finished:
    """The finished job with the exit code that fedmpi gave to MPI_Abort.

    MPICH's mpirun combines the exit codes of its ranks bit by bit: it returns 9 if it had to kill one after
    MPI_Abort, and the code that was given is only in its output (see docs/reliability.md).
    """
    told = re.findall(r"application called MPI_Abort\(comm=\w+, (\d+)\)", done.stderr)
    if done.returncode == signal.SIGKILL and told and not is_open_mpi():
        return subprocess.CompletedProcess(done.args, int(told[0]), done.stdout, done.stderr)
    return done


def mpi_hostfile(hosts: Mapping[str, int]) -> str:
    """The text of a hostfile that gives so many ranks to each host, in the syntax of the MPI that is installed."""
    form = "{} slots={}\n" if is_open_mpi() else "{}:{}\n"
    return "".join(form.format(*each) for each in hosts.items())


def sentences(done: Finished, *starts: str) -> list[str]:
    """The lines of stderr that fedmpi printed. mpirun prints lines of its own, and may put a blank before ours."""
    lines = [line.lstrip(" \t\0") for line in done.stderr.splitlines()]
    return [line for line in lines if line.startswith(starts or ("fedmpi: ",))]
