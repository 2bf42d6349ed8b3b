"""The MPI suite runs under `python -m mpi4py -m pytest`: same tests on every rank, one of them talking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer
from mpi4py import MPI

COMM = MPI.COMM_WORLD


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if COMM.rank and reporter:
        reporter._tw = create_terminal_writer(config, open(os.devnull, "w"))  # noqa: SIM115


@pytest.fixture
def shared_path(tmp_path: Path) -> Path:
    """One directory for all ranks: rank 0's."""
    return Path(COMM.bcast(str(tmp_path)))


def everywhere(passed: bool) -> bool:
    """Whether it holds on all ranks: gathered before anyone asserts, so that all ranks fail together."""
    return bool(COMM.allreduce(bool(passed), MPI.LAND))
