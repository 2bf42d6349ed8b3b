"""Processes that were started together and do not know of each other are refused, not one that is meant to be alone."""

from __future__ import annotations

import pytest

from fedmpi.comm import launcher
from fedmpi.comm.launcher import LaunchError, check

BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
TASK = {**BATCH, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
MPICH = {"PMI_SIZE": "4", "PMI_RANK": "0"}

FINE = {
    "a shell": ({}, 1),
    "mpirun": (OPEN_MPI, 4),
    "MPICH's mpirun": (MPICH, 4),
    "mpirun of one rank": ({"OMPI_COMM_WORLD_SIZE": "1"}, 1),
    "alone in a batch script": (BATCH, 1),
    "alone in a batch script that is a step": ({**TASK, "SLURM_STEP_ID": "4294967291"}, 1),
    "alone in the shell of salloc": ({**TASK, "SLURM_STEP_ID": "4294967290"}, 1),
    "srun of one task": ({**TASK, "SLURM_STEP_NUM_TASKS": "1"}, 1),
    "srun": (TASK, 4),
    "srun --mpi=pmi2": ({**TASK, **MPICH}, 4),
    "mpirun of one rank whose helpers srun has started": ({**TASK, "PMI_SIZE": "1"}, 1),
    "mpirun of one rank within a task of many": ({**MPICH, "OMPI_COMM_WORLD_SIZE": "1"}, 1),
    "a variable that is no number": ({"PMI_SIZE": "many"}, 1),
}
REFUSED = {
    "MPICH's mpirun": (MPICH, "MPICH's mpirun, or srun --mpi=pmi2, has started 4 processes"),
    "Open MPI's mpirun": (OPEN_MPI, "Open MPI's mpirun has started 4 processes"),
    "srun --mpi=none": (TASK, "srun has started 4 processes"),
    "srun --mpi=pmi2": ({**TASK, **MPICH}, "srun --mpi=pmi2, has started 4 processes"),
}


@pytest.mark.parametrize("case", FINE)
def test_one_that_is_meant_to_be_as_it_is_goes_on(case: str) -> None:
    environ, size = FINE[case]
    check(environ, size, "Open MPI")


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize(("vendor", "option"), [("Open MPI", "pmix"), ("MPICH", "pmi2"), ("Intel MPI", "pmi2")])
def test_one_of_several_that_is_alone_is_refused(case: str, vendor: str, option: str) -> None:
    environ, words = REFUSED[case]
    with pytest.raises(LaunchError) as refusal:
        check(environ, 1, vendor)
    assert words in str(refusal.value)
    assert f"start them with {vendor}'s mpirun or srun --mpi={option}" in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_the_first_speaks_before_the_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(launcher.time, "sleep", waited.append)
    for rank in ("0", "1"):
        with pytest.raises(LaunchError):
            check({**MPICH, "PMI_RANK": rank}, 1, "Open MPI")
    assert waited == [launcher.GRACE_SECONDS]
