"""Records of other versions: what a file lacks reads as defaults, what it has beyond the schema is ignored."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fedmpi import Config, run
from fedmpi.errors import RecordError
from fedmpi.job.replay import read_rounds
from fedmpi.record import Record, open_record
from fedmpi.record.schema import SCHEMA, TABLES, DatasetSpec, Field, plain, seconds
from fedmpi.report.live import frame, snapshot
from fedmpi.report.summary import about, comparison
from fedmpi.report.write import write_report
from tests.support.records import make_record

COLUMNS = [(dataset.path, field) for dataset in SCHEMA for field in dataset.fields if field.name]
EXPECTED_ROWS = {"/rounds": 2, "/cohorts": 4, "/evals": 3, "/events": 0}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rounds of two clients each, and three evaluations."""
    return make_record(tmp_path_factory.mktemp("records") / "original.h5", accuracy=0.5)


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "copy.h5"))


def rewrite(path: Path, table: str, columns: Sequence[tuple[str, Any]]) -> None:
    """Give a table these columns (name, dtype), with the values that it has had, or zeros or "new"."""
    with h5py.File(path, "r+", libver="latest") as file:
        before = file[table][:]
        after = np.zeros(len(before), list(columns))
        for name, _ in columns:
            if name in before.dtype.names:
                after[name] = before[name]
            elif after[name].dtype.kind == "O":
                after[name] = "new"
        del file[table]
        file.create_dataset(table, data=after, maxshape=(None,), chunks=(8,))


def without(table: str, *names: str) -> list[tuple[str, Any]]:
    return [(field.name, field.dtype) for field in TABLES[table].fields if field.name not in names]


def remove(path: Path, *datasets: str) -> None:
    with h5py.File(path, "r+", libver="latest") as file:
        for name in datasets:
            if name in file:
                del file[name]


def tables(record: Record) -> dict[str, np.ndarray]:
    return {"/rounds": record.rounds, "/cohorts": record.cohorts, "/evals": record.evals, "/events": record.events}


def is_default(values: np.ndarray, field: Field) -> bool:
    return bool((np.isnan(values) if values.dtype.kind == "f" else values == field.default).all())


def optional_parts() -> tuple[dict[str, list[str]], list[str]]:
    """The columns by table, and the datasets, that a file may lack."""
    lacking = {dataset.path: [f.name for f in dataset.fields if not f.essential] for dataset in SCHEMA}
    columns = {path: names for path, names in lacking.items() if TABLES[path].essential and TABLES[path].dtype.names}
    return columns, [dataset.path for dataset in SCHEMA if not dataset.essential]


def strip(path: Path) -> None:
    """Remove everything that a reader does not insist on."""
    columns, datasets = optional_parts()
    for table, names in columns.items():
        rewrite(path, table, without(table, *names))
    remove(path, *datasets)


@pytest.mark.parametrize(("table", "field"), [(t, f) for t, f in COLUMNS if not f.essential])
def test_a_column_that_a_file_lacks_reads_as_its_default(original: Path, copy: Path, table: str, field: Field) -> None:
    rewrite(copy, table, without(table, field.name))
    with open_record(original) as whole, open_record(copy) as record:
        expected, found = tables(whole)[table], tables(record)[table]
        assert len(found) == EXPECTED_ROWS[table]
        assert found.dtype == TABLES[table].dtype
        assert is_default(found[field.name], field)
        for name, _ in without(table, field.name):
            np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize(("table", "field"), [(t, f) for t, f in COLUMNS if f.essential])
def test_an_essential_column_is_named_if_the_file_lacks_it(copy: Path, table: str, field: Field) -> None:
    rewrite(copy, table, without(table, field.name))
    with open_record(copy) as record, pytest.raises(RecordError, match=rf"{table} lacks its column {field.name},"):
        tables(record)


@pytest.mark.parametrize("dataset", SCHEMA, ids=lambda dataset: dataset.path)
def test_a_dataset_that_the_file_lacks_reads_as_defaults(copy: Path, dataset: DatasetSpec) -> None:
    lengths = {"n": 3, "d": 5, "size": 2}
    remove(copy, dataset.path)
    if dataset.essential:
        with pytest.raises(RecordError, match=f"{dataset.path} is missing"):
            open_record(copy).table(dataset.path)
        return
    with open_record(copy) as record:
        values = record.table(dataset.path)
        assert values.shape == tuple(lengths.get(dimension, 0) for dimension in dataset.shape)
        assert values.dtype == dataset.dtype
        if dataset.growing:
            values = record.table(dataset.path, 7)
            assert len(values) == 7
        for field in dataset.fields:
            assert is_default(values[field.name] if field.name else values, field)


def test_every_command_reads_a_record_with_essential_parts_only(copy: Path, tmp_path: Path) -> None:
    strip(copy)
    with open_record(copy) as record:
        assert "2 of 2 rounds" in about(record)
        assert "md" in comparison([record])
        assert "seconds" in read_rounds(record)
        assert (record.theta_t, record.message, len(record.history[0])) == (-1, "", 0)
        assert record.clients["name"].tolist() == [b""] * 3
        assert np.isnan(record.ranks["clock_error"]).all()
    assert frame(snapshot(copy))
    assert write_report([copy], tmp_path / "report").page.is_file()


def test_columns_and_datasets_beyond_the_schema_are_ignored(original: Path, copy: Path) -> None:
    more = [("new", "<f8"), ("text", h5py.string_dtype()), ("vector", np.dtype(("<f4", (3,)))), ("complex", "<c16")]
    for table in ("/rounds", "/cohorts", "/evals"):
        rewrite(copy, table, [*more, *reversed(without(table))])
    with h5py.File(copy, "r+", libver="latest") as file:
        file.attrs["format_version"] = "1.7"
        file.attrs["new"] = 1
        file["/new"] = 1
        file.create_group("/ranks/more")["x"] = [1, 2]
        file.create_dataset("/clients/packed", data=np.zeros(100), compression="gzip")
        file["/elsewhere"] = h5py.ExternalLink("nowhere.h5", "/x")
    with open_record(original) as whole, open_record(copy) as record:
        for name, expected in tables(whole).items():
            np.testing.assert_array_equal(tables(record)[name], expected)
        assert whole.clients.keys() == record.clients.keys()
        assert whole.ranks.keys() == record.ranks.keys()
        assert about(record).partition("\n")[2] == about(whole).partition("\n")[2]


@pytest.mark.parametrize(
    ("table", "column", "dtype"),
    [
        ("/rounds", "skew", "<f4"),
        ("/rounds", "skew", ">f8"),
        ("/rounds", "skew", "<i8"),
        ("/rounds", "skew", "S8"),
        ("/rounds", "skew", h5py.string_dtype()),
        ("/rounds", "skew", np.dtype(("<f8", (2,)))),
        ("/rounds", "skew", np.dtype([("skew", "<f8")])),
        ("/rounds", "N", "<i4"),
        ("/rounds", "virtual_straggler", "<u8"),
        ("/cohorts", "rank", "<i8"),
        ("/evals", "accuracy", "?"),
        ("/events", "kind", "S65"),
        ("/events", "note", "<f8"),
    ],
)
def test_a_known_column_of_another_type_is_an_error(copy: Path, table: str, column: str, dtype: Any) -> None:
    rewrite(copy, table, without(table, column))
    with h5py.File(copy, "r+", libver="latest") as file:
        rows, columns = file[table].shape[0], [*without(table, column), (column, dtype)]
        del file[table]
        file.create_dataset(table, (rows,), np.dtype(columns), maxshape=(None,))
    with open_record(copy) as record, pytest.raises(RecordError, match=f"{table} is not what format 1"):
        tables(record)


def test_a_table_may_have_longer_strings(copy: Path) -> None:
    rewrite(copy, "/events", [*without("/events", "kind"), ("kind", "S32")])
    with h5py.File(copy, "r+", libver="latest") as file:
        file["/events"].resize(1, axis=0)
        file["/events"][0, "kind"] = b"suspended"
    with open_record(copy) as record:
        assert record.events["kind"].tolist() == [b"suspended"]


@pytest.mark.parametrize(("value", "valid"), [(np.nan, True), (-1e11, True), (1e13, False), (np.inf, False)])
def test_the_default_is_valid_in_a_column_that_is_not_essential(copy: Path, value: float, valid: bool) -> None:
    """A resumed older record has defaults in the rows of its first job."""
    with h5py.File(copy, "r+", libver="latest") as file:
        rows = file["/rounds"][:]
        rows["skew"][0] = value
        file["/rounds"][:] = rows
    with open_record(copy) as record:
        if valid:
            np.testing.assert_equal(record.rounds["skew"][0], value)
        else:
            with pytest.raises(RecordError, match="/rounds, column skew, has values out of range"):
                _ = record.rounds


@pytest.mark.parametrize("column", ["down_bytes_wire", "time_up", "wall_time"])
def test_the_default_is_invalid_in_an_essential_column(copy: Path, column: str) -> None:
    with h5py.File(copy, "r+", libver="latest") as file:
        rows = file["/rounds"][:]
        rows[column][1] = -1 if rows[column].dtype.kind == "i" else np.nan
        file["/rounds"][:] = rows
    with open_record(copy) as record, pytest.raises(RecordError, match=f"/rounds, column {column}, has values out of"):
        _ = record.rounds


@pytest.mark.parametrize("name", ["/events", "/ranks/device", "/model/history"])
@pytest.mark.parametrize("link", ["soft", "external", "group", "type"])
def test_something_else_in_the_place_of_a_dataset_is_not_a_missing_one(copy: Path, name: str, link: str) -> None:
    with h5py.File(copy, "r+", libver="latest") as file:
        del file[name]
        if link == "group":
            file.create_group(name)
        else:
            links = {"soft": h5py.SoftLink("/x"), "external": h5py.ExternalLink("x.h5", "/x"), "type": np.dtype("<f8")}
            file[name] = links[link]
    with open_record(copy) as record, pytest.raises(RecordError, match=f"{name} is not what format 1"):
        record.table(name)


def test_a_new_column_and_a_new_dataset_take_one_declaration(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that were written before are read with them; a default may be declared."""
    cohorts = TABLES["/cohorts"]
    new = (seconds("queue_time", "waiting"), Field("state", "S8", "", "", "state", default=b"idle"))
    monkeypatch.setitem(TABLES, "/cohorts", dataclasses.replace(cohorts, fields=(*cohorts.fields, *new)))
    monkeypatch.setitem(TABLES, "/ranks/new", plain("/ranks/new", ("T", "size"), "<i4", "", "", "new"))
    with open_record(original) as record:
        assert np.isnan(record.cohorts["queue_time"]).all()
        assert record.cohorts["state"].tolist() == [b"idle"] * 4
        assert record.table("/ranks/new", 2).tolist() == [[-1, -1]] * 2
        with pytest.raises(RecordError, match="/ranks/new claims to hold more than the file does"):
            record.table("/ranks/new", 10**15)
        with pytest.raises(RecordError, match="the record needs -1"):
            record.table("/ranks/new", -1)


def test_an_older_record_is_resumed(tmp_path: Path) -> None:
    """The resumed file has everything that the schema declares, with defaults in the rows of the first job."""
    settings = {"record.per_client": True, "record.theta_every": 2, "eval.every": 1, "run.checkpoint_every": 1}
    config = Config.load("quadratic", {**settings, "run.T": 3})
    path, unbroken = tmp_path / "older.h5", tmp_path / "unbroken.h5"
    longer = config.replace({"run.T": 6})
    run(config, path)
    strip(path)
    # A closed record without /model/theta_t has no θ to resume from: its rounds are computed again, not written again.
    run(longer, path, resume=True)
    run(longer, unbroken)
    columns, _ = optional_parts()
    with open_record(path) as record, open_record(unbroken) as expected:
        assert (record.status, record.rounds_done) == ("done", 6)
        np.testing.assert_array_equal(record.theta, expected.theta)
        np.testing.assert_array_equal(record.cohorts["client"], expected.cohorts["client"])
        np.testing.assert_array_equal(record.evals["loss"], expected.evals["loss"])
        first = {"/rounds": 3, "/cohorts": int(record.rounds["cohort_end"][2]), "/evals": 4}
        for table, rows in first.items():
            for name in columns[table]:
                field = next(field for field in TABLES[table].fields if field.name == name)
                assert is_default(tables(record)[table][name][:rows], field), name
        assert np.isfinite(record.rounds["skew"][3:]).all()
        assert (record.cohorts["rank"][first["/cohorts"] :] >= 0).all()
        losses = record.table("/evals_client_loss")
        assert np.isnan(losses[:4]).all()
        np.testing.assert_array_equal(losses[4:], expected.table("/evals_client_loss")[4:])
        assert record.events["kind"].tolist() == [b"resumed"]
    with h5py.File(path) as file:
        assert all(file[dataset.path].dtype == dataset.dtype for dataset in SCHEMA)
