"""The reader of records, of runs that are going on or have ended in any way: it returns committed rounds only.

A file that is no record, or a damaged one, raises a RecordError of one sentence. No file, however hostile, makes the
reader allocate more than about the file's own size.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.timeline import PHASES
from fedmpi.config import Config
from fedmpi.errors import ConfigError, RecordError
from fedmpi.record import validate
from fedmpi.record.hdf5_file import HDF5_ERRORS, first_line, is_record, open_file, read_attributes
from fedmpi.record.schema import FORMAT, FORMAT_VERSION, SCHEMA

__all__ = ["Record", "is_record", "open_record"]


class Record:
    """A record, open for reading. Arrays have all columns of the schema, with defaults for those that the file lacks.

    >>> record = open_record("u.h5")                                            # doctest: +SKIP
    >>> record.rounds["N"].mean(), record.evals["loss"][-1], record.theta       # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file = open_file(self.path)
        try:
            self.attributes = read_attributes(self.path, self.file)
            self.check_format()
            self.rounds_done = self.number("/rounds_done")
        except HDF5_ERRORS as error:
            self.close()
            raise RecordError(f"{path}: not a complete fedmpi record ({first_line(error)})") from None
        except RecordError:
            self.close()
            raise

    def check_format(self) -> None:
        """Raise unless the file is a record of a format that this version of fedmpi reads."""
        if self.attributes.get("format") != FORMAT:
            raise RecordError(f"{self.path}: an HDF5 file, but not a fedmpi record")
        version, major = str(self.attributes.get("format_version", "")), FORMAT_VERSION.split(".")[0]
        if version.split(".")[0] != major:
            raise RecordError(
                f"{self.path}: record format {version[:20]!r}, but this fedmpi reads {major}.x: upgrade fedmpi"
            )

    @cached_property
    def config(self) -> Config:
        """The settings of the run."""
        text = self.attributes.get("config")
        try:
            return Config.from_toml(text if isinstance(text, str) else "config = 'missing'", origin="config")
        except ConfigError as error:
            raise RecordError(f"{self.path}: its config cannot be read by this fedmpi ({error})") from None

    @property
    def status(self) -> str:
        """`running` (also of a job that was killed), `done`, `failed`, or `stopped` by a signal."""
        return self.text("/status")

    @property
    def message(self) -> str:
        """Why the run failed or was stopped."""
        return self.text("/message")

    @cached_property
    def rounds(self) -> NDArray[Any]:
        """/rounds: one row per committed round."""
        rows = self.table("/rounds", self.rounds_done)
        validate.check_rounds(self.path, rows, self.length("/clients/p"))
        return rows

    @cached_property
    def cohorts(self) -> NDArray[Any]:
        """/cohorts: one row per participating client of a committed round."""
        rows = self.table("/cohorts", int(self.rounds["cohort_end"][-1]) if len(self.rounds) else 0)
        validate.check_cohorts(self.path, rows, self.length("/clients/p"))
        return rows

    @cached_property
    def evals(self) -> NDArray[Any]:
        """/evals, up to the last committed round."""
        rows = self.table("/evals")
        return rows[rows["t"] <= self.rounds_done]

    @property
    def phases(self) -> dict[str, NDArray[np.float64]]:
        """Seconds per round of each phase, and of the round as `total`, by name."""
        return {name: self.rounds[f"time_{name}"] for name in (*PHASES, "total")}

    @property
    def theta(self) -> NDArray[np.float32]:
        """/model/theta: the last θ."""
        return self.table("/model/theta")

    @property
    def theta_t(self) -> int:
        """Rounds done when `theta` was recorded."""
        return self.number("/model/theta_t")

    @property
    def d(self) -> int:
        """The number of parameters: the length of θ."""
        return self.length("/model/theta")

    @property
    def history(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(t, θᵗ) as kept every record.theta_every rounds."""
        t = self.table("/model/history_t")
        return t, self.table("/model/history", len(t))

    @cached_property
    def clients(self) -> dict[str, NDArray[Any]]:
        """The datasets of /clients by name: n_samples, p, rank, name, …, each (n,)."""
        return self.group("/clients")

    @cached_property
    def ranks(self) -> dict[str, NDArray[Any]]:
        """The datasets of /ranks by name: host, device, …, each (size,); compute_time, …, each (T, size)."""
        ranks = self.group("/ranks")
        if not len(ranks["host"]):
            raise RecordError(f"{self.path}: /ranks/host is empty; the file is damaged")
        return ranks

    @cached_property
    def events(self) -> NDArray[Any]:
        """/events: one row per event that is not a round."""
        return self.table("/events")

    def group(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The datasets of a group by name, up to the last committed round."""
        declared = [dataset for dataset in SCHEMA if dataset.path.startswith(f"{prefix}/")]
        found = {each.path: self.table(each.path, self.rounds_done if each.growing else None) for each in declared}
        validate.check_dimensions(self.path, found)
        return {path.removeprefix(f"{prefix}/"): values for path, values in found.items()}

    def table(self, path: str, rows: int | None = None) -> NDArray[Any]:
        """A dataset as an array, or its first `rows` rows."""
        return validate.read_dataset(self.path, self.file, path, rows)

    def length(self, path: str) -> int:
        """The number of rows of a dataset."""
        return validate.dataset_length(self.path, self.file, path)

    def has(self, path: str) -> bool:
        """Whether the file itself has a dataset, or anything else, at a path."""
        try:
            return path in self.file
        except HDF5_ERRORS as error:
            raise RecordError(f"{self.path}: {path} cannot be read ({first_line(error)})") from None

    def number(self, path: str) -> int:
        """The value of a dataset that is one integer."""
        return int(self.table(path)[()])

    def text(self, path: str) -> str:
        """The value of a dataset that is one string."""
        return bytes(self.table(path)[()]).decode("utf-8", "replace")

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Record:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_record(path: str | Path) -> Record:
    """The record at `path`, open for reading; a RecordError if it is not one."""
    return Record(path)
