"""How tests start fedmpi as its users do: as a command, alone or under mpirun."""

from __future__ import annotations

import atexit
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

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


def as_meant(done: Finished) -> Finished:
    """A finished job with the exit code that fedmpi gave it.

    MPICH's mpirun joins its ranks' codes bit by bit: it says 9 if, after MPI_Abort, it had to kill one, and the code
    stands only in what it printed. docs/reliability.md says so.
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
    """What fedmpi itself said on stderr. mpirun's own words may stand around it, and may leave a blank before it."""
    lines = [line.lstrip(" \t\0") for line in done.stderr.splitlines()]
    return [line for line in lines if line.startswith(starts or ("fedmpi: ",))]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Finished]:
    """Run a command in a fresh directory; `ranks` > 0 puts it under mpirun."""

    def run(*command: str | Path, ranks: int = 0, cwd: Path = tmp_path, **env: str) -> Finished:
        full = [*mpirun_command(ranks), *map(str, command)]
        return as_meant(
            subprocess.run(full, capture_output=True, text=True, timeout=TIME_LIMIT, cwd=cwd, env=environment(**env))
        )

    return run


@pytest.fixture
def fedmpi(start: Callable[..., Finished]) -> Callable[..., Finished]:
    """Run the fedmpi command."""
    return lambda *arguments, **options: start(BIN / "fedmpi", *arguments, **options)


@pytest.fixture
def fedmpi_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Finished]:
    """Run the fedmpi command in this process, for what a process of its own would not change: it starts at once."""
    from fedmpi.cli import main

    def run(*arguments: str) -> Finished:
        words = ["fedmpi", *arguments]
        out, err, code = io.StringIO(), io.StringIO(), 0
        with monkeypatch.context() as changed, redirect_stdout(out), redirect_stderr(err):
            changed.chdir(tmp_path)
            changed.setattr(sys, "argv", words)
            try:
                main()
            except SystemExit as leaving:
                code = int(leaving.code or 0)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on hosts of their own run one after the other; first, so that the others run beside them, if any do."""

    def on_hosts(item: pytest.Item) -> bool:
        return item.path.parent.name in ("multinode", "slurm")

    items.sort(key=on_hosts, reverse=True)
    for item in filter(on_hosts, items):
        item.add_marker(pytest.mark.xdist_group("hosts"))
