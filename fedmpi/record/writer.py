"""The only writer of records. It creates all datasets, switches the file to SWMR mode, and then only appends."""

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
from fedmpi.record.resume import committed_rows
from fedmpi.record.schema import DONE, FAILED, FORMAT, FORMAT_VERSION, RUNNING, SCHEMA, TABLES, DatasetSpec

CHUNK_BYTES = 2**16
# HDF5's cache per dataset: only the last chunks are written to.
CACHE_BYTES = 2 * CHUNK_BYTES
# Bytes that must stay free on the disk: HDF5 crashes when it closes a file that it could not write completely.
RESERVE = 2**20
# Files that could not be written, and that must not be closed for that reason.
UNCLOSED: list[h5py.File] = []


class RecordWriter:
    """A record, open for writing. Readers see the rows of a round only after its `commit`."""

    def __init__(
        self,
        path: str | Path,
        config: Config,
        sizes: Mapping[str, int],
        contents: Mapping[str, Any],
        attributes: Mapping[str, Any],
        force: bool = False,
        earlier: Record | None = None,
    ) -> None:
        """sizes: n, d and size; contents: values of datasets that are known from the start, by path; attributes: of
        the file; earlier: the record that a resumed run continues.

        The new file has all datasets and columns of the schema and starts with the committed rounds of `earlier`. It
        is moved to `path` when it is complete; until then the file at `path` is unchanged.
        """
        self.path = Path(path)
        # Whether a write has failed: nothing can be written any more.
        self.broken = False
        if not earlier:
            refuse_existing(self.path, force)
        temporary = self.path.with_name(f".{self.path.name}.new")
        self.file = create_file(temporary, self.path)
        for name, value in {**file_attributes(config), **attributes}.items():
            write_attribute(self.file, name, value)
        for dataset in SCHEMA:
            if config.record.per_client or not dataset.per_client:
                create_dataset(self.file, dataset, sizes, contents.get(dataset.path))
        self.file["/status"][()] = RUNNING.encode()
        self.open = {path: self.file[path] for path in TABLES if path in self.file}
        self.rows = {path: dataset.shape[0] for path, dataset in self.open.items() if dataset.shape}
        # HDF5's types for rows in memory, made once: making one takes longer than writing a row.
        self.types = {path: h5py.h5t.py_create(TABLES[path].dtype) for path in self.open}
        self.unchecked_bytes = 0
        if earlier:
            self._copy_rounds(earlier)
        self.file.swmr_mode = True
        self.file.flush()
        temporary.replace(self.path)

    def _copy_rounds(self, earlier: Record) -> None:
        """Append the committed rounds of an earlier job; ranks that it did not have get zeros."""
        for path, rows in committed_rows(earlier).items():
            padded = np.zeros((len(rows), *self.open[path].shape[1:]), rows.dtype)
            padded[tuple(slice(length) for length in rows.shape)] = rows
            self.append(path, padded)
        self.open["/rounds_done"][()] = earlier.rounds_done

    def append(self, path: str, rows: NDArray[Any]) -> None:
        """Add rows to a growing dataset: (k, …)."""
        with self._writing(rows.nbytes):
            # HDF5's own functions, because h5py's slices take several times as long in every round.
            dataset, start = self.open[path].id, self.rows[path]
            rows = np.ascontiguousarray(rows, TABLES[path].dtype)
            self.rows[path] = start + len(rows)
            dataset.set_extent((self.rows[path], *rows.shape[1:]))
            new_rows = dataset.get_space()
            new_rows.select_hyperslab((start, *(0,) * (rows.ndim - 1)), rows.shape)
            dataset.write(h5py.h5s.create_simple(rows.shape), new_rows, rows, self.types[path])

    def commit(self, rounds_done: int) -> None:
        """Make the rows of all rounds below `rounds_done` visible to readers."""
        with self._writing(RESERVE // 4):
            self.file.flush()
            self.open["/rounds_done"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array(rounds_done))
            self.file.flush()

    @contextmanager
    def _writing(self, size: int = 0) -> Iterator[None]:
        """Turn a failed write of `size` bytes into a FedmpiError, and fail before the disk is full. Free space is
        checked each time a quarter of the reserve has been written."""
        self.unchecked_bytes += size
        if self.unchecked_bytes >= RESERVE // 4:
            self.unchecked_bytes = 0
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
        """Record θᵗ as the last θ."""
        self.open["/model/theta"][...] = theta
        self.open["/model/theta_t"][()] = t

    def keep_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Append θᵗ to the history."""
        self.append("/model/history", theta[None])
        self.append("/model/history_t", np.array([t]))

    def sync(self) -> None:
        """Flush everything written so far to the disk (fsync)."""
        with self._writing():
            self.file.flush()
            os.fsync(self.file.id.get_vfd_handle())

    def close(self, status: str = DONE, message: str = "") -> None:
        """Record how the run ended, and close the file."""
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
    """Raise if `path` is a directory, or exists and `force` is not set."""
    if path.is_dir():
        raise RecordError(f"cannot write {path}: it is a directory")
    if path.exists() and not force:
        raise RecordError(f"{path} exists: choose another -o FILE, or pass --force to replace it")


def reason(error: Exception) -> str:
    """The operating system's message, extracted from HDF5's."""
    found = re.search(r"error message = '([^']+)'", str(error))
    return found[1] if found else str(error).splitlines()[0]


def create_file(path: Path, final: Path) -> h5py.File:
    """A new HDF5 file at `path`, with its folder; errors name the `final` path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return h5py.File(path, "w", libver="latest", rdcc_nbytes=CACHE_BYTES)
    except OSError as error:
        raise RecordError(f"cannot write {final}: {error.strerror or str(error).splitlines()[0]}") from None


def file_attributes(config: Config) -> dict[str, str]:
    """The attributes of every record: its format, the versions of the software, the command and the config."""
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
    """Write an attribute of the file. Strings have a fixed length: HDF5 then stores them in metadata with a checksum.

    Strings of variable length would go to a heap without one, and HDF5 can loop forever on a damaged heap.
    """
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else None
    if texts is None:
        file.attrs[name] = value
        return
    encoded = np.array([str(text).encode("utf-8", "replace") or b" " for text in texts], np.bytes_)
    kind = h5py.string_dtype("utf-8", max(1, encoded.itemsize))
    file.attrs.create(name, encoded if isinstance(value, list) else encoded[0], dtype=kind)


def create_dataset(file: h5py.File, dataset: DatasetSpec, sizes: Mapping[str, int], content: Any) -> None:
    """Create a dataset of its declared shape with its content, if any, and its description and units as attributes."""
    shape = tuple(0 if dataset.growing and axis == 0 else sizes[dim] for axis, dim in enumerate(dataset.shape))
    options = {"shape": shape, "dtype": dataset.dtype}
    if dataset.growing:
        row_bytes = dataset.dtype.itemsize * int(np.prod(shape[1:]))
        options["maxshape"] = (None, *shape[1:])
        options["chunks"] = (max(1, CHUNK_BYTES // max(row_bytes, 1)), *shape[1:])
    elif content is not None:
        options["data"] = np.asarray(content, dataset.dtype)
    created = file.create_dataset(dataset.path, **options)
    created.attrs["description"] = dataset.meaning
    for field in dataset.fields:
        prefix = f"{field.name}." if field.name else ""
        created.attrs[f"{prefix}units"] = field.unit
        created.attrs[f"{prefix}symbol"] = field.symbol
        if field.name:
            created.attrs[f"{prefix}description"] = field.meaning
