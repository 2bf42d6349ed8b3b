"""The HDF5 file of an imported dataset: plain arrays, and their provenance.

`text`: all clients' texts as one uint8 array, `offsets` (n+1,) of the clients in it, `names`, `groups` (the play a
client belongs to) and, where the source has its own split, the places of the windows. `images`: `train_images`,
`train_labels`, `test_images`, `test_labels`. The arrays are uncompressed and contiguous, so that a reader
reads only the bytes it needs, and no file can make it read more than the file's own size.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import fedmpi
from fedmpi.errors import DataError

FORMAT = "fedmpi-dataset"
FORMAT_VERSION = "1.0"

# kind -> dataset -> (type of its numbers, dimensions)
REQUIRED = {
    "text": {"text": ("u1", 1), "offsets": ("i8", 1), "names": ("S", 1), "groups": ("i8", 1)},
    "images": {
        "train_images": ("u1", 4),
        "train_labels": ("u1", 1),
        "test_images": ("u1", 4),
        "test_labels": ("u1", 1),
    },
}
OPTIONAL = dict.fromkeys(("train_starts", "train_ends", "test_starts", "test_ends"), ("i8", 1))
PROVENANCE = ("source", "sha256", "created", "licence")
# HDF5's signature, and the versions of its superblock that have checksums in their metadata.
SIGNATURE, VERSIONS = b"\x89HDF\r\n\x1a\n", (b"\x02", b"\x03")
LONGEST_NAME = 256


def names_array(names: Iterable[str]) -> NDArray[np.bytes_]:
    """The clients' names as an array of the store: each cut to 256 bytes, because the longest sets the width."""
    return np.array([name.encode("utf-8", "replace")[:LONGEST_NAME] for name in names], dtype=np.bytes_)


def write_store(path: Path, kind: str, arrays: Mapping[str, NDArray[Any]], provenance: Mapping[str, str]) -> None:
    """Write a dataset file whole or not at all: under a temporary name, synced to disk, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "software_version": fedmpi.__version__,
        }
        # The latest format has checksums in its metadata, which also holds strings of fixed length: a damaged file is
        # rejected instead of read in an endless loop.
        with h5py.File(temporary, "w", libver="latest") as file:
            for key, value in {**about, **{key: provenance[key] for key in PROVENANCE}}.items():
                file.attrs[key] = np.bytes_(value.encode("utf-8"))
            for name, array in arrays.items():
                file.create_dataset(name, data=array)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({first_line(error)})") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


class Store:
    """An open dataset file whose attributes and arrays have been checked."""

    def __init__(self, path: Path, file: h5py.File, kind: str) -> None:
        self.path, self.file = path, file
        self.provenance = {key: self.attribute(key) for key in PROVENANCE}
        self.kind = kind or self.attribute("kind")
        for key, value in (("format", FORMAT), ("kind", self.kind)):
            if self.attribute(key) != value:
                raise DataError(f"{path}: its {key} is '{self.attribute(key)}', not '{value}'")
        version = self.attribute("format_version")
        if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
            raise DataError(f"{path}: has format {version}, and this fedmpi reads {FORMAT_VERSION}; import it again")
        for name, (number, dimensions) in REQUIRED.get(self.kind, {}).items():
            self.check(name, number, dimensions)
        for name in OPTIONAL.keys() & self.file.keys():
            self.check(name, *OPTIONAL[name])

    def attribute(self, key: str) -> str:
        if self.file.attrs.get_id(key).dtype.kind != "S":
            raise DataError(f"{self.path}: its attribute '{key}' is not a plain string; import it again")
        value: bytes = self.file.attrs[key]
        return value.decode("utf-8", "replace")

    def check(self, name: str, number: str, dimensions: int) -> None:
        """Raise a DataError unless a dataset is in this file, contiguous, of the declared type, and complete."""
        if not isinstance(self.file.get(name, getlink=True), h5py.HardLink):
            raise DataError(f"{self.path}: its '{name}' is missing or lies outside the file")
        dataset = self.file[name]
        if not isinstance(dataset, h5py.Dataset):
            raise DataError(f"{self.path}: its '{name}' is not an array")
        plain = dataset.chunks is None and not dataset.is_virtual and not dataset.external
        kind_of_number = dataset.dtype.kind if number == "S" else dataset.dtype.str.lstrip("<|")
        if not plain or kind_of_number != number or len(dataset.shape) != dimensions:
            raise DataError(f"{self.path}: its '{name}' is not a plain array of {number} in {dimensions} dimensions")
        if dataset.id.get_storage_size() < dataset.nbytes:
            raise DataError(f"{self.path}: its '{name}' is cut short; import the dataset again")

    def __contains__(self, name: str) -> bool:
        return name in self.file

    def shape(self, name: str) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.file[name].shape
        return shape

    def read(self, name: str, first: int = 0, last: int | None = None) -> NDArray[Any]:
        """Rows first..last of a dataset, without reading the others."""
        rows: NDArray[Any] = self.file[name][first:last]
        return rows

    def extent(self, name: str) -> Extent:
        """The position of a dataset in the file, for reading parts of it later."""
        dataset = self.file[name]
        return Extent(self.path, dataset.id.get_offset() or 0, dataset.dtype, dataset.shape, identity(self.path.stat()))


@dataclass(frozen=True)
class Extent:
    """An array in a dataset file, read in parts by plain reads; the file is not kept open between them."""

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    file: tuple[int, ...]

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Rows first..last."""
        return self.blocks([first], last - first).reshape(-1, *self.shape[1:])

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[Any]:
        """The chosen rows."""
        return self.blocks(chosen.tolist(), 1).reshape(-1, *self.shape[1:])

    def blocks(self, starts: list[int], count: int) -> NDArray[Any]:
        """`count` rows from each start, one after the other."""
        row = self.dtype.itemsize * math.prod(self.shape[1:])
        try:
            with self.path.open("rb", buffering=0) as file:
                if identity(os.fstat(file.fileno())) != self.file:
                    raise DataError(f"{self.path}: was replaced while it was in use; start the run again")
                content = b"".join(os.pread(file.fileno(), row * count, self.offset + row * start) for start in starts)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror})") from None
        if len(content) != row * count * len(starts):
            raise DataError(f"{self.path}: is cut short; import it again")
        return np.frombuffer(bytearray(content), self.dtype)


def identity(status: os.stat_result) -> tuple[int, ...]:
    """Numbers that change if a file is replaced by another."""
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def open_store(path: Path, kind: str = "") -> Iterator[Store]:
    """Open the dataset file at a path, read-only; anything wrong with it raises a DataError."""
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such dataset file")
    try:
        with path.open("rb") as raw:
            if raw.read(len(SIGNATURE)) != SIGNATURE or raw.read(1) not in VERSIONS:
                raise OSError("not an HDF5 file of the present format")
        # No lock, because a finished file never changes: the cache may be on a read-only or lockless file system.
        with h5py.File(path, "r", locking=False) as file:
            yield Store(path, file, kind)
    except (OSError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError) as error:
        raise DataError(f"{path}: not a readable fedmpi dataset ({first_line(error)}); import it again") from None


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
