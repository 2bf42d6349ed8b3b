"""Checkpoints: the state from which a run resumes, in a small file beside its record that is replaced atomically."""

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
# The states of a checkpoint, and the group in the file in which each one's arrays are.
GROUPS = {"scheme": "scheme", "residuals": "left"}
State = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after t rounds.

    theta: (d,) float32; scheme: the state of its sampling scheme; residuals: what compression has not sent yet, per
    client.
    """

    config: Config
    t: int
    theta: NDArray[np.float32]
    scheme: State = field(default_factory=dict)
    residuals: State = field(default_factory=dict)


def checkpoint_path(record: Path) -> Path:
    """The path of a record's checkpoint."""
    return record.with_name(f"{record.name}.checkpoint")


def write_checkpoint(record: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of a record atomically: after a crash the file is the old one or the new one."""
    path = checkpoint_path(record)
    temporary = path.with_name(f".{path.name}.new")
    arrays: State = {
        "format": text_array(FORMAT),
        "config": text_array(checkpoint.config.to_toml()),
        "t": np.array(checkpoint.t, np.int64),
        "theta": checkpoint.theta,
    }
    for state, group in GROUPS.items():
        arrays |= {f"{group}/{name}": array for name, array in getattr(checkpoint, state).items()}
    try:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FedmpiError(f"cannot write {path}: {error.strerror or error}") from None


def read_checkpoint(record: Path) -> Checkpoint | None:
    """The checkpoint of a record, or None if it has none; a RecordError if it is damaged. Pickles are not read."""
    path = checkpoint_path(record)
    if not path.exists():
        return None
    try:
        refuse_zip_bomb(path)
        with np.load(path, allow_pickle=False) as arrays:
            if array_text(arrays["format"]) != FORMAT:
                raise ValueError(f"its format is not '{FORMAT}'")
            groups: dict[str, State] = {group: {} for group in GROUPS.values()}
            for name in arrays.files:
                group, slash, rest = name.partition("/")
                if slash:
                    groups[group][rest] = arrays[name]
            config = Config.from_toml(array_text(arrays["config"]), origin=str(path))
            theta, t = arrays["theta"], int(arrays["t"])
        if theta.dtype != np.float32 or theta.ndim != 1 or not 0 <= t <= config.run.T:
            raise ValueError("θ or t is invalid")
    except Exception as error:  # zipfile and numpy raise errors of many types on a damaged archive
        raise RecordError(f"{path}: not a complete checkpoint ({error}): delete it to resume without it") from None
    return Checkpoint(config, t, theta, **{state: groups[group] for state, group in GROUPS.items()})


def refuse_zip_bomb(path: Path) -> None:
    """Raise if the members claim to be larger than the file: checkpoints are not compressed."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            raise ValueError("it claims to hold more than its size")


def remove_checkpoint(record: Path) -> None:
    """Delete the checkpoint of a record, if there is one."""
    checkpoint_path(record).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder durable, where the file system can sync folders."""
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
    """A string as an array of its UTF-8 bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def array_text(array: NDArray[Any]) -> str:
    """The string of a `text_array`."""
    return bytes(array.astype(np.uint8)).decode()
