"""The README is true: every command in it runs, its tables are those of the code, its files exist."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.readme import regenerated
from tests.support.commands import BIN, mpirun_command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def test_generated_tables_are_current() -> None:
    assert regenerated(TEXT) == TEXT


def test_make_targets_exist() -> None:
    named = set(re.findall(r"make ([a-z-]+)", TEXT))
    assert {"run", "test"} <= named
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in named)


def test_source_map_names_what_exists() -> None:
    for cell in re.findall(r"^\| (`[^|]*`) \|", TEXT.split("## Source map")[1], re.M):
        folder = ""
        for name in re.findall(r"`([^`]+)`", cell):
            folder = str(Path(name).parent) if "/" in name.rstrip("/") else folder
            assert (ROOT / name).exists() or (ROOT / folder / name).exists(), name


@pytest.mark.timeout(600)
def test_every_command_runs(start: Callable, tmp_path: Path) -> None:
    """In order, in one directory: later commands read what earlier ones wrote."""
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block)
        else:
            (tmp_path / "script.py").write_text(block)
            done = start(sys.executable, "script.py")
            assert done.returncode == 0, done.stderr
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) > 5
    for line in commands:
        words = shlex.split(line, comments=True)
        if words[0] == "mpirun":
            words = [*mpirun_command(int(words[2])), *words[3:]]
        words = [name for word in words for name in (sorted(map(str, tmp_path.glob(word))) if "*" in word else [word])]
        done = start(*[BIN / word if word == "fedmpi" else word for word in words])
        assert done.returncode == 0, f"{line}\n{done.stderr}"
