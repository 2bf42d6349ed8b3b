"""Reading datasets as the schema declares them: files of older and newer versions are read, damaged ones rejected.

A dataset or column that the file lacks reads as its default, unless it is essential; those that the schema does not
have are ignored. What is there must have the declared type, shape and range.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedmpi.errors import RecordError
from fedmpi.record.hdf5_file import HDF5_ERRORS, first_line
from fedmpi.record.schema import LENGTH_OF, TABLES, DatasetSpec, Field

# Bytes by which an array may exceed the size of its file: rows that were declared but never written read as zeros.
UNWRITTEN_BYTES = 16 << 20
# The factor by which a string in the file may be longer than declared.
LONGER_STRINGS = 4


def read_dataset(path: Path, file: h5py.File, name: str, rows: int | None = None) -> NDArray[Any]:
    """The dataset as an array with all declared columns, or its first `rows` rows."""
    try:
        dataset, declared = find_dataset(path, file, name), TABLES[name]
        shape = declared_shape(path, file, declared, rows or 0) if dataset is None else dataset.shape
        if rows is not None:
            if not 0 <= rows <= shape[0]:
                raise RecordError(f"{path}: {name} has {shape[0]} rows, but the record needs {rows}")
            shape = (rows, *shape[1:])
        itemsize = max(declared.dtype.itemsize, dataset.dtype.itemsize if dataset is not None else 0)
        if np.prod(shape, dtype=float) * itemsize > path.stat().st_size + UNWRITTEN_BYTES:
            raise RecordError(f"{path}: {name} claims to hold more than the file does")
        values = read_values(dataset, declared, shape)
    except HDF5_ERRORS as error:
        raise RecordError(f"{path}: {name} cannot be read ({first_line(error)})") from None
    check_range(path, declared, values)
    return values


def dataset_length(path: Path, file: h5py.File, name: str) -> int:
    """The number of rows of a dataset; 0 if the file lacks it."""
    try:
        dataset = find_dataset(path, file, name)
        return 0 if dataset is None else int(dataset.shape[0])
    except HDF5_ERRORS as error:
        raise RecordError(f"{path}: {name} cannot be read ({first_line(error)})") from None


def find_dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset | None:
    """The dataset of that name, of the declared type and shape; None if the file lacks it and it is not essential."""
    declared = TABLES[name]
    found: Any = file
    for step in name.strip("/").split("/"):
        if not isinstance(found, h5py.Group):
            raise unexpected(path, name)
        link = found.get(step, getlink=True)
        if link is None and declared.essential:
            raise RecordError(f"{path}: {name} is missing, so this is not a complete fedmpi record")
        if link is None:
            return None
        # Other links may lead to other files, or in circles.
        if not isinstance(link, h5py.HardLink):
            raise unexpected(path, name)
        found = found[step]
    if not isinstance(found, h5py.Dataset) or not is_plain(found) or not is_as_declared(found, declared):
        raise unexpected(path, name)
    lacking = [field.name for field in declared.fields if field.essential and not has_column(found, field)]
    if lacking:
        columns = ", ".join(lacking)
        raise RecordError(f"{path}: {name} lacks its column {columns}, so this is not a complete fedmpi record")
    return found


def unexpected(path: Path, name: str) -> RecordError:
    return RecordError(f"{path}: {name} is not what format 1 of a fedmpi record has there")


def is_plain(dataset: h5py.Dataset) -> bool:
    """Whether its values are in this file, and not compressed."""
    created = dataset.id.get_create_plist()
    return created.get_nfilters() == 0 and created.get_external_count() == 0 and not dataset.is_virtual


def is_as_declared(dataset: h5py.Dataset, declared: DatasetSpec) -> bool:
    """Whether the number of dimensions and the types of all columns that both have are those of the schema."""
    if dataset.shape is None or len(dataset.shape) != len(declared.shape):
        return False
    if not declared.dtype.names:
        return is_same_type(dataset.dtype, declared.dtype)
    if not dataset.dtype.names:
        return False
    return all(
        is_same_type(dataset.dtype[field.name], np.dtype(field.dtype))
        for field in declared.fields
        if has_column(dataset, field)
    )


def is_same_type(found: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    if declared.kind == "S":
        return bool(found.kind == "S" and found.itemsize <= LONGER_STRINGS * declared.itemsize)
    return bool(found == declared)


def has_column(dataset: h5py.Dataset, field: Field) -> bool:
    return not field.name or field.name in (dataset.dtype.names or ())


def declared_shape(path: Path, file: h5py.File, declared: DatasetSpec, rows: int) -> tuple[int, ...]:
    """The shape that a dataset has in this file by its dimensions' names; `rows` where it grows."""
    return tuple(dataset_length(path, file, LENGTH_OF[dim]) if dim in LENGTH_OF else rows for dim in declared.shape)


def read_values(dataset: h5py.Dataset | None, declared: DatasetSpec, shape: tuple[int, ...]) -> NDArray[Any]:
    """The first rows of a dataset, up to `shape`, with defaults where the file lacks a column or all of it."""
    selection = slice(shape[0]) if shape else ()
    if dataset is not None and not declared.dtype.names:
        return np.asarray(dataset[selection])
    present = [field.name for field in declared.fields if dataset is not None and has_column(dataset, field)]
    source = np.asarray(dataset.fields(present)[selection]) if dataset is not None and present else None
    if source is not None and source.dtype == declared.dtype:
        return source
    values = np.empty(shape, declared.dtype)
    for field in declared.fields:
        column = values[field.name] if field.name else values
        column[...] = source[field.name] if source is not None and field.name in present else field.default
    return values


def check_range(path: Path, declared: DatasetSpec, values: NDArray[Any]) -> None:
    """Raise if a value is out of its declared range; the default of a column that is not essential is in range."""
    for field in declared.fields:
        if np.isneginf(field.low) and np.isposinf(field.high):
            continue
        column = values[field.name] if field.name else values
        valid = (column >= field.low) & (column <= field.high)
        if not field.essential:
            valid |= np.isnan(column) if np.isnan(field.default) else column == field.default
        if not valid.all():
            name = f"{declared.path}, column {field.name}," if field.name else declared.path
            raise RecordError(f"{path}: {name} has values out of range; the file is damaged")


def check_rounds(path: Path, rounds: NDArray[Any], n: int) -> None:
    """Raise unless rounds are numbered from 0, and each has as many rows in /cohorts as it had clients."""
    N, ends = rounds["N"], rounds["cohort_end"]
    numbered = np.array_equal(rounds["t"], np.arange(len(rounds)))
    # The differences may overflow; they are then no valid number of clients.
    fits = ((N >= 0) & (n >= N)).all() and np.array_equal(np.diff(ends, prepend=0), N) and (ends >= 0).all()
    if not (numbered and fits):
        raise RecordError(f"{path}: the rows of /rounds contradict one another; the file is damaged")


def check_cohorts(path: Path, cohorts: NDArray[Any], n: int) -> None:
    """Raise unless all clients are among the n of the record."""
    client = cohorts["client"]
    if not ((client >= 0) & (client < n)).all():
        raise RecordError(f"{path}: /cohorts names clients that the record does not have; the file is damaged")


def check_dimensions(path: Path, datasets: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless these datasets, by path, have the same length along each dimension that they share."""
    lengths: dict[str, int] = {}
    for name, values in datasets.items():
        for dimension, length in zip(TABLES[name].shape, values.shape, strict=True):
            if lengths.setdefault(dimension, length) != length:
                group = name.rpartition("/")[0]
                raise RecordError(f"{path}: the datasets of {group} differ in length; the file is damaged")
