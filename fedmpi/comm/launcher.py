"""What a launcher (mpirun, srun) tells each process, and what the launch scripts are told in return.

An mpirun or srun of another MPI leaves every process alone, each a server that writes the same record: `check` refuses
that. Open MPI's mpirun exits with 0 when it has lost a host, and any mpirun may wait for ever for one that it cannot
reach: rank 0 therefore writes its exit code to a file that the launch scripts name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from fedmpi.errors import FedmpiError

# How long the other processes leave the first one to speak: a launcher ends the job with the first that leaves.
GRACE_SECONDS = 3.0
# Slurm numbers a job's steps from 0; from here on are its own, such as the batch script and the shell of salloc.
SLURM_OWN_STEPS = 0xFFFFFFF0
# What to give srun so that it tells an MPI who else there is; where it is another MPI, as for MPICH.
SRUN_OPTIONS = {"Open MPI": "--mpi=pmix"}


class LaunchError(FedmpiError):
    """Processes that were started together and do not know of each other."""

    exit_code = 2


@dataclass(frozen=True)
class Launcher:
    """One kind of launcher, and the variables that say how many processes it has started and which of them this is."""

    name: str
    size: str
    rank: str


MPIRUNS = (
    Launcher("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    Launcher("MPICH's mpirun, or srun --mpi=pmi2,", "PMI_SIZE", "PMI_RANK"),
)
SRUN = Launcher("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID")


def check(environ: Mapping[str, str], size: int, vendor: str) -> None:
    """Raise if this process was started as one of several and is alone (`size` is 1) in the MPI of this vendor.

    The first of them raises at once, the others when it has had time to say why.
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

    The nearest one counts: under Slurm, mpirun starts its own helpers with srun, whose variables the ranks inherit.
    """
    near = [launcher for launcher in MPIRUNS if number(environ, launcher.size)]
    if not near and is_task(environ):
        near = [SRUN]
    alone = any(number(environ, launcher.size) == 1 for launcher in near)
    several = [launcher for launcher in near if number(environ, launcher.size) > 1]
    return several[0] if several and not alone else None


def is_task(environ: Mapping[str, str]) -> bool:
    """Whether srun has started this process, or what started it: not so in a batch script or the shell of salloc."""
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < SLURM_OWN_STEPS


def number(environ: Mapping[str, str], name: str) -> int:
    """The number that a variable holds; 0 if it holds none."""
    text = environ.get(name, "")
    return int(text) if text.isdigit() else 0


# The launch scripts name here the file for rank 0's exit code.
EXIT_FILE = "FEDMPI_EXIT_FILE"
# Launchers tell each process its rank here: known before MPI is, and without it.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def write_exit_file(text: str) -> None:
    """On rank 0, replace what the exit file holds: "running", then the exit code. Without a launch script, nothing."""
    if (path := os.environ.get(EXIT_FILE)) and is_first_rank():
        with suppress(OSError), open(path, "w", encoding="utf-8") as file:
            file.write(text)


def is_first_rank() -> bool:
    ranks = [os.environ[name] for name in RANK_VARIABLES if name in os.environ]
    return not ranks or ranks[0] == "0"
