"""The walk of one round in docs/architecture.md is the way that a round really takes."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
# A row of the table: | number | S or W | `file` | `function` | what happens |
ROW = re.compile(r"^\| (\d+) \| ([SW]) \| `([\w/.]+)` \| `([\w.]+)` \| .+ \|$", re.M)

# Notes the functions of fedmpi in the order of their first call: on the server in each round, on a worker in the job.
TRACED = """
import json, sys
from pathlib import Path
from mpi4py import MPI
import fedmpi
from fedmpi import Config, run

root, rounds = Path(fedmpi.__file__).parents[1], [[]]

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and "/fedmpi/" in code.co_filename:
        step = str(Path(code.co_filename).relative_to(root)), code.co_name
        if step == ("fedmpi/job/server_run.py", "round"):
            rounds.append([])
        if step not in rounds[-1]:
            rounds[-1].append(step)

sys.setprofile(note)
run(Config.load("quadratic", overrides={"run.T": 4}), out="walk.h5")
sys.setprofile(None)
Path(f"rank{MPI.COMM_WORLD.rank}.json").write_text(json.dumps(rounds))
"""


class Station(NamedTuple):
    number: int
    rank: str
    file: str
    function: str

    @property
    def step(self) -> list[str]:
        return [self.file, self.function.rpartition(".")[2]]


STATIONS = [Station(int(number), *rest) for number, *rest in ROW.findall(PAGE)]


def functions(file: str) -> set[str]:
    """The functions of a file, and the methods of its classes as Class.method."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    found = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def test_every_station_exists() -> None:
    section = PAGE.split("## The walk of one round")[1].split("\n## ")[0]
    assert len(STATIONS) == len(re.findall(r"^\| \d+ \|", section, re.M))
    assert 10 <= len(STATIONS) <= 20
    assert [station.number for station in STATIONS] == list(range(1, len(STATIONS) + 1))
    for station in STATIONS:
        assert station.function in functions(station.file), station


def test_a_round_passes_the_stations_in_this_order(start: Callable, tmp_path: Path) -> None:
    (tmp_path / "traced.py").write_text(TRACED)
    done = start(sys.executable, "traced.py", ranks=3)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(3)]
    before, one_round = ranks[0][0], ranks[0][2]
    server = [station for station in STATIONS if station.rank == "S"]
    assert server[0].step in before
    places = [one_round.index(station.step) for station in server[1:]]
    assert places == sorted(places)
    for rank in (1, 2):
        steps = [station.step for station in STATIONS if station.rank == "W"]
        places = [ranks[rank][0].index(step) for step in steps]
        assert places == sorted(places)
