"""A scheme of the user's own, in a file outside the package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.commands import sentences

MINE = """
import numpy as np
from fedmpi.sampling import Cohort, Law

class Half:
    def __init__(self, p, m, bias=0.0):
        self.p, self.bias = np.asarray(p), bias
    def draw(self, rng):
        clients = np.flatnonzero(rng.random(len(self.p)) < 0.5)
        return Cohort(clients, (2 + self.bias) * self.p[clients])

class HalfWithLaw(Half):
    def law(self):
        n = len(self.p)
        return Law(p=self.p, var=self.p**2, alpha=0.0, inclusion=np.full(n, 0.5), var_sum=float((self.p**2).sum()),
                   mean_N=n / 2, variance_of_N=lambda: n / 4)

class Negative(Half):
    def draw(self, rng):
        return Cohort(np.array([0, 1]), np.array([0.5, -0.5]))

class OutOfRange(Half):
    def draw(self, rng):
        return Cohort(np.array([0, len(self.p)]), np.array([0.5, 0.5]))

class Twice(Half):
    def draw(self, rng):
        return Cohort(np.array([3, 3]), np.array([0.5, 0.5]))

class Raises(Half):
    def draw(self, rng):
        raise KeyError("oops")
"""


@pytest.mark.parametrize("name", ["Half", "HalfWithLaw"])
def test_a_scheme_of_ones_own_runs(fedmpi: Callable, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    own = ["-s", f"sampling.scheme=mine:{name}", "-s", "sampling.options.bias=0.5", "-s", "run.T=5"]
    done = fedmpi("run", "quadratic", *own, "-o", "own.h5", ranks=2)
    assert done.returncode == 0, done.stderr
    with open_record(tmp_path / "own.h5") as record:
        assert record.config.sampling.options == {"bias": 0.5}
        p = record.clients["p"][record.cohorts["client"]]
        assert record.cohorts["omega"] == pytest.approx(2.5 * p)


def test_a_report_compares_an_own_scheme_with_its_law(fedmpi: Callable, tmp_path: Path) -> None:
    """A law that holds, one that does not (its weights have a bias), and a report made where the class is not found."""
    (tmp_path / "mine.py").write_text(MINE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    page = Path("report", "index.html")
    for bias, said in ((0.0, "agree with the law over 60 rounds"), (0.5, "The mean of Σω is")):
        own = ["-s", "sampling.scheme=mine:HalfWithLaw", "-s", f"sampling.options.bias={bias}", "-s", "run.T=60"]
        assert fedmpi("run", "quadratic", *own, "-s", "eval.every=0", "-o", "own.h5", "--force").returncode == 0
        done = fedmpi("report", "own.h5")
        assert done.returncode == 0, done.stderr
        assert said in (tmp_path / page).read_text(encoding="utf-8")
    done = fedmpi("report", "../own.h5", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "not compared with its theory" in (elsewhere / page).read_text(encoding="utf-8")


WRONG = {"Negative": "-0.5", "OutOfRange": "20", "Twice": "twice", "Raises": "oops"}
# Under mpirun one of each exit code will do, but for `make test-all`.
UNDER_MPIRUN = [
    name if name in ("Negative", "Raises") else pytest.param(name, marks=pytest.mark.slow) for name in WRONG
]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_refused_in_a_sentence(fedmpi_here: Callable, tmp_path: Path, name: str) -> None:
    refused(fedmpi_here, tmp_path, name)


@pytest.mark.parametrize("name", UNDER_MPIRUN)
def test_a_wrong_one_is_refused_under_mpirun(fedmpi: Callable, tmp_path: Path, name: str) -> None:
    refused(partial(fedmpi, ranks=2), tmp_path, name)


def refused(fedmpi: Callable, folder: Path, name: str) -> None:
    (folder / "mine.py").write_text(MINE)
    done = fedmpi("run", "quadratic", "-s", f"sampling.scheme=mine:{name}", "-o", "own.h5")
    said = sentences(done)
    assert done.returncode == (1 if name == "Raises" else 2), done.stderr
    assert len(said) == 1
    assert WRONG[name] in said[0]
    assert "Traceback" not in done.stderr
    with open_record(folder / "own.h5") as record:
        assert record.status == "failed"
