"""The commands, as a newcomer would try them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi import open_record
from fedmpi.config import declared_keys, presets
from fedmpi.sampling import SCHEMES


def test_run_show_and_run_again(fedmpi: Callable, tmp_path: Path) -> None:
    first = fedmpi("run", "quadratic", "-s", "run.T=7", "-s", "run.seed=9", "-o", "a.h5")
    assert first.returncode == 0, first.stderr
    assert "record: a.h5" in first.stdout
    assert "round 7/7" in first.stderr
    again = fedmpi("run", "a.h5", "-o", "b.h5", ranks=3)
    assert again.returncode == 0, again.stderr
    with open_record(tmp_path / "a.h5") as a, open_record(tmp_path / "b.h5") as b:
        assert a.config == b.config
        assert a.theta.tobytes() == b.theta.tobytes()
    shown = fedmpi("show", "a.h5", "b.h5")
    assert shown.returncode == 0
    assert shown.stdout.count("md ") == 2
    details = fedmpi("show", "b.h5").stdout
    assert "3 ranks" in details
    assert "logical" in details


def test_the_default_output_is_named_after_the_run(fedmpi: Callable, tmp_path: Path) -> None:
    done = fedmpi("run", "quadratic", "-s", "run.T=1", "-s", "run.name=mine")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mine.h5").exists()


def test_lists(fedmpi: Callable) -> None:
    schemes = fedmpi("schemes").stdout
    assert all(name in schemes for name in SCHEMES)
    listed = fedmpi("presets").stdout
    assert all(name in listed for name in presets())
    explained = fedmpi("config", "explain").stdout
    assert all(f"{dotted} = " in explained for dotted, _ in declared_keys())
    assert "client.eta_l = 0.1" in fedmpi("config", "explain", "client.").stdout
    assert fedmpi("config", "explain", "nothing").returncode == 2


def test_config_show_prints_toml_that_runs(fedmpi: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(fedmpi("config", "show", "quadratic", "-s", "run.T=2").stdout)
    done = fedmpi("run", "mine.toml")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["run", "show", "schemes", "presets", "config"])
def test_every_command_explains_itself(fedmpi: Callable, command: str) -> None:
    done = fedmpi(command, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 4


def test_python_m_fedmpi(start: Callable) -> None:
    import sys

    assert start(sys.executable, "-m", "fedmpi", "--version").stdout.startswith("fedmpi, version")


def test_help_names_every_command(fedmpi: Callable) -> None:
    from fedmpi.cli import COMMANDS

    text = fedmpi("--help").stdout
    assert all(f"  {command}" in text for command in COMMANDS)
