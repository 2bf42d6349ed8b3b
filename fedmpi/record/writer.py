"""The one writer of a record: created whole, switched to SWMR, then only appended to."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import fedmpi
from fedmpi.config import Config
from fedmpi.errors import FedmpiError, RecordError
from fedmpi.record.reader import Record
from fedmpi.record.resume import committed
from fedmpi.record.schema import DONE, FAILED, FORMAT, FORMAT_VERSION, RUNNING, SCHEMA, TABLES, Dataset

CHUNK_BYTES = 2**16
# What HDF5 keeps of each dataset in memory: the last chunks are all that is written to.
CACHE_BYTES = 2 * CHUNK_BYTES
# What must stay free on the disk: HDF5 can neither close nor leave alone a file that it could not write to the end.
RESERVE = 2**20
# Files to which that happened: HDF5 would crash if it were made to close them.
UNCLOSED: list[h5py.File] = []


class RecordWriter:
    """An open record. Rows count only once `commit` has moved the mark past their round."""

    def __init__(
        self,
        path: str | Path,
        config: Config,
        sizes: Mapping[str, int],
        contents: Mapping[str, Any],
        attributes: Mapping[str, Any],
        force: bool = False,
        past: Record | None = None,
    ) -> None:
        """sizes: n, d and size; contents: the datasets known from the start, by path; attributes of the file.

        With `past`, an earlier job's record, its committed rounds come first. The file takes its place at `path`
        when it is whole: until then what was there stays.
        """
        self.path = Path(path)
        # Whether a write has failed: what was committed before is all there will be.
        self.broken = False
        if not past:
            refuse_existing(self.path, force)
        aside = self.path.with_name(f".{self.path.name}.new")
        self.file = create_file(aside, self.path)
        for name, value in {**file_attributes(config), **attributes}.items():
            write_attribute(self.file, name, value)
        for dataset in SCHEMA:
            if not dataset.optional or config.record.per_client:
                create_dataset(self.file, dataset, sizes, contents.get(dataset.path))
        self.file["/status"][()] = RUNNING.encode()
        self.open = {path: self.file[path] for path in TABLES if path in self.file}
        self.rows = {path: dataset.shape[0] for path, dataset in self.open.items() if dataset.shape}
        # Rows as they lie in memory, in HDF5's terms: making this of a table's columns takes longer than writing a row.
        self.types = {path: h5py.h5t.py_create(TABLES[path].dtype) for path in self.open}
        self.unchecked = 0
        if past:
            self._continue(past)
        self.file.swmr_mode = True
        self.file.flush()
        aside.replace(self.path)

    def _continue(self, past: Record) -> None:
        """Take over what an earlier job has committed; ranks that it did not have get zeros."""
        for path, rows in committed(past).items():
            room = np.zeros((len(rows), *self.open[path].shape[1:]), rows.dtype)
            room[tuple(slice(length) for length in rows.shape)] = rows
            self.append(path, room)
        self.open["/rounds_done"][()] = past.rounds_done

    def append(self, path: str, rows: NDArray[Any]) -> None:
        """Add rows to a growing dataset: (k, …)."""
        with self._writing(rows.nbytes):
            # HDF5's own functions: h5py's slices take several times as long, every round.
            dataset, start = self.open[path].id, self.rows[path]
            rows = np.ascontiguousarray(rows, TABLES[path].dtype)
            self.rows[path] = start + len(rows)
            dataset.set_extent((self.rows[path], *rows.shape[1:]))
            place = dataset.get_space()
            place.select_hyperslab((start, *(0,) * (rows.ndim - 1)), rows.shape)
            dataset.write(h5py.h5s.create_simple(rows.shape), place, rows, self.types[path])

    def commit(self, rounds_done: int) -> None:
        """Declare the rows of all rounds below `rounds_done` whole, and let readers see them."""
        with self._writing(RESERVE // 4):
            self.file.flush()
            self.open["/rounds_done"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(rounds_done))
            self.file.flush()

    @contextmanager
    def _writing(self, size: int = 0) -> Iterator[None]:
        """Write only where there is room, and never again once that has failed. The disk is looked at before so many
        bytes have been written that they could have filled the reserve."""
        self.unchecked += size
        if self.unchecked >= RESERVE // 4:
            self.unchecked = 0
            if shutil.disk_usage(self.path.parent).free < RESERVE + 2 * size:
                self.broken = True
                raise FedmpiError(f"cannot write {self.path}: the disk is full")
        try:
            yield
        except (OSError, RuntimeError) as error:
            self.broken = True
            UNCLOSED.append(self.file)
            raise FedmpiError(f"cannot write {self.path}: {reason(error)}") from None

    def write_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ as the last θ."""
        self.open["/model/theta"][...] = theta
        self.open["/model/theta_t"][()] = t

    def keep_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ in the history."""
        self.append("/model/history", theta[None])
        self.append("/model/history_t", np.array([t]))

    def sync(self) -> None:
        """Have the operating system put what is written on disk."""
        with self._writing():
            self.file.flush()
            os.fsync(self.file.id.get_vfd_handle())

    def close(self, status: str = DONE, message: str = "") -> None:
        """Say how the run ended, and close."""
        if not self.file or self.file in UNCLOSED:
            return
        self.open["/status"][()] = status.encode()
        self.open["/message"][()] = message.encode()[:1024]
        self.file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(FAILED if kind else DONE, f"{error}" or kind.__name__ if kind else "")


def refuse_existing(path: Path, force: bool) -> None:
    """Raise if there is something at `path` that was not asked to be replaced, or cannot be."""
    if path.is_dir():
        raise RecordError(f"cannot write {path}: it is a directory")
    if path.exists() and not force:
        raise RecordError(f"{path} exists: choose another -o FILE, or pass --force to replace it")


def reason(error: Exception) -> str:
    """What the operating system said, out of what HDF5 makes of it."""
    found = re.search(r"error message = '([^']+)'", str(error))
    return found[1] if found else str(error).splitlines()[0]


def create_file(path: Path, final: Path) -> h5py.File:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return h5py.File(path, "w", libver="latest", rdcc_nbytes=CACHE_BYTES)
    except OSError as error:
        raise RecordError(f"cannot write {final}: {error.strerror or str(error).splitlines()[0]}") from None


def file_attributes(config: Config) -> dict[str, str]:
    versions = {f"{name}_version": importlib.metadata.version(name) for name in ("torch", "numpy", "h5py", "mpi4py")}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "software_version": fedmpi.__version__,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "config": config.to_toml(),
        **versions,
    }


def write_attribute(file: h5py.File, name: str, value: Any) -> None:
    """An attribute of the file; strings in a fixed length, so that they stand in metadata that has a checksum.

    Strings of any length would stand in a heap without one, and HDF5 can read a damaged heap forever.
    """
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else None
    if texts is None:
        file.attrs[name] = value
        return
    encoded = np.array([str(text).encode("utf-8", "replace") or b" " for text in texts], np.bytes_)
    kind = h5py.string_dtype("utf-8", max(1, encoded.itemsize))
    file.attrs.create(name, encoded if isinstance(value, list) else encoded[0], dtype=kind)


def create_dataset(file: h5py.File, dataset: Dataset, sizes: Mapping[str, int], content: Any) -> None:
    """Make a dataset of its declared shape, empty or with its content, described as declared."""
    shape = tuple(0 if dataset.growing and axis == 0 else sizes[dim] for axis, dim in enumerate(dataset.shape))
    made = {"shape": shape, "dtype": dataset.dtype}
    if dataset.growing:
        row_bytes = dataset.dtype.itemsize * int(np.prod(shape[1:]))
        made["maxshape"] = (None, *shape[1:])
        made["chunks"] = (max(1, CHUNK_BYTES // max(row_bytes, 1)), *shape[1:])
    elif content is not None:
        made["data"] = np.asarray(content, dataset.dtype)
    created = file.create_dataset(dataset.path, **made)
    created.attrs["description"] = dataset.meaning
    for field in dataset.fields:
        prefix = f"{field.name}." if field.name else ""
        created.attrs[f"{prefix}units"] = field.unit
        created.attrs[f"{prefix}symbol"] = field.symbol
        if field.name:
            created.attrs[f"{prefix}description"] = field.meaning
