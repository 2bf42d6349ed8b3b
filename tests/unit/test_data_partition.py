"""Who owns which samples, and with which importance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedmpi.config import Config, DataSettings
from fedmpi.data import importances
from fedmpi.data.partition import Partition, apportion, dirichlet, paper_sizes
from fedmpi.errors import ConfigError
from fedmpi.rng import stream

TRAIN, TEST = np.arange(5000) % 10, np.arange(1000) % 10


def partition(per_piece: int = 1, **settings: object) -> Partition:
    return Partition(DataSettings(name="cifar10", **settings), TRAIN, TEST, per_piece)  # type: ignore[arg-type]


def test_the_papers_sizes() -> None:
    sizes, counts = np.unique(paper_sizes(100), return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == {100: 10, 250: 30, 500: 30, 750: 20, 1000: 10}
    assert paper_sizes(100).sum() == 48_500
    assert paper_sizes(10).tolist() == [100, 250, 250, 250, 500, 500, 500, 750, 750, 1000]


def test_the_papers_partition_has_a_fifth_for_test_and_the_same_labels_in_both() -> None:
    made = partition(n=20, partition="paper", alpha=0.5)
    for i in range(20):
        train, test = made.pieces_of(i)
        assert len(set(train.tolist())) == len(train) == paper_sizes(20)[i]
        assert len(set(test.tolist())) == len(test) == paper_sizes(20)[i] // 5
        shares = [np.bincount(labels, minlength=10) / len(labels) for labels in (TRAIN[train], TEST[test])]
        # Test counts are whole numbers, so a share is off by less than 1/20; label 5 has 500 images at most.
        assert np.abs(shares[0] - shares[1]).max() < 1 / 20 or len(train) > 500


def test_small_alpha_gives_few_labels_and_large_alpha_all() -> None:
    def labels(alpha: float) -> float:
        made = partition(n=30, partition="dirichlet", alpha=alpha, samples=100)
        return float(np.mean([len(set(TRAIN[made.pieces_of(i)[0]])) for i in range(30)]))

    assert labels(0.001) < 1.2
    assert labels(100.0) == 10


def test_iid_clients_are_disjoint_and_of_the_given_sizes() -> None:
    made = partition(n=10, partition="iid", samples=300, spread=0.5)
    owned = [made.pieces_of(i) for i in range(10)]
    for part in (0, 1):
        everything = np.concatenate([pieces[part] for pieces in owned])
        assert len(set(everything.tolist())) == len(everything)
    assert [len(train) for train, _ in owned] == made.n_samples.tolist()
    assert len(set(made.n_samples.tolist())) > 1


def test_shards_use_everything_and_give_each_client_few_labels() -> None:
    made = partition(n=50, partition="shard", shards=2)
    owned = [made.pieces_of(i) for i in range(50)]
    assert np.sort(np.concatenate([train for train, _ in owned])).tolist() == list(range(5000))
    assert np.sort(np.concatenate([test for _, test in owned])).tolist() == list(range(1000))
    for train, test in owned:
        assert len(set(TRAIN[train])) <= 2
        assert set(TRAIN[train]) == set(TEST[test])
    assert made.n_samples.tolist() == [100] * 50


@pytest.mark.parametrize("name", ["paper", "iid", "dirichlet", "shard"])
def test_a_partition_depends_on_its_seed_alone(name: str) -> None:
    first, again, other = (
        partition(n=8, partition=name, samples=50, seed=seed).pieces_of(3)[0].tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_pieces_of_many_samples_are_enough_for_the_sizes(name: str) -> None:
    made = partition(per_piece=7, n=5, partition=name, samples=100)
    assert made.n_samples.tolist() == [100] * 5
    assert [len(made.pieces_of(i)[0]) for i in range(5)] == [15] * 5


def test_too_much_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"asks for 6000 training samples, but 'cifar10' has 5000; lower data\.samples"
    ):
        partition(n=10, partition="iid", samples=600)
    with pytest.raises(ConfigError, match=r"asks for 5001 training samples"):
        partition(n=1, partition="dirichlet", samples=5001)
    with pytest.raises(ConfigError, match=r"data\.shards = 20: 100 clients need 2000 shards, but there are 1000"):
        partition(n=100, partition="shard", shards=20)


def test_apportion_rounds_to_the_total_and_spills_over() -> None:
    many = np.full(3, 100)
    assert apportion(np.array([0.5, 0.3, 0.2]), 10, many).tolist() == [5, 3, 2]
    assert apportion(np.array([1, 1, 1]) / 3, 10, many).tolist() == [4, 3, 3]
    assert apportion(np.array([0.9, 0.1, 0.0]), 10, np.array([4, 100, 100])).tolist() == [4, 6, 0]
    assert apportion(np.array([1.0, 0.0, 0.0]), 10, np.array([4, 5, 100])).tolist() == [4, 5, 1]


def test_dirichlet_survives_any_alpha() -> None:
    for alpha in (1e-300, 1e-10, 1e-3, 1.0, 1e10):
        drawn = dirichlet(stream(0, "data"), alpha, 10)
        assert drawn.sum() == pytest.approx(1)
        assert (drawn >= 0).all()


SIZES = np.array([1, 2, 3, 4])


def p(importance: object) -> list[float]:
    config = Config.load("demo", {"data.n": 4, "sampling.importance": importance})
    return [float(value) for value in importances(config, SIZES)]


def test_importances_from_a_file_are_divided_by_their_sum(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("1, 1\n2 4\n")
    assert p(f"file:{file}") == [0.125, 0.125, 0.25, 0.5]
    np.save(tmp_path / "p.npy", np.array([1, 1, 2, 4]))
    assert p(f"file:{tmp_path / 'p.npy'}") == [0.125, 0.125, 0.25, 0.5]


def test_dirichlet_importances_are_seeded() -> None:
    assert p("dirichlet:0.5") == p("dirichlet:0.5")
    assert sum(p("dirichlet:0.5")) == pytest.approx(1)
    assert np.std(p("dirichlet:0.01")) > np.std(p("dirichlet:1000"))


@pytest.mark.parametrize("content", ["", "1 2 3", "1 2 3 x", "1 2 3 -4", "0 0 0 0", "1 2 3 inf", "1 2 3 nan"])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.txt"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"sampling\.importance"):
        p(f"file:{file}")


@pytest.mark.parametrize(
    "given", ["dirichlet:0", "dirichlet:x", "dirichlet:inf", "dirichlet", "file:/nowhere", "equal"]
)
def test_other_importances_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"sampling\.importance"):
        p(given)
