"""The commands and programs in the README and in docs/ run as they are written."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.commands import BIN, environment, is_open_mpi, mpirun_command

ROOT = Path(__file__).parents[2]
# Pages whose blocks run as they stand. The blocks of other pages need a cluster, or are patterns (`fedmpi run RECORD`):
# tests/slurm/test_page.py runs docs/cluster.md, and tests/unit/test_docs.py checks the names in all pages.
PAGES = ("README.md", "docs/commands.md", "docs/extending.md", "docs/record.md", "docs/settings.md", "docs/theory.md")
# A limit, not a measurement: `make run` takes a minute or two.
MAKE_TIME_LIMIT = 900
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.S)
# A row of the README's table of commands: | what | `on a laptop` | `on a cluster` or words |
ROW = re.compile(r"^\| [^|`]+ \| `(?P<laptop>[^|`]+)` \| (?P<cluster>[^|]+) \|$", re.M)


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def steps(text: str) -> Iterator[tuple[str, str]]:
    """What a page tells its reader to run, in order: ("python", program) or ("sh", command)."""
    found = [(match.start(), match[1], match[2]) for match in BLOCK.finditer(text)]
    found += [(match.start(), "sh", match["laptop"]) for match in ROW.finditer(text)]
    for _, language, content in sorted(found):
        if language == "python":
            yield language, content
        elif language == "sh":
            yield from (("sh", line) for line in content.splitlines())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs(start: Callable, tmp_path: Path, page: str) -> None:
    """In the order of the page, in one directory: later commands read what earlier ones wrote."""
    for name in ("launch", "hostfiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    found = list(steps(read(page)))
    assert found
    for language, content in found:
        if language == "python":
            run_program(start, tmp_path, content)
        else:
            run_command(start, tmp_path, content)


def run_program(start: Callable, folder: Path, program: str) -> None:
    """Save a program that names its file, to be used by a later command; run any other."""
    named = re.match(r"# (\w+\.py)\n", program)
    if named:
        (folder / named[1]).write_text(program)
    elif "import pandas" not in program or importlib.util.find_spec("pandas"):
        (folder / "script.py").write_text(program)
        done = start(sys.executable, "script.py")
        assert done.returncode == 0, f"{program}\n{done.stderr}"


def run_command(start: Callable, folder: Path, line: str) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "mpirun":
        words = [*mpirun_command(int(words[2])), *words[3:]]
    words = [name for word in words for name in (sorted(map(str, folder.glob(word))) if "*" in word else [word])]
    done = start(*[BIN / word if word == "fedmpi" else word for word in words])
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_cluster_s_commands_are_those_of_its_page() -> None:
    """tests/slurm/test_page.py runs the blocks of docs/cluster.md under Slurm."""
    known = "\n".join(content for language, content in BLOCK.findall(read("docs/cluster.md")) if language == "sh")
    named = [command for row in ROW.finditer(read("README.md")) for command in re.findall(r"`(.+ .+)`", row["cluster"])]
    assert len(named) >= 4
    for command in named:
        assert f"{command}\n" in known.replace(" --wait", ""), command


def test_the_pandas_block_names_columns_that_exist() -> None:
    """pandas is not a dependency: where it is not installed the block does not run."""
    from fedmpi.record.schema import TABLES

    block = next(content for language, content in BLOCK.findall(read("README.md")) if "import pandas" in content)
    columns = re.findall(r'"(\w+)"', block.split("[[")[1])
    assert columns
    assert set(columns) <= set(TABLES["/rounds"].dtype.names or ())


def test_the_readme_s_scheme_does_what_its_docstring_says() -> None:
    import numpy as np

    scope: dict = {}
    program = next(content for language, content in BLOCK.findall(read("README.md")) if content.startswith("# mine.py"))
    exec(program, scope)
    for n, m in ((20, 5), (10, 4), (7, 7), (5, 1)):
        p = np.arange(1.0, n + 1) / (n * (n + 1) / 2)
        scheme = scope["Systematic"](p, m)
        # A start decides the cohort; each start is as likely as any other.
        cohorts = [scheme.draw(Start(start)) for start in range(n)]
        mean = np.zeros(n)
        for cohort in cohorts:
            gaps = np.diff(cohort.clients, append=cohort.clients[0] + n)
            assert len(cohort) == m
            assert set(gaps) <= {n // m, -(-n // m)}
            assert cohort.omega == pytest.approx(n / m * p[cohort.clients])
            mean[cohort.clients] += cohort.omega / n
        assert mean == pytest.approx(p)


class Start:
    """In place of a generator: the random start, given."""

    def __init__(self, start: int) -> None:
        self.start = start

    def integers(self, n: int) -> int:
        return self.start


def test_the_record_s_page_names_every_attribute(start: Callable, tmp_path: Path) -> None:
    section = read("docs/record.md").split("## Attributes of the file")[1].split("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`[^|]*) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)}
    run = ["quadratic", "-s", "run.T=1"]
    for command in (
        ["run", *run, "-o", "one.h5"],
        ["compare", *run, "--schemes", "md", "-o", "pairs"],
        ["replay", "one.h5", "-o", "replayed.h5"],
    ):
        assert start(BIN / "fedmpi", *command).returncode == 0
    found: set[str] = set()
    for path in (tmp_path / "one.h5", tmp_path / "replayed.h5", *tmp_path.glob("pairs/*.h5")):
        with open_record(path) as record:
            found |= set(record.attributes)
    assert found == named


def make(*words: str, **more: str) -> str:
    """What `make` prints with the MPI that is installed, without installing anything."""
    settings = [f"MPI={'openmpi' if is_open_mpi() else 'mpich'}", f"VENV={BIN.parent}"]
    command = ["make", "--old-file=install", *settings, *words]
    # A session of its own, so that all that it has started ends with it.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment(**more), start_new_session=True
    )
    try:
        printed, _ = process.communicate(timeout=MAKE_TIME_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, printed
    return printed


def test_make_test_starts_the_tests() -> None:
    """Only what it would do: it would run this test."""
    assert "-m pytest" in make("--dry-run", "test")


@pytest.mark.slow
@pytest.mark.timeout(MAKE_TIME_LIMIT + 60)
def test_make_run_draws_a_report(tmp_path: Path) -> None:
    assert "report/index.html" in make("run", f"RUNS={tmp_path}", FEDMPI_CACHE=str(tmp_path / "cache"))
    assert (tmp_path / "report/index.html").stat().st_size > 10_000
