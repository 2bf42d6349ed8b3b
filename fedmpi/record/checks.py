"""What must be true of a record's datasets before anybody works with them: each as the schema declares it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedmpi.errors import RecordError
from fedmpi.record.schema import TABLES, Dataset
from fedmpi.record.validate import DAMAGE, ROOM, first_line

# No run has seconds beyond this; sums and means of larger ones could overflow.
LONGEST = 1e12
MOST_BYTES = 2**52


def find(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """The dataset of that name in the schema, once it is known to be in this file, of the declared type and shape."""
    here: Any = file
    for step in name.strip("/").split("/"):
        # No link to another file, nor in a circle.
        if not isinstance(here, h5py.Group) or not isinstance(here.get(step, getlink=True), h5py.HardLink):
            raise RecordError(f"{path}: {name} is missing, so this is not a whole fedmpi record")
        here = here[step]
    if not isinstance(here, h5py.Dataset) or not is_plain(here) or not is_as_declared(here, TABLES[name]):
        raise RecordError(f"{path}: {name} is not what format 1 of a fedmpi record has there")
    return here


def is_plain(dataset: h5py.Dataset) -> bool:
    """Whether its numbers are in this file as they are: neither packed, nor elsewhere."""
    made = dataset.id.get_create_plist()
    return made.get_nfilters() == 0 and made.get_external_count() == 0 and not dataset.is_virtual


def is_as_declared(dataset: h5py.Dataset, declared: Dataset) -> bool:
    """Whether type and dimensions are the schema's; columns beyond those of the schema are a later format's."""
    found, wanted = dataset.dtype, declared.dtype
    if dataset.shape is None or len(dataset.shape) != len(declared.shape):
        return False
    if wanted.names:
        return all(name in (found.names or ()) and found[name] == wanted[name] for name in wanted.names)
    if wanted.kind == "S":
        return bool(found.kind == "S" and found.itemsize <= 4 * wanted.itemsize)
    return bool(found == wanted)


def read(path: Path, file: h5py.File, name: str, rows: int | None = None) -> NDArray[Any]:
    """The dataset as an array, its first `rows` rows if given; never more bytes than its file can hold."""
    try:
        dataset = find(path, file, name)
        shape = dataset.shape
        if rows is not None:
            if not 0 <= rows <= shape[0]:
                raise RecordError(f"{path}: {name} has {shape[0]} rows where the record says {rows}")
            shape = (rows, *shape[1:])
        if np.prod(shape, dtype=float) * dataset.dtype.itemsize > path.stat().st_size + ROOM:
            raise RecordError(f"{path}: {name} claims to hold more than the file does")
        columns = TABLES[name].dtype.names
        source = dataset.fields(list(columns)) if columns else dataset
        return np.asarray(source[()] if rows is None else source[:rows])
    except DAMAGE as error:
        raise RecordError(f"{path}: {name} cannot be read ({first_line(error)})") from None


def length(path: Path, file: h5py.File, name: str) -> int:
    """How many rows the dataset has."""
    try:
        return int(find(path, file, name).shape[0])
    except DAMAGE as error:
        raise RecordError(f"{path}: {name} cannot be read ({first_line(error)})") from None


def check_rounds(path: Path, rounds: NDArray[Any], n: int) -> None:
    """Rounds are numbered from 0, and each has as many rows in /cohorts as it had clients."""
    N, ends = rounds["N"], rounds["cohort_end"]
    counted = np.array_equal(rounds["t"], np.arange(len(rounds)))
    # Differences of numbers that may be anything: wrapped around, they are no number of clients.
    fits = ((N >= 0) & (n >= N)).all() and np.array_equal(np.diff(ends, prepend=0), N) and (ends >= 0).all()
    moved = [rounds[name] for name in rounds.dtype.names or () if "_bytes_" in name]
    times = [rounds[name] for name in rounds.dtype.names or () if name.startswith("time_")]
    sane = all(((x >= 0) & (x <= MOST_BYTES)).all() for x in moved) and all((abs(x) <= LONGEST).all() for x in times)
    if not (counted and fits and sane):
        raise RecordError(f"{path}: the rows of /rounds contradict one another; the file is damaged")


def check_cohorts(path: Path, cohorts: NDArray[Any], n: int) -> None:
    """Clients are among those of the record, and training took a time."""
    client = cohorts["client"]
    if not ((client >= 0) & (client < n)).all() or not (abs(cohorts["compute_time"]) <= LONGEST).all():
        raise RecordError(f"{path}: /cohorts names clients that the record does not have; the file is damaged")


def check_clients(path: Path, clients: dict[str, NDArray[Any]]) -> None:
    n, p, rank, samples = len(clients["p"]), clients["p"], clients["rank"], clients["n_samples"]
    whole = all(len(values) == n for values in clients.values())
    if not whole or not ((p >= 0) & (p <= 1)).all() or (rank < 0).any() or (samples < 0).any():
        raise RecordError(f"{path}: the datasets of /clients contradict one another; the file is damaged")


def check_ranks(path: Path, ranks: dict[str, NDArray[Any]]) -> None:
    size = len(ranks["host"])
    whole = len(ranks["device"]) == size and size > 0
    times = [values for name, values in ranks.items() if name.endswith("_time")]
    if not whole or not all(x.shape[1] == size and (abs(x) <= LONGEST).all() for x in times):
        raise RecordError(f"{path}: the datasets of /ranks contradict one another; the file is damaged")
