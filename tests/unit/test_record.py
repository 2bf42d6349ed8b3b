"""The record: what the schema declares is what the file holds, and readers trust the commit mark alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fedmpi.config import Config
from fedmpi.errors import RecordError
from fedmpi.record import RecordWriter, is_record, open_record
from fedmpi.record.schema import SCHEMA, TABLES, row

SIZES = {"n": 3, "d": 4, "size": 2}


def writer(path: Path, **options: Any) -> RecordWriter:
    contents = {"/clients/name": [b"a", b"b", "é".encode()], "/clients/p": [0.2, 0.3, 0.5]}
    return RecordWriter(path, Config.load("quadratic", {"run.T": 9}), SIZES, contents, {"mpi_size": 2}, **options)


def round_row(t: int, cohort_end: int) -> np.ndarray:
    zeros = dict.fromkeys(TABLES["/rounds"].dtype.names, 0)
    return row("/rounds", **{**zeros, "t": t, "N": 2, "cohort_end": cohort_end})


def cohort(t: int) -> np.ndarray:
    rows = np.zeros(2, TABLES["/cohorts"].dtype)
    rows["t"], rows["client"] = t, [0, 2]
    return rows


def test_the_file_holds_what_the_schema_declares(tmp_path: Path) -> None:
    with writer(tmp_path / "r.h5"):
        pass
    with h5py.File(tmp_path / "r.h5") as file:
        for dataset in SCHEMA:
            if dataset.per_client:
                assert dataset.path not in file
                continue
            made = file[dataset.path]
            assert made.dtype == dataset.dtype, dataset.path
            assert made.ndim == len(dataset.shape)
            assert made.attrs["description"]
            for field in dataset.fields:
                prefix = f"{field.name}." if field.name else ""
                assert made.attrs[f"{prefix}units"] == field.unit
                assert made.attrs[f"{prefix}symbol"] == field.symbol
        for name in ("format", "format_version", "software_version", "created", "command", "config", "torch_version"):
            assert file.attrs[name]


def test_per_client_evaluations_are_there_when_asked(tmp_path: Path) -> None:
    config = Config.load("quadratic", {"record.per_client": True})
    with RecordWriter(tmp_path / "r.h5", config, SIZES, {}, {}) as record:
        record.append("/evals_client_loss", np.ones((1, 3)))
    with h5py.File(tmp_path / "r.h5") as file:
        assert file["/evals_client_loss"].shape == (1, 3)


def test_readers_see_committed_rounds_only(tmp_path: Path) -> None:
    with writer(tmp_path / "r.h5") as record:
        for t in range(3):
            record.append("/rounds", round_row(t, 2 * t + 2))
            record.append("/cohorts", cohort(t))
            record.append("/evals", row("/evals", t=t + 1, loss=0.5, accuracy=0.1))
            if t < 2:
                record.commit(t + 1)
        with open_record(tmp_path / "r.h5") as live:
            assert live.status == "running"
            assert live.rounds["t"].tolist() == [0, 1]
            assert live.cohorts["t"].tolist() == [0, 0, 1, 1]
            assert live.evals["t"].tolist() == [1, 2]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    with writer(tmp_path / "r.h5") as record:
        record.keep_theta(np.arange(4, dtype=np.float32), 0)
        record.write_theta(np.full(4, 7, np.float32), 5)
    with open_record(tmp_path / "r.h5") as read:
        assert read.config == Config.load("quadratic", {"run.T": 9})
        assert (read.status, read.message, read.rounds_done) == ("done", "", 0)
        assert read.theta.tolist() == [7] * 4
        assert read.theta_t == 5
        assert read.history[0].tolist() == [0]
        assert read.history[1].tolist() == [[0, 1, 2, 3]]
        assert read.clients["name"].tolist() == [b"a", b"b", "é".encode()]
        assert len(read.rounds) == len(read.cohorts) == 0
        assert set(read.phases) == {
            "sample", "down", "wait", "up", "aggregate", "evaluate", "record", "total",
        }  # fmt: skip


def test_a_failure_is_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="boom"), writer(tmp_path / "r.h5"):
        raise ValueError("boom")
    with open_record(tmp_path / "r.h5") as read:
        assert (read.status, read.message) == ("failed", "boom")


def test_an_existing_output_is_kept_unless_forced(tmp_path: Path) -> None:
    writer(tmp_path / "r.h5").close()
    before = (tmp_path / "r.h5").read_bytes()
    with pytest.raises(RecordError, match="exists: choose another -o FILE, or pass --force"):
        writer(tmp_path / "r.h5")
    assert (tmp_path / "r.h5").read_bytes() == before
    writer(tmp_path / "r.h5", force=True).close()


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot write"):
        writer(tmp_path / "file" / "r.h5")
    with pytest.raises(RecordError, match="cannot write"):
        writer(tmp_path, force=True)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF\r\n\x1a\n" + b"\0" * 100])
def test_what_is_not_a_record_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.h5").write_bytes(content)
    with pytest.raises(RecordError, match=r"x\.h5"):
        open_record(tmp_path / "x.h5")


def test_other_hdf5_and_future_formats_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(RecordError, match="not a fedmpi record"):
        open_record(tmp_path / "other.h5")
    with h5py.File(tmp_path / "new.h5", "w", libver="latest") as file:
        file.attrs.update(format="fedmpi-record", format_version="2.0")
    with pytest.raises(RecordError, match=r"record format .2\.0.*upgrade"):
        open_record(tmp_path / "new.h5")
    with pytest.raises(RecordError, match="no such record"):
        open_record(tmp_path / "none.h5")
    assert is_record(tmp_path / "new.h5")
    assert not is_record(tmp_path / "none.h5")


def test_a_row_needs_every_column() -> None:
    with pytest.raises(TypeError, match="accuracy"):
        row("/evals", t=0, loss=1.0)
