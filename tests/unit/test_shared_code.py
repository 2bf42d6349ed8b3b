"""What tests, fuzzers and benchmarks share is in tests/support: none of them imports a test or a conftest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, wherever in it: `a.b` and `a.b.c` for `from a.b import c`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test(module: str) -> bool:
    """Whether a module is named as pytest names what it collects."""
    return any(part == "conftest" or part.startswith("test_") for part in module.split("."))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_a_test_or_a_conftest(path: Path) -> None:
    assert [name for name in imported(path) if is_test(name)] == []


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.is_relative_to(ROOT / "benchmarks") or path.parent.name == "support"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_benchmarks_and_support_import_only_support_of_the_tests(path: Path) -> None:
    ours = [name for name in imported(path) if name.split(".")[0] == "tests"]
    assert [name for name in ours if not name.startswith("tests.support")] == []


def test_the_rule_sees_what_it_forbids(tmp_path: Path) -> None:
    source = (
        "from tests.conftest import BIN\ndef f():\n    import tests.mpi.test_rounds\nfrom tests.mpi import conftest\n"
    )
    (tmp_path / "x.py").write_text(source)
    found = {name for name in imported(tmp_path / "x.py") if is_test(name)}
    assert found == {"tests.conftest", "tests.conftest.BIN", "tests.mpi.test_rounds", "tests.mpi.conftest"}
