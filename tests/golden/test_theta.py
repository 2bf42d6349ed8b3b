"""θ, the draws and their weights have the bits that they had when golden.json was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmpi.native import KERNELS
from fedmpi.sampling import SCHEMES
from tests.golden import hashes
from tests.golden.cases import CASES, SAME, SAME_ON_RANKS, Settings
from tests.golden.images import write_miniature
from tests.golden.measure import Found, measure
from tests.golden.schemes import ALONE, drawn

GOLDEN, DRAWS = hashes.load()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """A cache of datasets with nothing but the miniature of CIFAR-10."""
    folder: Path = tmp_path_factory.mktemp("cache")
    write_miniature(folder)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("FEDMPI_CACHE", str(folder))
        yield


def compare(name: str, found: Found) -> None:
    """Fail if anything of a case is not as it was; skip if there is no hash for this CPU but the values agree."""
    case, golden = CASES[name], GOLDEN[name]
    if case.compiled and not found.compiled:
        pytest.skip(f"{name}: its hash is of a run with compiled loops, and here there are none")
    wrong = hashes.differences(golden, hashes.entry_of(case, found))
    kind, apart = hashes.kind_of(case, found), hashes.distance(golden["values"], found.theta) if case.products else 0.0
    if kind in golden["theta"] or not case.products:
        assert kind in golden["theta"], f"{name}: no hash for {kind!r} in {hashes.FILE.name}"
        assert not wrong, f"{name}: {'; '.join(wrong)}; stored values are apart by {apart:.2g}"
        return
    assert not wrong, f"{name}: {'; '.join(wrong)}"
    assert apart <= hashes.TOLERANCE, f"{name}: θ's values are apart by {apart:.2g}, more than {hashes.TOLERANCE}"
    pytest.skip(
        f"{name}: NO GOLDEN HASH for CPU {kind!r}; values agree to {apart:.2g}. On a tree known to be good, "
        "`python -m tests.golden.regenerate` adds it"
    )


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    compare(name, measure(CASES[name]))


@pytest.mark.parametrize(("name", "settings"), SAME.values(), ids=SAME)
def test_same_theta(name: str, settings: Settings) -> None:
    compare(name, measure(CASES[name], settings))


@pytest.mark.parametrize(("ranks", "name", "settings"), SAME_ON_RANKS.values(), ids=SAME_ON_RANKS)
def test_same_theta_under_mpirun(ranks: int, name: str, settings: Settings) -> None:
    compare(name, measure(CASES[name], settings, ranks))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["lstm", "quadratic/mu"])
def test_same_theta_with_every_kernel(name: str, kernel: str) -> None:
    compare(name, measure(CASES[name].but({}, FEDMPI_KERNEL=kernel)))


@pytest.mark.parametrize("name", ALONE)
def test_draws(name: str) -> None:
    found = drawn(name)
    assert found == DRAWS[name], f"draws of {name}: expected {DRAWS[name]}, found {found}"


def test_every_case_has_an_entry() -> None:
    assert list(GOLDEN) == list(CASES)
    assert {f"scheme/{name}" for name in SCHEMES} <= set(GOLDEN)
    for name, case in CASES.items():
        assert ("values" in GOLDEN[name]) == case.products


def test_cases_differ() -> None:
    """Each case guards something of its own: no two share θ, but those that must."""
    same = {"scheme/md": "quadratic", "scheme/optimal-approx": "scheme/optimal"}
    for name, other in same.items():
        assert GOLDEN[name]["theta"] == GOLDEN[other]["theta"]
    found = [frozenset(entry["theta"].values()) for name, entry in GOLDEN.items() if name not in same]
    assert len(set(found)) == len(found)


def test_values_notice_a_wrong_theta() -> None:
    """Where a CPU has no hash, the stored values must tell apart θ's that a small mistake tells apart."""
    found = measure(CASES["cnn"], {"client.eta_l": 0.06})
    assert hashes.distance(GOLDEN["cnn"]["values"], found.theta) > 100 * hashes.TOLERANCE
    moved = found.theta + np.float32(2 * hashes.TOLERANCE)
    assert hashes.distance(hashes.values_of(found.theta), moved) > hashes.TOLERANCE
