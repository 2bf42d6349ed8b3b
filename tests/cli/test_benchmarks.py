"""Benchmarks, as small as they can be: each runs to its end and prints its table, whatever it measures."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import Finished, environment

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
HANG_SECONDS = 280


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., str]:
    """Run a benchmark with arguments; it must succeed. Returns what it printed."""

    def run(name: str, *arguments: str) -> str:
        command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
        kept = {"cwd": tmp_path, "env": environment(), "timeout": HANG_SECONDS}
        done = subprocess.run(command, capture_output=True, text=True, **kept)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def rows(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_conclusions_of_a_comparison(bench: Callable[..., str], fedmpi_here: Callable[..., Finished]) -> None:
    settings = ["-s", "run.T=4", "-s", "eval.every=3", "--schemes", "md,uniform,clustered", "--seeds", "2"]
    assert fedmpi_here("compare", "quadratic", *settings, "-o", "runs").returncode == 0
    (found,) = rows(bench("conclusions", "runs"), "n = 20, m = 5")
    # md less each of the two others: the mean, its interval and the exact expectation; then (n−m+1) Σp².
    assert len(re.findall(r"\d+\.\d+", found)) == 7, found


@pytest.mark.slow
def test_overhead(bench: Callable[..., str]) -> None:
    told = bench("overhead", "--count", "3")
    assert len(rows(told, "per-client, m =")) == 2
    assert len(rows(told, "reduced, m =")) == 1


def test_training(bench: Callable[..., str]) -> None:
    told = bench("training", "--steps", "2", "--clients", "2", "--windows", "10", "--data", "synthetic-text")
    assert [len(rows(told, name)) for name in ("stock  ", "plain loop  ", "fedmpi  ")] == [1, 1, 2]


@pytest.mark.slow
def test_placement(bench: Callable[..., str]) -> None:
    assert "θ is the same bits in all jobs" in bench("placement", "--rounds", "2", "--turns", "1")


@pytest.mark.slow
def test_idle(bench: Callable[..., str]) -> None:
    assert len(rows(bench("idle", "1"), "rank ")) == 3


FILES = sorted(BENCHMARKS.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_all_that_a_benchmark_imports_from_fedmpi_exists(path: Path) -> None:
    """Also what it imports only when it gets there."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedmpi":
            module = importlib.import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                part = f"{node.module}.{name}"
                assert hasattr(module, name) or importlib.util.find_spec(part), f"{part}, line {node.lineno}"
