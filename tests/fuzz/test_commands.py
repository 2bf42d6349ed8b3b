"""Commands given what they cannot use: exit code 2, one sentence, no traceback, and an end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.records import seeds

TIME_LIMIT = 60
FORMS = ("missing", "empty", "noise", "folder", "pipe", "endless", "killed and cut", "longest")
COMMANDS = {
    "show": ["show", "X"],
    "report": ["report", "X", "-o", "out"],
    "watch": ["watch", "--once", "X"],
    "replay": ["replay", "X", "-o", "out.h5"],
    "run": ["run", "X"],
    "config": ["config", "show", "X"],
    "gutenberg": ["data", "import", "gutenberg", "X"],
    "leaf": ["data", "import", "leaf", "X"],
    "cifar10": ["data", "import", "cifar10", "X"],
    "shakespeare": ["data", "get", "shakespeare", "--from", "X"],
    "theory": ["theory", "--p", "X"],
    "importance": ["run", "quadratic", "-s", "sampling.importance=file:X"],
    "trace": ["run", "quadratic", "-s", "network.enabled=true", "-s", "network.trace=X"],
}


def form(folder: Path, name: str) -> Path:
    """Something that is no input."""
    path = folder / "x"
    if name == "endless":
        return Path("/dev/zero")
    if name == "longest":
        return folder / ("x" * 4000)
    if name == "folder":
        path.mkdir()
    elif name == "pipe":
        os.mkfifo(path)
    elif name != "missing":
        path.write_bytes({"empty": b"", "noise": os.urandom(500), "killed and cut": seeds()[3][:20_000]}[name])
    return path


# Every command with one form, every form with some commands: a process takes a second.
PAIRS = [(command, FORMS[k % len(FORMS)]) for k, command in enumerate(COMMANDS)]
PAIRS += [("show", "pipe"), ("run", "pipe"), ("show", "killed and cut"), ("run", "endless"), ("watch", "longest")]
MORE = [(command, name) for command in COMMANDS for name in FORMS if (command, name) not in PAIRS][::3]


def check(folder: Path, command: str, name: str) -> None:
    given = str(form(folder, name))
    arguments = [word.replace("X", given) for word in COMMANDS[command]]
    done = subprocess.run(
        [sys.executable, "-m", "fedmpi", *arguments],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        cwd=folder,
        env={**os.environ, "FEDMPI_CACHE": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
    )
    said = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    assert len([line for line in said if line.startswith("fedmpi: ")]) == 1, done.stderr
    assert list(folder.rglob("*.h5")) == []


@pytest.mark.parametrize(("command", "name"), PAIRS)
def test_what_is_no_input_is_refused(tmp_path: Path, command: str, name: str) -> None:
    check(tmp_path, command, name)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "name"), MORE)
def test_more_that_is_no_input_is_refused(tmp_path: Path, command: str, name: str) -> None:
    check(tmp_path, command, name)
