"""Fixtures that run fedmpi, and the order of the tests."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

# Before its modules are imported, so that their assertions explain themselves as those of tests do.
pytest.register_assert_rewrite("tests.support")

from tests.support.commands import BIN, TIME_LIMIT, Finished, environment, mpirun_command, with_fedmpi_exit_code  # noqa: E402


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Finished]:
    """Run a command in a fresh directory; `ranks` > 0 puts it under mpirun."""

    def run(*command: str | Path, ranks: int = 0, cwd: Path = tmp_path, **env: str) -> Finished:
        full = [*mpirun_command(ranks), *map(str, command)]
        return with_fedmpi_exit_code(
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
