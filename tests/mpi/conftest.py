"""The MPI suite runs under `python -m mpi4py -m pytest`: the same tests on every rank; rank 0 prints the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer

from tests.support.ranks import COMM, FailedOnRanks

failed_alone = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if COMM.rank and reporter:
        reporter._tw = create_terminal_writer(config, open(os.devnull, "w"))  # noqa: SIM115


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object], report: pytest.TestReport
) -> None:
    """Print a failure that this rank does not share with the others: they are about to be aborted, rank 0 too."""
    assert call.excinfo is not None
    if not isinstance(call.excinfo.value, FailedOnRanks):
        node.config.stash[failed_alone] = True
        print(f"\n{report.nodeid} failed on rank {COMM.rank}:\n{report.longreprtext}", file=sys.stderr, flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Wait until rank 0 has printed: the first rank that exits with an error makes mpi4py abort all of them."""
    sys.stdout.flush()
    if failed_alone not in config.stash:
        COMM.barrier()


@pytest.fixture
def shared_path(tmp_path: Path) -> Path:
    """One directory for all ranks: rank 0's."""
    return Path(COMM.bcast(str(tmp_path)))
