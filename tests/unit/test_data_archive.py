"""Archives of others: what is read, and what is refused before it can do harm."""

from __future__ import annotations

import tarfile
import tracemalloc
from pathlib import Path

import pytest

from fedmpi.data.sources.archive import MOST_MEMBERS, read_file, read_members, sha256_of
from fedmpi.errors import DataError
from tests.support.datasets import bomb, tar_gz

MB = 1 << 20


def everything(path: Path, most: int = MB) -> dict[str, bytes]:
    return dict(read_members(path, lambda name: True, most))


def test_wanted_files_are_read_in_order_and_nothing_is_extracted(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "a.tgz", {"x/two": b"22", "x/one": b"1", "no": b"-"})
    read = list(read_members(path, lambda name: name.startswith("x/"), MB))
    assert read == [("x/two", b"22"), ("x/one", b"1")]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/up", "..\\up", "C:\\up"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = tar_gz(tmp_path / "a.tgz", {"good": b"1", name: b"2"})
    with pytest.raises(DataError, match="leads out of the archive"):
        everything(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("link")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(DataError, match="is a link or a device"):
        everything(tar_gz(tmp_path / "a.tgz", [(entry, b"")]))


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    twice = [(tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2")]
    with pytest.raises(DataError, match="holds 'a' twice"):
        everything(tar_gz(tmp_path / "a.tgz", twice))


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "a.tgz", {f"f{k}": b"" for k in range(MOST_MEMBERS + 1)})
    with pytest.raises(DataError, match="more than 1000 members"):
        everything(path)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.REGTYPE, "has 10737418240 bytes"),
        (tarfile.XHDTYPE, "a header of 10737418240 bytes"),
        (tarfile.GNUTYPE_LONGNAME, "a header of 10737418240 bytes"),
    ],
)
def test_a_bomb_of_10_gigabytes_costs_no_more_than_the_limit(tmp_path: Path, kind: bytes, words: str) -> None:
    """Also where the gigabytes are in a header that tarfile would read whole."""
    path = bomb(tmp_path / "bomb.tgz", 10, kind)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=words):
            everything(path, 8 * MB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size < 20 * MB
    assert peak < 64 * MB


def test_members_that_are_not_wanted_count_too(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "a.tgz", {f"f{k}": bytes(MB) for k in range(5)})
    with pytest.raises(DataError, match=r"unpacks to more than 3145728 bytes"):
        list(read_members(path, lambda name: False, 3 * MB))


@pytest.mark.parametrize("cut", [0, 1, 10, 200, -1])
def test_truncated_and_foreign_files_are_refused(tmp_path: Path, cut: int) -> None:
    whole = tar_gz(tmp_path / "a.tgz", {"a": bytes(range(256)) * 40}).read_bytes()
    path = tmp_path / "cut.tgz"
    path.write_bytes(whole[:cut])
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz|cut short"):
        everything(path)
    path.write_bytes(b"\x80\x04\x95 this is no archive")
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz"):
        everything(path)


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    assert read_file(path, 3) == b"abc"
    assert sha256_of(path, 3) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(DataError, match="more than 2 bytes"):
        read_file(path, 2)
    with pytest.raises(DataError, match="no such file"):
        read_file(tmp_path, 2)
