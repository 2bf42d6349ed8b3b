"""What a resumed run may change and what not, and that all it remembers comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedmpi import Config, open_record, run
from fedmpi.job.devices import EarlierSettings
from fedmpi.job.prepare import JobSpec
from fedmpi.native import native_installed
from fedmpi.record import checkpoint_path
from tests.support.commands import Finished, sentences
from tests.support.jobs import launch, same_run, settings

Fedmpi = Callable[..., Finished]
SHORT = ["-s", "run.checkpoint_every=3", "-s", "eval.every=2", "-s", "comm.sync_every=4"]

OWN_SCHEME = """
import numpy as np
from fedmpi.sampling import Cohort

class InTurn:
    def __init__(self, p, m):
        self.p, self.m, self.next = np.asarray(p), m, 0

    def draw(self, rng):
        clients = np.sort((self.next + np.arange(self.m)) % len(self.p))
        self.next += self.m
        return Cohort(clients, len(self.p) / self.m * self.p[clients])

    def state(self):
        return {"next": np.array(self.next)}

    def restore(self, state):
        self.next = int(state["next"])
"""


def finished(done: Finished) -> None:
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(["sampling.scheme=clustered-similarity", "sampling.recluster_every=2"], marks=pytest.mark.slow),
        ["comm.compression=topk", "comm.topk=0.2"],
        pytest.param(["sampling.scheme=schemes:InTurn"], marks=pytest.mark.slow),
        pytest.param(["sampling.scheme=optimal", "record.per_client=true"], marks=pytest.mark.slow),
    ],
)
def test_what_a_run_remembers_comes_back(fedmpi: Fedmpi, tmp_path: Path, what: list[str]) -> None:
    """Stopped after 7 of 20 rounds by its own T, resumed to 13 on more ranks and to 20 on fewer."""
    (tmp_path / "schemes.py").write_text(OWN_SCHEME)
    how = [*SHORT, *(word for text in what for word in ("-s", text))]
    finished(fedmpi("run", "quadratic", *how, "-s", "run.T=20", "-o", "whole.h5"))
    finished(fedmpi("run", "quadratic", *how, "-s", "run.T=7", "-o", "parts.h5", ranks=2))
    finished(fedmpi("run", "parts.h5", "-s", "run.T=13", "--resume", ranks=4))
    finished(fedmpi("run", "parts.h5", "-s", "run.T=20", "--resume"))
    with open_record(tmp_path / "whole.h5") as whole, open_record(tmp_path / "parts.h5") as parts:
        assert (whole.theta == parts.theta).all()
        assert (whole.cohorts["client"] == parts.cohorts["client"]).all()
        assert parts.rounds["t"].tolist() == list(range(20))
        assert (np.diff(parts.rounds["wall_time"]) > 0).all()
        assert [event["kind"] for event in parts.events] == [b"resumed", b"resumed"]
        assert parts.ranks["compute_time"].shape == (20, 4)


@pytest.mark.parametrize("scheme", ["schemes:InTurn", pytest.param("clustered-similarity", marks=pytest.mark.slow)])
def test_a_scheme_that_remembers_survives_a_kill(tmp_path: Path, scheme: str) -> None:
    """The checkpoint is written while a round is under way: what it keeps is from before that round's draw."""
    (tmp_path / "schemes.py").write_text(OWN_SCHEME)
    how = settings(**{"sampling.scheme": scheme})
    finished(launch(tmp_path, "run", "quadratic", *how, output="reference.h5").end())
    job = launch(tmp_path, "run", "quadratic", *how)
    job.wait_for_rounds(20)
    job.hit("mpirun")
    job.end()
    finished(launch(tmp_path, "run", "run.h5", "--resume", output="run.h5", ranks=3).end())
    same_run(tmp_path)


def test_another_run_is_refused_with_the_differences(fedmpi_here: Fedmpi, tmp_path: Path) -> None:
    finished(fedmpi_here("run", "quadratic", *SHORT, "-s", "run.T=5", "-o", "a.h5"))
    before = (tmp_path / "a.h5").read_bytes()
    done = fedmpi_here("run", "a.h5", "-s", "client.eta_l=0.01", "-s", "sampling.m=3", "--resume")
    assert done.returncode == 2
    assert "client.eta_l was 0.1, now 0.01" in sentences(done)[0]
    assert "sampling.m was 5, now 3" in sentences(done)[0]
    shorter = fedmpi_here("run", "a.h5", "-s", "run.T=4", "--resume")
    assert shorter.returncode == 2
    assert "a.h5 has 5 rounds already" in sentences(shorter)[0]
    assert (tmp_path / "a.h5").read_bytes() == before


def test_a_finished_run_is_left_as_it_is(fedmpi_here: Fedmpi, tmp_path: Path) -> None:
    finished(fedmpi_here("run", "quadratic", *SHORT, "-s", "run.T=5", "-o", "a.h5"))
    before = (tmp_path / "a.h5").read_bytes()
    done = fedmpi_here("run", "a.h5", "--resume")
    finished(done)
    assert "a.h5 is done" in done.stdout
    assert (tmp_path / "a.h5").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5"]


def test_nothing_to_resume_is_a_fresh_start(fedmpi_here: Fedmpi, tmp_path: Path) -> None:
    finished(fedmpi_here("run", "quadratic", *SHORT, "-s", "run.T=5", "-o", "a.h5", "--resume"))
    with open_record(tmp_path / "a.h5") as record:
        assert record.rounds_done == 5
        assert not len(record.events)


def test_a_damaged_checkpoint_is_named(fedmpi_here: Fedmpi, tmp_path: Path) -> None:
    finished(fedmpi_here("run", "quadratic", *SHORT, "-s", "run.T=5", "-o", "a.h5"))
    checkpoint_path(tmp_path / "a.h5").write_bytes(b"PK\x03\x04 not really")
    done = fedmpi_here("run", "a.h5", "-s", "run.T=9", "--resume")
    assert done.returncode == 2
    assert "a.h5.checkpoint: not a complete checkpoint" in sentences(done)[0]


@pytest.mark.skipif(not native_installed(), reason="no compiler at installation: there are no loops in C to do without")
def test_a_run_goes_on_without_the_loops_in_c_that_it_was_begun_without(fedmpi: Fedmpi, tmp_path: Path) -> None:
    small = ["-s", "data.n=4", "-s", "sampling.m=2", "-s", "client.K=2", "-s", "eval.every=0"]
    finished(fedmpi("run", "demo", *small, "-s", "run.T=3", "-o", "without.h5", FEDMPI_NATIVE="0"))
    finished(fedmpi("run", "demo", *small, "-s", "run.T=3", "-o", "with.h5"))
    finished(fedmpi("run", "demo", *small, "-s", "run.T=1", "-o", "parts.h5", FEDMPI_NATIVE="0"))
    resumed = fedmpi("run", "parts.h5", "-s", "run.T=3", "--resume", ranks=3)
    finished(resumed)
    assert "computed without compiled loops, and so will be" in resumed.stderr
    with open_record(tmp_path / "without.h5") as one, open_record(tmp_path / "parts.h5") as other:
        assert np.array_equal(one.theta, other.theta)
        assert other.attributes["compiled_loops"] == "no"
    # The other way round there is nothing to be done but to say so.
    lacking = fedmpi("run", "with.h5", "-s", "run.T=4", "--resume", FEDMPI_NATIVE="0")
    finished(lacking)
    assert "computed with compiled loops: an LSTM's θ will differ" in lacking.stderr


def test_of_several_runs_the_one_that_is_there_says_how_they_were_computed(tmp_path: Path) -> None:
    config, paths = Config.load("quadratic", {"run.T": 1}), [tmp_path / "missing.h5", tmp_path / "there.h5"]
    run(config, paths[1])
    plan = JobSpec([config, config], paths, resume=True)
    assert plan.earlier_settings() == EarlierSettings(config.client.threads, native_installed())
    assert JobSpec([config, config], paths).earlier_settings() is None
    assert JobSpec([config.replace({"run.seed": 9})] * 2, paths, resume=True).earlier_settings() is None
