"""The reader of records: finished, running or broken off, it shows the committed rounds and nothing else."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import RecordError
from fedmpi.record.schema import FORMAT, FORMAT_VERSION

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
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
            self.rounds_done = int(self.file["/rounds_done"][()])
            self.attributes = dict(self.file.attrs)
        except Exception as error:
            raise RecordError(f"{path}: not a whole fedmpi record ({error})") from None

    @cached_property
    def config(self) -> Config:
        return Config.from_toml(str(self.attributes["config"]), origin=f"{self.path}: config")

    @property
    def status(self) -> str:
        """`running` (or broken off), `done` or `failed`."""
        return str(self.file["/status"][()].decode())

    @property
    def message(self) -> str:
        return str(self.file["/message"][()].decode(errors="replace"))

    @cached_property
    def rounds(self) -> NDArray[Any]:
        """/rounds: one row per committed round."""
        return self.table("/rounds", self.rounds_done)

    @cached_property
    def cohorts(self) -> NDArray[Any]:
        """/cohorts: one row per participating client of a committed round."""
        return self.table("/cohorts", int(self.rounds["cohort_end"][-1]) if len(self.rounds) else 0)

    @cached_property
    def evals(self) -> NDArray[Any]:
        """/evals, up to the last committed round."""
        rows = self.table("/evals")
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
        return int(self.file["/model/theta_t"][()])

    @property
    def history(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(t, θᵗ) as kept every record.theta_every rounds."""
        return self.table("/model/history_t"), self.table("/model/history")

    @cached_property
    def clients(self) -> dict[str, NDArray[Any]]:
        """n_samples, p, rank and name of every client."""
        return {name: self.table(f"/clients/{name}") for name in ("n_samples", "p", "rank", "name")}

    @cached_property
    def ranks(self) -> dict[str, NDArray[Any]]:
        """host and device of every rank; compute_time, idle_time and send_time (T, size)."""
        times = ("compute_time", "idle_time", "send_time")
        return {
            **{name: self.table(f"/ranks/{name}") for name in ("host", "device")},
            **{name: self.table(f"/ranks/{name}", self.rounds_done) for name in times},
        }

    def table(self, path: str, rows: int | None = None) -> NDArray[Any]:
        """A dataset as an array, its first `rows` rows if given."""
        try:
            dataset = self.file[path]
            return np.asarray(dataset[...] if rows is None else dataset[:rows])
        except Exception as error:
            raise RecordError(f"{self.path}: {path} cannot be read ({error})") from None

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Record:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_record(path: str | Path) -> Record:
    """The record at `path`, open for reading; a RecordError if it is not one."""
    return Record(path)


def is_record(path: str | Path) -> bool:
    """Whether the file is HDF5, by its first bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except OSError:
        return False


def open_file(path: Path) -> h5py.File:
    """The HDF5 file; one that is being written, or whose writer was killed, opens only in SWMR mode."""
    if not path.is_file():
        raise RecordError(f"{path}: no such record")
    file = None
    for swmr in (False, True):
        try:
            file = h5py.File(path, "r", swmr=swmr)
            break
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
    if file is None:
        raise RecordError(f"{path}: not a readable HDF5 file ({reason})")
    if file.attrs.get("format") != FORMAT:
        file.close()
        raise RecordError(f"{path}: an HDF5 file, but not a fedmpi record")
    version = str(file.attrs.get("format_version", ""))
    if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        file.close()
        raise RecordError(f"{path}: record format {version}, but this fedmpi reads {FORMAT_VERSION}: upgrade fedmpi")
    return file
