"""Checkpoints: what a run needs to go on, in a small file beside its record that is whole or not there at all."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import FedmpiError, RecordError

FORMAT = "fedmpi-checkpoint 1"
# What makes a name of a group's array: the scheme's state is under "scheme/", what updates left out under "left/".
GROUPS = ("scheme", "left")
State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """A run after t rounds. scheme: what its scheme remembers; left: what compression has not sent yet, per client."""

    config: Config
    t: int
    theta: NDArray[np.float32]
    scheme: State = field(default_factory=dict)
    left: State = field(default_factory=dict)


def checkpoint_path(record: Path) -> Path:
    """Where the checkpoint of a record is."""
    return record.with_name(f"{record.name}.checkpoint")


def write_checkpoint(record: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a record; whatever happens, the old one or the new one is there and whole."""
    path = checkpoint_path(record)
    aside = path.with_name(f".{path.name}.new")
    arrays: State = {
        "format": text_array(FORMAT),
        "config": text_array(checkpoint.config.to_toml()),
        "t": np.array(checkpoint.t, np.int64),
        "theta": checkpoint.theta,
    }
    for group in GROUPS:
        arrays |= {f"{group}/{name}": array for name, array in getattr(checkpoint, group).items()}
    try:
        with aside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise FedmpiError(f"cannot write {path}: {error.strerror or error}") from None


def read_checkpoint(record: Path) -> Checkpoint | None:
    """The checkpoint of a record, or None if it has none; a RecordError if it is damaged. No pickle is ever read."""
    path = checkpoint_path(record)
    if not path.exists():
        return None
    try:
        refuse_bombs(path)
        with np.load(path, allow_pickle=False) as arrays:
            if array_text(arrays["format"]) != FORMAT:
                raise ValueError(f"its format is not '{FORMAT}'")
            groups: dict[str, State] = {group: {} for group in GROUPS}
            for name in arrays.files:
                group, slash, rest = name.partition("/")
                if slash:
                    groups[group][rest] = arrays[name]
            config = Config.from_toml(array_text(arrays["config"]), origin=str(path))
            theta, t = arrays["theta"], int(arrays["t"])
        if theta.dtype != np.float32 or theta.ndim != 1 or not 0 <= t <= config.run.T:
            raise ValueError("θ or t is not what it should be")
    except Exception as error:  # whatever a damaged archive makes zipfile and numpy raise
        raise RecordError(f"{path}: not a whole checkpoint ({error}): delete it to start from the record") from None
    return Checkpoint(config, t, theta, **groups)


def refuse_bombs(path: Path) -> None:
    """Raise if a member claims to be larger than the whole file: ours are stored as they are."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            raise ValueError("it claims more than it can hold")


def remove_checkpoint(record: Path) -> None:
    checkpoint_path(record).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a renaming last, where the file system lets a folder be synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def text_array(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def array_text(array: NDArray[Any]) -> str:
    return bytes(array.astype(np.uint8)).decode()
