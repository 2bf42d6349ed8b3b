"""LEAF's windows: laid over one another, and cut out again exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fedmpi.config import Config
from fedmpi.data import load_dataset
from fedmpi.data.characters import CHARACTERS, decode
from fedmpi.data.contents import contents
from fedmpi.data.corpus import Corpus
from fedmpi.data.sources import leaf
from fedmpi.data.sources.leaf import import_leaf, lay_over
from fedmpi.errors import DataError
from tests.support.datasets import leaf_folder, windows_of

TEXT = "".join(np.random.default_rng(0).choice(list(CHARACTERS[:95]), 400))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def load(n: int) -> Corpus:
    dataset = load_dataset(Config.load("shakespeare", {"data.name": "leaf", "data.n": n}))
    assert isinstance(dataset, Corpus)
    return dataset


def restored(batches: list[tuple[int, tuple[torch.Tensor, torch.Tensor]]]) -> tuple[list[str], list[str]]:
    x = [decode(row.numpy().astype(np.uint8)) for _, (rows, _) in batches for row in rows]
    y = [decode(row.numpy().astype(np.uint8)) for _, (_, rows) in batches for row in rows[:, None]]
    return x, y


def test_a_round_trip_is_exact_whether_or_not_windows_chain(tmp_path: Path) -> None:
    """In order; every third left out, as LEAF's random split does; in no order at all; twice the same."""
    x, y = windows_of(TEXT)
    mixed = np.random.default_rng(1).permutation(len(x)).tolist()
    train = {
        "in-order": (x[:200], y[:200]),
        "thinned": ([x[k] for k in range(200) if k % 3], [y[k] for k in range(200) if k % 3]),
        "shuffled": ([x[k] for k in mixed], [y[k] for k in mixed]),
        "twice": ([x[0], x[0]], [y[0], y[0]]),
    }
    test = dict.fromkeys(train, (x[280:], y[280:]))
    import_leaf(leaf_folder(tmp_path / "leaf", train, test))
    dataset = load(4)
    assert {dataset.name(i) for i in range(4)} == set(train)
    for i in range(4):
        client, user = dataset.client(i), dataset.name(i)
        assert restored(list(client.training(0))) == train[user]
        assert restored(list(client.testing(0))) == test[user]
        assert dataset.n_samples[i] == len(train[user][1])


def test_overlapping_windows_take_the_space_of_their_text() -> None:
    x, y = windows_of(TEXT)
    whole = [a + b for a, b in zip(x, y, strict=True)]
    text, starts = lay_over(whole, "")
    assert text == TEXT
    assert starts == list(range(320))
    text, starts = lay_over(whole[::5], "before")
    assert text == "before" + TEXT[: 315 + 81]
    assert starts == list(range(6, 326, 5))


def test_characters_outside_the_vocabulary_keep_windows_their_length(tmp_path: Path) -> None:
    x, y = windows_of("“caf\u00e9” \u2014 \u2603 " + TEXT)
    users = {"u": (x, y)}
    import_leaf(leaf_folder(tmp_path / "leaf", users, users))
    got, _ = restored(list(load(1).client(0).training(0)))
    assert got[0] == '"cafe" - ? ' + TEXT[:69]


def test_users_without_test_windows_are_left_out(tmp_path: Path) -> None:
    windows = windows_of(TEXT)
    import_leaf(leaf_folder(tmp_path / "leaf", {"a": windows, "b": windows}, {"b": windows, "c": windows}))
    assert contents("leaf").counts == {"clients": 3, "windows": 4 * 320}
    assert load(1).name(0) == "b"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"user_data": []}',
        '{"user_data": {"u": {"x": ["short"], "y": ["a"]}}}',
        '{"user_data": {"u": {"x": [3], "y": [4]}}}',
        '{"user_data": {"u": {"x": [], "y": ["a"]}}}',
        '{"user_data": {"u": null}}',
        '{"user_data": ' + "[" * 100_000,
        '{"user_data": {"u": {"x": [1e999], "y": ["a"]}}}',
    ],
)
def test_other_json_is_refused_and_nothing_is_left(tmp_path: Path, cache: Path, content: str) -> None:
    folder = leaf_folder(tmp_path / "leaf", {}, {})
    (folder / "train" / "other.json").write_text(content)
    with pytest.raises(DataError, match="not JSON as LEAF's Shakespeare writes it"):
        import_leaf(folder)
    assert not cache.exists()


def test_limits_hold_before_json_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = leaf_folder(tmp_path / "leaf", {"u": windows_of(TEXT)}, {})
    monkeypatch.setattr(leaf, "MOST_ELEMENTS", 100)
    with pytest.raises(DataError, match="more than 100 elements"):
        import_leaf(folder)
    monkeypatch.setattr(leaf, "MOST_BYTES", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        import_leaf(folder)


def test_empty_folders_are_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match="has no JSON files in 'train'"):
        import_leaf(tmp_path)
    with pytest.raises(DataError, match="names no users"):
        import_leaf(leaf_folder(tmp_path / "leaf", {}, {}))
    assert not cache.exists()


def test_the_json_is_what_leaf_writes(tmp_path: Path) -> None:
    """The miniature itself: keys and shapes as in LEAF's files."""
    folder = leaf_folder(tmp_path / "leaf", {"u": windows_of(TEXT)}, {})
    (file,) = (folder / "train").glob("all_data_*.json")
    content = json.loads(file.read_text())
    assert set(content) == {"users", "num_samples", "user_data"}
    assert content["num_samples"] == [320] == [len(content["user_data"]["u"]["x"])]
    assert {len(x) for x in content["user_data"]["u"]["x"]} == {80}
