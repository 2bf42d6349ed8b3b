"""The one writer of a record: created whole, switched to SWMR, then only appended to."""

from __future__ import annotations

import datetime
import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

import fedmpi
from fedmpi.config import Config
from fedmpi.errors import RecordError
from fedmpi.record.schema import DONE, FAILED, FORMAT, FORMAT_VERSION, RUNNING, SCHEMA, TABLES, Dataset

CHUNK_BYTES = 2**16


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
    ) -> None:
        """sizes: n, d and size; contents: the datasets known from the start, by path; attributes of the file."""
        self.path = Path(path)
        self.file = create_file(self.path, force)
        self.file.attrs.update(file_attributes(config), **attributes)
        for dataset in SCHEMA:
            if not dataset.optional or config.record.per_client:
                create_dataset(self.file, dataset, sizes, contents.get(dataset.path))
        self.file["/status"][()] = RUNNING.encode()
        self.open = {path: self.file[path] for path in TABLES if path in self.file}
        self.file.swmr_mode = True
        self.file.flush()

    def append(self, path: str, rows: NDArray[Any]) -> None:
        """Add rows to a growing dataset: (k, …)."""
        dataset = self.open[path]
        end = dataset.shape[0]
        dataset.resize(end + len(rows), axis=0)
        dataset[end:] = rows

    def commit(self, rounds_done: int) -> None:
        """Declare the rows of all rounds below `rounds_done` whole, and let readers see them."""
        self.file.flush()
        self.open["/rounds_done"][()] = rounds_done
        self.file.flush()

    def write_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ as the last θ."""
        self.open["/model/theta"][...] = theta
        self.open["/model/theta_t"][()] = t

    def keep_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ in the history."""
        self.append("/model/history", theta[None])
        self.append("/model/history_t", np.array([t]))

    def close(self, failure: str = "") -> None:
        """Say how the run ended, and close."""
        if not self.file:
            return
        self.open["/status"][()] = (FAILED if failure else DONE).encode()
        self.open["/message"][()] = failure.encode()[:1024]
        self.file.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(f"{error}" or kind.__name__ if kind else "")


def refuse_existing(path: Path, force: bool) -> None:
    """Raise if there is something at `path` that was not asked to be replaced."""
    if path.exists() and not force:
        raise RecordError(f"{path} exists: choose another -o FILE, or pass --force to replace it")


def create_file(path: Path, force: bool) -> h5py.File:
    refuse_existing(path, force)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return h5py.File(path, "w", libver="latest")
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or str(error).splitlines()[0]}") from None


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
