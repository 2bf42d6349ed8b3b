"""The reader of records: finished, running or broken off, it shows the committed rounds and nothing else.

Whatever is wrong with a file is a RecordError of one sentence; no file makes it read more than the file's own size.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import ConfigError, RecordError
from fedmpi.record import checks
from fedmpi.record.schema import FORMAT, FORMAT_VERSION, TABLES
from fedmpi.record.validate import DAMAGE, first_line, is_record, open_file, read_attributes

__all__ = ["Record", "is_record", "open_record"]

PHASE_PREFIX = "time_"


class Record:
    """A run file, open for reading.

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
        except DAMAGE as error:
            self.close()
            raise RecordError(f"{path}: not a whole fedmpi record ({first_line(error)})") from None
        except RecordError:
            self.close()
            raise

    def check_format(self) -> None:
        """The file must say that it is a record, of a format that this fedmpi reads."""
        if self.attributes.get("format") != FORMAT:
            raise RecordError(f"{self.path}: an HDF5 file, but not a fedmpi record")
        version = str(self.attributes.get("format_version", ""))
        if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
            raise RecordError(
                f"{self.path}: record format {version[:20]!r}, but this fedmpi reads {FORMAT_VERSION}: upgrade fedmpi"
            )

    @cached_property
    def config(self) -> Config:
        text = self.attributes.get("config")
        try:
            return Config.from_toml(text if isinstance(text, str) else "config = 'missing'", origin="config")
        except ConfigError as error:
            raise RecordError(f"{self.path}: its config cannot be read by this fedmpi ({error})") from None

    @property
    def status(self) -> str:
        """`running` (or broken off), `done` or `failed`."""
        return self.text("/status")

    @property
    def message(self) -> str:
        return self.text("/message")

    @cached_property
    def rounds(self) -> NDArray[Any]:
        """/rounds: one row per committed round."""
        rows = self.table("/rounds", self.rounds_done)
        checks.check_rounds(self.path, rows, self.length("/clients/p"))
        return rows

    @cached_property
    def cohorts(self) -> NDArray[Any]:
        """/cohorts: one row per participating client of a committed round."""
        rows = self.table("/cohorts", int(self.rounds["cohort_end"][-1]) if len(self.rounds) else 0)
        checks.check_cohorts(self.path, rows, self.length("/clients/p"))
        return rows

    @cached_property
    def evals(self) -> NDArray[Any]:
        """/evals, up to the last committed round."""
        rows = self.table("/evals")
        if (rows["t"] < 0).any():
            raise RecordError(f"{self.path}: /evals has negative rounds; the file is damaged")
        return rows[rows["t"] <= self.rounds_done]

    @property
    def phases(self) -> dict[str, NDArray[np.float64]]:
        """Seconds per round of each phase, by name: sample, down, wait, up, aggregate, evaluate, record, total."""
        names = [name for name in self.rounds.dtype.names or () if name.startswith(PHASE_PREFIX)]
        return {name.removeprefix(PHASE_PREFIX): self.rounds[name] for name in names}

    @property
    def theta(self) -> NDArray[np.float32]:
        """/model/theta: the last θ."""
        return self.table("/model/theta")

    @property
    def theta_t(self) -> int:
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
        """n_samples, p, rank and name of every client."""
        found = {name: self.table(f"/clients/{name}") for name in ("n_samples", "p", "rank", "name")}
        checks.check_clients(self.path, found)
        return found

    @cached_property
    def events(self) -> NDArray[Any]:
        """/events: what happened besides rounds; records of earlier versions have none."""
        try:
            if "events" not in self.file:
                return np.empty(0, TABLES["/events"].dtype)
        except DAMAGE as error:
            raise RecordError(f"{self.path}: not a whole fedmpi record ({first_line(error)})") from None
        return self.table("/events")

    @cached_property
    def ranks(self) -> dict[str, NDArray[Any]]:
        """host and device of every rank; compute_time, idle_time and send_time (T, size)."""
        times = ("compute_time", "idle_time", "send_time")
        found = {
            **{name: self.table(f"/ranks/{name}") for name in ("host", "device")},
            **{name: self.table(f"/ranks/{name}", self.rounds_done) for name in times},
        }
        checks.check_ranks(self.path, found)
        return found

    def table(self, path: str, rows: int | None = None) -> NDArray[Any]:
        """A dataset as an array, its first `rows` rows if given."""
        return checks.read(self.path, self.file, path, rows)

    def length(self, path: str) -> int:
        """How many rows a dataset has."""
        return checks.length(self.path, self.file, path)

    def has(self, path: str) -> bool:
        """Whether there is a dataset, or anything else, at a path."""
        try:
            return path in self.file
        except DAMAGE as error:
            raise RecordError(f"{self.path}: {path} cannot be read ({first_line(error)})") from None

    def number(self, path: str) -> int:
        return int(self.table(path)[()])

    def text(self, path: str) -> str:
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
