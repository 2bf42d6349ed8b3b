"""Which records go together, which are refused, and which are left out of the averages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from fedmpi.comm.timeline import PHASES
from fedmpi.errors import ConfigError, RecordError
from fedmpi.report.draws import Draws, draws_of
from fedmpi.report.study import read_run, read_study
from tests.support.records import make_record, start_record


def labels(paths: list[Path]) -> list[str]:
    return [group.label for group in read_study(paths).groups]


def test_phases_are_the_seven_of_the_schema_in_order() -> None:
    assert PHASES == ("sample", "down", "wait", "up", "aggregate", "evaluate", "record")


def test_seeds_of_a_scheme_are_one_group_in_the_registrys_order(tmp_path: Path) -> None:
    paths = [
        make_record(tmp_path / "1.h5", "clustered", 1),
        make_record(tmp_path / "2.h5", "md", 2),
        make_record(tmp_path / "3.h5", "md", 1),
        make_record(tmp_path / "4.h5", "mine.py:Own", 1),
    ]
    study = read_study(paths)
    assert [(group.label, group.seeds) for group in study.groups] == [
        ("md", [1, 2]),
        ("clustered", [1]),
        ("mine.py:Own", [1]),
    ]
    assert study.reference.label == "md"


def test_labels_in_figures_are_short(tmp_path: Path) -> None:
    own = make_record(tmp_path / "a.h5", "a.long.package.of.mine:Own")
    other = make_record(tmp_path / "b.h5", "mine:" + "x" * 40)
    plain = make_record(tmp_path / "c.h5", "md")
    assert [group.short_label for group in read_study([own, other, plain]).groups] == ["md", "Own", "x" * 21 + "…"]


def test_another_m_is_another_group_but_not_for_full(tmp_path: Path) -> None:
    paths = [
        make_record(tmp_path / "1.h5", "md", settings={"sampling.m": 3}),
        make_record(tmp_path / "2.h5", "md", settings={"sampling.m": 2}),
        make_record(tmp_path / "3.h5", "full"),
    ]
    assert labels(paths) == ["full", "md, m = 2", "md, m = 3"]
    assert [group.variant for group in read_study(paths).groups] == [0, 0, 1]


@pytest.mark.parametrize("key", ["data.dim", "data.seed", "model.hidden", "eval.max_samples"])
def test_different_experiments_are_refused(tmp_path: Path, key: str) -> None:
    paths = [make_record(tmp_path / "a.h5"), make_record(tmp_path / "b.h5", seed=2, settings={key: 7})]
    with pytest.raises(RecordError, match=f"different experiments \\({key} = .* and 7\\): make a report for each"):
        read_study(paths)


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    paths = [make_record(tmp_path / "a.h5"), make_record(tmp_path / "b.h5")]
    with pytest.raises(RecordError, match=r"a.h5 and .*b.h5 are the same run \(md, seed 1\)"):
        read_study(paths)


def test_unfinished_runs_count_only_where_there_is_nothing_better(tmp_path: Path) -> None:
    done = make_record(tmp_path / "a.h5", "md", 1)
    failed = make_record(tmp_path / "b.h5", "md", 2, failure="it broke", T=9)
    alone = make_record(tmp_path / "c.h5", "uniform", 1, failure="it broke", T=9)
    empty = make_record(tmp_path / "d.h5", "uniform", 2, (8.0,), failure="at once", T=9)
    md, uniform = read_study([done, failed, alone, empty]).groups
    assert [run.path for run in md.runs] == [done]
    assert [run.path for run in md.left_out] == [failed]
    assert [run.path for run in uniform.runs] == [alone]
    assert [run.path for run in uniform.left_out] == [empty]


def test_reference_by_name_by_default_and_unknown(tmp_path: Path) -> None:
    paths = [make_record(tmp_path / "a.h5", "uniform"), make_record(tmp_path / "b.h5", "clustered")]
    assert read_study(paths).reference.label == "uniform"
    assert read_study(paths, "clustered").reference.label == "clustered"
    with pytest.raises(ConfigError, match="--reference md: no record has this scheme; the records have uniform, clu"):
        read_study(paths, "md")


def test_a_config_from_the_future_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedmpi.config.Config.to_toml", lambda self: "[run]\nwarp = 9\n")
    path = make_record(tmp_path / "a.h5")
    with pytest.raises(RecordError, match=r"a.h5: its config cannot be read by this fedmpi \(unknown key 'run.warp'"):
        read_run(path)


def test_the_clock_error_is_the_largest_and_optional(tmp_path: Path) -> None:
    path = make_record(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["/ranks/clock_error"][-1] = 2e-5
    assert read_run(path).clock_error == 2e-5
    with h5py.File(path, "r+") as file:
        del file["/ranks/clock_error"]
    assert read_run(path).clock_error is None


def test_cohorts_that_follow_the_law_are_said_to(tmp_path: Path) -> None:
    # Sizes 4, 2, 2 and m = 2: one cluster is client 0, the other one half client 1 and half client 2.
    cohorts = [(0, 1), (0, 2)] * 20
    (group,) = read_study([make_record(tmp_path / "a.h5", "clustered", losses=(), cohorts=cohorts)]).groups
    found = draws_of(group)
    assert found.counts.tolist() == [40, 20, 20]
    assert found.sentences == [
        "clustered: N, Σω and every client's share agree with the law over 40 rounds (mean N 2, law 2)."
    ]


def test_weights_that_do_not_follow_the_law_are_noticed(tmp_path: Path) -> None:
    cohorts = [(0, 1), (1, 2), (0, 2)] * 20
    (group,) = read_study([make_record(tmp_path / "a.h5", "uniform", losses=(), cohorts=cohorts)]).groups
    found = draws_of(group)
    assert found.counts.tolist() == [40, 40, 40]
    assert found.rounds == 60
    assert found.law is not None
    # p = (1/2, 1/4, 1/4) has Σω = 3p_i/2 + 3p_j/2, but the record says 1 in every round: its variance must be noticed.
    assert any("variance of Σω" in sentence for sentence in found.sentences)


def test_a_client_that_never_takes_part_is_noticed(tmp_path: Path) -> None:
    (group,) = read_study([make_record(tmp_path / "a.h5", "md", losses=(), cohorts=[(0,)] * 60)]).groups
    assert any("client 1 in 0 of 60 rounds" in sentence for sentence in draws_of(group).sentences)


@pytest.mark.parametrize(
    ("scheme", "said"),
    [("fedavg", "biased"), ("optimal", "depends on"), ("clustered-similarity", "change as it learns")],
)
def test_schemes_without_a_law_say_why(tmp_path: Path, scheme: str, said: str) -> None:
    (group,) = read_study([make_record(tmp_path / "a.h5", scheme)]).groups
    found = draws_of(group)
    assert found.law is None
    assert len(found.sentences) == 1
    assert said in found.sentences[0]


OWN = """
import numpy as np
from fedmpi.sampling import Cohort, Law

class NoLaw:
    def __init__(self, p, m):
        self.p = p
    def draw(self, rng):
        return Cohort(np.arange(2), np.full(2, 0.5))

class Both(NoLaw):
    def law(self):
        taken = np.array([1.0, 1.0, 0.0])
        return Law(p=0.5 * taken, var=0 * taken, alpha=0.0, inclusion=taken, var_sum=0.0, mean_N=2.0,
                   variance_of_N=lambda: 0.0)

class Other(Both):
    def law(self):
        return Law(p=self.p, var=0 * self.p, alpha=0.0, inclusion=np.array([0.0, 1.0, 1.0]), var_sum=0.0, mean_N=2.0,
                   variance_of_N=lambda: 0.0)

class Biased(Both):
    biased = True

class Numbers(NoLaw):
    def law(self):
        return {"mean_N": 2.0}

class Short(NoLaw):
    def law(self):
        return Law(p=self.p[:1], var=self.p, alpha=0.0, inclusion=self.p, var_sum=0.0, mean_N=2.0,
                   variance_of_N=lambda: 0.0)

class Raises(NoLaw):
    def law(self):
        raise KeyError("line one\\nline two \\x1b[31m")

class Exits(NoLaw):
    def law(self):
        raise SystemExit(7)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Draws]:
    """The draws of 40 rounds, clients 0 and 1 in each, of a class in a module of the user's own."""
    (tmp_path / "own_schemes.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_schemes", raising=False)

    def drawn(scheme: str) -> Draws:
        path = make_record(tmp_path / f"{scheme.rpartition(':')[2]}.h5", scheme, losses=(), rounds=40)
        return draws_of(*read_study([path]).groups)

    return drawn


def test_an_own_scheme_is_compared_with_its_law(own: Callable[[str], Draws]) -> None:
    both, other = own("own_schemes:Both"), own("own_schemes:Other")
    assert both.sentences == [
        "own_schemes:Both: N, Σω and every client's share agree with the law over 40 rounds (mean N 2, law 2)."
    ]
    assert any("client 0 in 40 of 40 rounds where the law expects 0.0" in said for said in other.sentences)


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("own_schemes:NoLaw", "not compared with its theory, because its class has no law()."),
        ("own_schemes:Biased", "biased, so there is no law to compare with."),
        ("own_schemes:Missing", "module own_schemes has no 'Missing')."),
        ("no_such_module_here:Own", "no module 'no_such_module_here'; start fedmpi in the directory that holds it"),
        ("own_schemes:Numbers", "its law() returned a dict; it must return a fedmpi.sampling.Law)."),
        ("own_schemes:Short", "its law() has a p that is not an array of 3 finite numbers, one per client)."),
        ("own_schemes:Raises", "its code raised KeyError: 'line one\\nline two \\x1b[31m')."),
        ("own_schemes:Exits", "its code raised SystemExit: 7)."),
        ("..:Own", "not compared with its theory ("),
        (":", "not compared with its theory ("),
    ],
)
def test_an_own_scheme_without_a_usable_law_says_why(own: Callable[[str], Draws], scheme: str, said: str) -> None:
    found = own(scheme)
    assert found.law is None
    (sentence,) = found.sentences
    assert sentence.startswith(f"{scheme}: ")
    assert said in sentence
    assert sentence.isprintable()


def test_a_record_without_rounds_is_read(tmp_path: Path) -> None:
    start_record(tmp_path / "a.h5", "md", 1, 5).close()
    (group,) = read_study([tmp_path / "a.h5"]).groups
    assert draws_of(group).sentences == ["md: no rounds yet."]
