"""An MPI test that fails names the ranks and their assertions, and ends: here a suite of one failing test is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Finished

ROOT = Path(__file__).parents[2]
RANKS = 3

SUITE = """
import pytest
from tests.support.ranks import COMM, fail_together

pytestmark = pytest.mark.mpi

def test_ranks():
{body}
"""


@pytest.fixture
def run_suite(start: Callable[..., Finished], tmp_path: Path) -> Callable[[str], Finished]:
    """Run a test with that body on three ranks, as `make test-mpi-3` does."""

    def run(body: str) -> Finished:
        file = tmp_path / "test_ranks.py"
        file.write_text(SUITE.format(body="\n".join(f"    {line}" for line in body.splitlines())))
        options = ["-x", "--with-mpi", "--only-mpi", "-p", "no:cacheprovider", "-p", "tests.mpi.conftest"]
        command = [sys.executable, "-m", "mpi4py", "-m", "pytest", *options, "--rootdir", tmp_path, file]
        return start(*command, ranks=RANKS, cwd=ROOT)

    return run


def test_all_ranks_fail_together_and_each_failure_is_shown(run_suite: Callable[[str], Finished]) -> None:
    done = run_suite("with fail_together():\n    if COMM.rank:\n        assert [COMM.rank, 5] == [7, 5]")
    assert done.returncode != 0
    assert "failed on rank 1, 2 of 3 ranks" in done.stdout
    for rank in (1, 2):
        _, _, told = done.stdout.partition(f"---- rank {rank} ----")
        # The line of the test, and what pytest's rewritten assert says about it.
        assert "assert [COMM.rank, 5] == [7, 5]" in told.splitlines()[3]
        assert f"AssertionError: assert [{rank}, 5] == [7, 5]" in told.partition("---- rank")[0]
    assert "---- rank 0 ----" not in done.stdout
    assert "1 failed" in done.stdout


def test_any_exception_counts_and_pytest_s_own_too(run_suite: Callable[[str], Finished]) -> None:
    body = "with fail_together():\n    if COMM.rank == 0:\n        with pytest.raises(ValueError):\n            pass\n"
    done = run_suite(body + "    if COMM.rank == 2:\n        raise KeyError('theta')")
    assert "failed on rank 0, 2 of 3 ranks" in done.stdout
    assert "DID NOT RAISE" in done.stdout
    assert "KeyError: 'theta'" in done.stdout


def test_nothing_is_raised_where_all_ranks_pass(run_suite: Callable[[str], Finished]) -> None:
    done = run_suite("with fail_together():\n    assert COMM.size == 3")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_rank_that_fails_outside_of_the_block_is_named(run_suite: Callable[[str], Finished]) -> None:
    """The others wait for it in a collective call until mpi4py aborts the job; rank 0 prints nothing."""
    done = run_suite("if COMM.rank == 2:\n    assert COMM.size == 7\nCOMM.barrier()")
    assert done.returncode != 0
    assert "test_ranks failed on rank 2:" in done.stderr
    assert "assert 3 == 7" in done.stderr
