"""The launcher of a job (mpirun, srun): the variables that it sets, and the exit file of the launch scripts.

An mpirun or srun of another MPI starts every rank as a job of its own, each with a server that writes the same record:
`check` refuses that. Open MPI's mpirun exits with 0 when it has lost a host, and any mpirun may wait for ever for one
that it cannot reach: rank 0 therefore writes its exit code to a file that the launch scripts name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from fedmpi.errors import FedmpiError

# How long a rank that fails waits for rank 0 to print the reason: a launcher ends the job when the first rank exits.
GRACE_SECONDS = 3.0
# Slurm numbers a job's steps from 0; from here on are its own, such as the batch script and the shell of salloc.
SLURM_OWN_STEPS = 0xFFFFFFF0
# The option with which srun starts the ranks of an MPI as one job; `--mpi=pmi2` for those that are not listed.
SRUN_OPTIONS = {"Open MPI": "--mpi=pmix"}


class LaunchError(FedmpiError):
    """Ranks that a wrong launcher has started as separate jobs."""

    exit_code = 2


@dataclass(frozen=True)
class Launcher:
    """A kind of launcher, and the variables with the number of processes that it has started and this one's rank."""

    name: str
    rank: str
    size: str = ""  # empty if it sets none


MPIRUNS = (
    Launcher("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    Launcher("srun --mpi=pmix", "PMIX_RANK"),
    Launcher("MPICH's mpirun, or srun --mpi=pmi2,", "PMI_RANK", "PMI_SIZE"),
)
SRUN = Launcher("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
# The launch scripts name here the file for rank 0's exit code.
EXIT_FILE = "FEDMPI_EXIT_FILE"


def check(environ: Mapping[str, str], size: int, vendor: str) -> None:
    """Raise if this process was started as one of several and is alone (`size` is 1) in the MPI of this vendor.

    The first of them raises at once, the others after it has had time to print why.
    """
    started_by = launcher_of_several(environ) if size == 1 else None
    if started_by is None:
        return
    if environ.get(started_by.rank, "0") != "0":
        time.sleep(GRACE_SECONDS)
    raise LaunchError(
        f"{started_by.name} has started {environ[started_by.size]} processes, and MPI sees each of them alone: start "
        f"them with {vendor}'s mpirun or srun {SRUN_OPTIONS.get(vendor, '--mpi=pmi2')}, or unset {started_by.size} if "
        "each is to run alone"
    )


def launcher_of_several(environ: Mapping[str, str]) -> Launcher | None:
    """The launcher that has started this process together with others; None if it was started alone.

    The innermost one counts: under Slurm, mpirun starts its daemons with srun, whose variables the ranks inherit.
    """
    found = [launcher for launcher in MPIRUNS if number(environ, launcher.size)]
    if not found and is_task(environ):
        found = [SRUN]
    alone = any(number(environ, launcher.size) == 1 for launcher in found)
    several = [launcher for launcher in found if number(environ, launcher.size) > 1]
    return several[0] if several and not alone else None


def is_task(environ: Mapping[str, str]) -> bool:
    """Whether srun has started this process or its parent; not so in a batch script or the shell of salloc."""
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < SLURM_OWN_STEPS


def number(environ: Mapping[str, str], name: str) -> int:
    """The number that a variable holds; 0 if it holds none."""
    text = environ.get(name, "")
    return int(text) if text.isdigit() else 0


def write_exit_file(text: str) -> None:
    """On rank 0, replace what the exit file holds: "running", then the exit code. Without a launch script, nothing."""
    if (path := os.environ.get(EXIT_FILE)) and is_first_rank():
        with suppress(OSError), open(path, "w", encoding="utf-8") as file:
            file.write(text)


def is_first_rank() -> bool:
    """Whether this is rank 0, as far as the launcher's variables tell: known without MPI."""
    ranks = [os.environ[launcher.rank] for launcher in (*MPIRUNS, SRUN) if launcher.rank in os.environ]
    return not ranks or ranks[0] == "0"
