"""Names, checks, the user's own schemes, and the biased baselines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedmpi.cli.schemes import schemes
from fedmpi.errors import ConfigError
from fedmpi.sampling import SCHEMES, Cohort, make_scheme


def test_every_scheme_says_what_it_is() -> None:
    assert list(SCHEMES) == [
        "full", "md", "uniform", "binomial", "poisson", "clustered", "clustered-similarity",
        "optimal", "optimal-approx", "fedavg", "power-of-choice",
    ]  # fmt: skip
    for name, cls in SCHEMES.items():
        assert cls.name == name
        assert cls.summary
        assert "\n" not in cls.summary
        scheme = make_scheme(name, p=np.full(5, 0.2), m=2)
        assert scheme.inclusion().shape == (5,)
        assert (scheme.inclusion() <= 1).all()
        assert hasattr(scheme, "law") != scheme.biased
        assert ("biased" in cls.summary) == scheme.biased
        if name != "clustered-similarity":
            assert scheme.state() == {}


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.4], r"p sums to 0\.9; .*must sum to 1"),
        ([1.5, -0.5], r"p\[1\] = -0\.5"),
        ([0.5, float("nan")], r"p\[1\] = nan"),
        ([float("inf"), 0.5], "sums to inf"),
        ([[0.5, 0.5]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
    ],
)
def test_bad_importances(p: list[float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_scheme("md", p=p, m=1)


@pytest.mark.parametrize(
    ("name", "m", "message"),
    [
        ("uniform", 12, r"sampling\.m = 12: must be at most n = 10 for scheme 'uniform'"),
        ("binomial", 11, r"at most n = 10"),
        ("optimal", 11, r"at most n = 10"),
        ("fedavg", 11, r"at most n = 10"),
        ("md", 0, r"sampling\.m = 0: must be an integer of at least 1"),
        ("md", 2.5, r"sampling\.m = 2\.5"),
        ("md", True, r"sampling\.m = True"),
        ("poisson", 8, r"m · p_max ≤ 1 and p_max = 0\.145455; the largest feasible m is 6"),
    ],
)
def test_bad_m(name: str, m: int, message: str) -> None:
    p = np.array([3, 2, 3, 4, 5, 6, 8, 8, 8, 8]) / 55
    with pytest.raises(ConfigError, match=message):
        make_scheme(name, p=p, m=m)


def test_poisson_takes_the_m_it_says_is_feasible() -> None:
    for n in (3, 7, 49, 1000):
        make_scheme("poisson", p=np.full(n, 1 / n), m=n)
        with pytest.raises(ConfigError, match=f"largest feasible m is {n}"):
            make_scheme("poisson", p=np.full(n, 1 / n), m=n + 1)


def test_unknown_names_and_options() -> None:
    with pytest.raises(ConfigError, match=r"sampling\.scheme = 'unifrom'.*did you mean 'uniform'"):
        make_scheme("unifrom", p=[1.0], m=1)
    with pytest.raises(ConfigError, match=r"sampling\.d = 3: scheme 'md' has no such option; it takes no options"):
        make_scheme("md", p=[1.0], m=1, d=3)
    with pytest.raises(ConfigError, match=r"it takes distance, recluster_every"):
        make_scheme("clustered-similarity", p=[1.0], m=1, metric="l1")


OWN = '''
import numpy as np
from fedmpi.sampling import Cohort

class First:
    """Always the first m clients, each with weight 1/m."""
    summary = "the first m"
    def __init__(self, p, m, shift=0):
        self.p, self.m, self.shift = p, m, shift
    def draw(self, rng):
        clients = (np.arange(self.m) + self.shift)[::-1]
        return Cohort(clients, np.linspace(1, 2, self.m))

class WithLaw(First):
    biased = True
    def law(self):
        from fedmpi.sampling import make_scheme
        return make_scheme("md", p=self.p, m=self.m).law()

class Returns:
    def __init__(self, p, m, clients=(), omega=()):
        self.pair = np.array(clients), np.array(omega)
    def draw(self, rng):
        return self.pair

class Nothing:
    def __init__(self, p, m):
        pass
    def draw(self, rng):
        return None

class NoDraw:
    pass

class NoM:
    def __init__(self, p):
        pass
    def draw(self, rng):
        return None
'''


def test_the_command_lists_every_scheme_with_its_summary() -> None:
    listed = CliRunner().invoke(schemes, [], catch_exceptions=False).output.split("\n\n")[0].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [[name, cls.summary] for name, cls in SCHEMES.items()]
    assert sum(line.lower().count("biased") for line in listed) == sum(cls.biased for cls in SCHEMES.values())


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module outside the package, in the current directory; its name is new for each test."""
    name = f"own_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_scheme_of_ones_own_from_the_current_directory(own: str) -> None:
    p = np.full(5, 0.2)
    scheme = make_scheme(f"{own}:First", p=p, m=3, shift=1)
    cohort = scheme.draw(np.random.default_rng(0))
    assert isinstance(cohort, Cohort)
    assert cohort.clients.tolist() == [1, 2, 3]
    assert cohort.clients.dtype == np.int64
    assert cohort.omega.tolist() == [2, 1.5, 1]
    assert scheme.name == f"{own}:First"
    assert scheme.summary == "the first m"
    assert not hasattr(scheme, "law")
    assert not scheme.biased
    assert scheme.probe is None
    assert scheme.inclusion().tolist() == pytest.approx([0.6] * 5)
    with_law = make_scheme(f"{own}:WithLaw", p=p, m=3)
    assert with_law.biased
    assert with_law.law().gamma == pytest.approx(1 / 3)
    assert np.allclose(with_law.inclusion(), 1 - 0.8**3)


@pytest.mark.parametrize(
    ("clients", "omega", "message"),
    [
        ([0, 1], [0.5, -0.1], r"omega = -0\.1 for client 1; weights must be finite and at least 0"),
        ([0, 1], [0.5, float("nan")], "omega = nan for client 1"),
        ([0, 5], [0.5, 0.5], r"returned client 5; clients are 0 … 4"),
        ([-1], [0.5], "returned client -1"),
        ([2, 0, 2], [0.5, 0.5, 0.5], "client 2 twice"),
        ([0, 1], [0.5], r"shape \(2,\) and omega of shape \(1,\)"),
        ([0.0, 1.0], [0.5, 0.5], "type float64; they must be integers"),
        ([True], [0.5], "type bool"),
        ([[0]], [[0.5]], "must be"),
        ([0], ["a"], "weights must be real numbers"),
    ],
)
def test_wrong_cohorts_are_refused(own: str, clients: list, omega: list, message: str) -> None:
    scheme = make_scheme(f"{own}:Returns", p=np.full(5, 0.2), m=2, clients=clients, omega=omega)
    with pytest.raises(ConfigError, match=message) as refused:
        scheme.draw(np.random.default_rng(0))
    assert f"{own}:Returns" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_empty_cohort_is_a_cohort(own: str) -> None:
    assert len(make_scheme(f"{own}:Returns", p=[1.0], m=1).draw(np.random.default_rng(0))) == 0
    with pytest.raises(ConfigError, match="returned a NoneType; it must return Cohort"):
        make_scheme(f"{own}:Nothing", p=[1.0], m=1).draw(np.random.default_rng(0))


def test_classes_that_cannot_be_used(own: str) -> None:
    for spec, message in [
        (
            "no_such_module_here:X",
            r"sampling\.scheme = 'no_such_module_here:X': no module 'no_such_module_here'",
        ),
        (f"{own}:Missing", f"module {own} has no 'Missing'"),
        (f"{own}:NoDraw", "must name a class with a draw method"),
        (f"{own}:NoM", r"__init__ must take \(p, m"),
        (":X", "cannot be imported"),
    ]:
        with pytest.raises(ConfigError, match=message):
            make_scheme(spec, p=[1.0], m=1)
    with pytest.raises(ConfigError, match=r"sampling\.colour = 'red'.*has no such option"):
        make_scheme(f"{own}:First", p=[1.0], m=1, colour="red")


def test_fedavg_renormalises_and_so_is_biased() -> None:
    p = np.array([0.7, 0.1, 0.1, 0.1])
    scheme, rng, mean = make_scheme("fedavg", p=p, m=2), np.random.default_rng(0), np.zeros(4)
    for _ in range(4000):
        cohort = scheme.draw(rng)
        assert cohort.omega.sum() == pytest.approx(1)
        mean[cohort.clients] += cohort.omega / 4000
    # P(0 drawn) = ½ and it then weighs 7/8: E[ω_0] = 0.4375, with a standard error of 0.007.
    assert mean[0] == pytest.approx(0.4375, abs=0.035)
    assert abs(mean[0] - p[0]) > 0.2
    nothing = make_scheme("fedavg", p=[1.0, 0.0], m=1)
    assert all(np.isfinite(nothing.draw(rng).omega).all() for _ in range(20))


def test_power_of_choice_takes_the_largest_losses() -> None:
    scheme = make_scheme("power-of-choice", p=np.full(10, 0.1), m=2, d=5)
    rng = np.random.default_rng(0)
    candidates = scheme.candidates(rng)
    assert candidates.size == 5
    assert (np.diff(candidates) > 0).all()
    cohort = scheme.draw(rng, candidates=candidates, losses=np.array([1.0, 5.0, np.nan, 5.0, 2.0]))
    assert cohort.clients.tolist() == [candidates[1], candidates[3]]
    assert cohort.omega.tolist() == [0.5, 0.5]
    tied = scheme.draw(rng, candidates=candidates, losses=np.ones(5))
    assert tied.clients.tolist() == candidates[:2].tolist()
    assert make_scheme("power-of-choice", p=np.full(10, 0.1), m=2).d == 4
    for d in (1, 11, 2.5):
        with pytest.raises(ConfigError, match=r"sampling\.d = "):
            make_scheme("power-of-choice", p=np.full(10, 0.1), m=2, d=d)
    with pytest.raises(ConfigError, match="only 1 clients have p_i > 0"):
        make_scheme("power-of-choice", p=[1.0, 0.0], m=2)


def test_a_large_federation_needs_no_array_per_draw() -> None:
    """After set-up, no draw of these schemes allocates anything near n numbers."""
    import tracemalloc

    n, m = 1_000_000, 50
    sizes = np.random.default_rng(0).integers(1, 100, n)
    rng = np.random.default_rng(1)
    for name in ("md", "uniform", "binomial", "poisson", "clustered"):
        scheme = make_scheme(name, p=sizes / sizes.sum(), m=m, sizes=sizes)
        scheme.draw(rng)
        tracemalloc.start()
        scheme.draw(rng)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < n / 10, name
