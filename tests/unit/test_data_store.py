"""The dataset file: whole or not there, read in parts, and never trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fedmpi.data.sources.cache import cache_folder, cached, in_cache
from fedmpi.data.sources.roles import write_roles
from fedmpi.data.store import open_store, write_store
from fedmpi.errors import DataError
from tests.support.datasets import CREATED


@pytest.fixture
def path(tmp_path: Path) -> Path:
    clients = [("stones", "ANNA", "x" * 300), ("stones", "BERT", "y" * 90), ("sand", "DORA", "z" * 200)]
    write_roles(tmp_path / "text.h5", clients, CREATED)
    return tmp_path / "text.h5"


def test_clients_come_back_with_their_provenance(path: Path) -> None:
    with open_store(path, "text") as store:
        assert store.read("offsets").tolist() == [0, 300, 390, 590]
        assert store.read("names").tolist() == [b"ANNA", b"BERT", b"DORA"]
        assert store.read("groups").tolist() == [1, 1, 0]
        assert store.provenance["source"] == "made by a test"
        text = store.extent("text")
    assert text.read(389, 391).tolist() == [34, 35]
    assert text.rows(np.array([0, 300, 589])).tolist() == [33, 34, 35]


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("FEDMPI_CACHE")
    assert cache_folder() == tmp_path / "b" / "fedmpi"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "c" / ".cache" / "fedmpi"
    with pytest.raises(DataError, match="not a dataset that fedmpi keeps"):
        cached("../up")
    with pytest.raises(DataError, match=r"run `fedmpi data get shakespeare`, or take data\.name = 'synthetic-text'"):
        in_cache("shakespeare")


def test_a_failed_write_leaves_what_was_there_and_nothing_else(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_store(path, "text", {"text": np.array([object()])}, CREATED)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    folder = path.parent / "file"
    folder.write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        write_store(folder / "text.h5", "text", {}, CREATED)


def test_truncated_files_are_refused_wherever_they_are_cut(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"not a readable fedmpi dataset|cut short"), open_store(path, "text"):
            pass


def test_damaged_files_never_raise_anything_else(path: Path) -> None:
    """600 files with a few bytes changed: read whole, or refused in one sentence."""
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(5)
    refused = []
    for _ in range(600):
        damaged = whole.copy()
        damaged[rng.integers(len(whole), size=4)] = rng.integers(256, size=4)
        path.write_bytes(damaged.tobytes())
        try:
            with open_store(path, "text") as store:
                for name in ("text", "offsets", "names", "groups"):
                    store.read(name)
        except DataError as error:
            refused.append(str(error))
    assert refused
    assert not [message for message in refused if "\n" in message]


def replaced(file: h5py.File, name: str, **options: Any) -> None:
    del file[name]
    file.create_dataset(name, **options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.attrs.update(format=np.bytes_(b"other")), "its format is 'other', not 'fedmpi-dataset'"),
        (lambda f: f.attrs.update(format_version=np.bytes_(b"2.0")), "has format 2.0"),
        (lambda f: f.attrs.update(kind=np.bytes_(b"images")), "its kind is 'images', not 'text'"),
        (lambda f: f.attrs.pop("licence"), "not a readable fedmpi dataset"),
        (lambda f: f.attrs.update(licence="of any length"), "is not a plain string"),
        (lambda f: f.pop("names"), "its 'names' is missing"),
        (lambda f: replaced(f, "text", data=np.zeros(590)), "its 'text' is not a plain array of u1"),
        (lambda f: replaced(f, "text", data=np.zeros((2, 2), "u1")), "its 'text' is not a plain array of u1"),
        (lambda f: replaced(f, "text", shape=(10**15,), dtype="u1", chunks=(1 << 20,)), "not a plain array"),
        (lambda f: replaced(f, "text", shape=(10**15,), dtype="u1"), "its 'text' is cut short"),
        (lambda f: replaced(f, "text", data=np.zeros(590, "u1"), compression="gzip"), "not a plain array"),
    ],
)
def test_files_of_other_kinds_are_refused(path: Path, change: Any, words: str) -> None:
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(DataError, match=words), open_store(path, "text"):
        pass


def test_a_file_cannot_lead_to_another_file(path: Path) -> None:
    secret = path.with_name("secret.h5")
    with h5py.File(secret, "w") as file:
        file["text"] = np.zeros(590, "u1")
    with h5py.File(path, "a") as file:
        del file["text"]
        file["text"] = h5py.ExternalLink(str(secret), "text")
    with pytest.raises(DataError, match="missing or lies outside"), open_store(path, "text"):
        pass
    with h5py.File(path, "a") as file:
        del file["text"]
        file.create_dataset("text", (590,), "u1", external=[(str(secret), 0, 590)])
    with pytest.raises(DataError, match="not a plain array"), open_store(path, "text"):
        pass


def test_a_file_that_is_replaced_in_use_is_noticed(path: Path) -> None:
    with open_store(path, "text") as store:
        text = store.extent("text")
    write_roles(path, [("other", "OTHER", "o" * 590)], CREATED)
    with pytest.raises(DataError, match="was replaced while it was in use"):
        text.read(0, 10)
