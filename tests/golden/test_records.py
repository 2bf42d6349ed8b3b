"""Records of released versions open, show, report, replay, resume and run again as on the day they were made."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from fedmpi import open_record, run
from tests.golden.cpu import FUSED, rounding_kind
from tests.golden.records import BROKEN, TABLES, expected, summary, theta_of, unpack, versions
from tests.support.commands import Finished

Fedmpi = Callable[..., Finished]

EXPECTED = {version: expected(version) for version in versions()}
RECORDS = [(version, name) for version, found in EXPECTED.items() for name in found]
# The CPU that made the records rounds a·b + c once. One that rounds twice ends up this close to their θ.
TOLERANCE = 1e-4
# What S_t and ω are, in a record: on every machine the same.
DRAWS = ("t", "client", "omega")

# Broken-off runs have checkpoints every 4 rounds, and were ended in the tenth or later.
FIRST_CHECKPOINT = 4

each_version = pytest.mark.parametrize("version", EXPECTED)


def finished(done: Finished) -> Finished:
    assert done.returncode == 0, done.stderr
    return done


def same_run(path: Path, golden: dict[str, Any]) -> None:
    """The run at `path` has the θ and the draws that another had, which is described by its summary."""
    found = summary(path)
    assert found["status"] == "done"
    assert found["rounds_done"] == golden["rounds_done"]
    assert found["history"][0] == golden["history"][0]
    for name in DRAWS:
        assert found["cohorts"]["columns"][name] == golden["cohorts"]["columns"][name], name
    theta, before = theta_of(found["theta"]), theta_of(golden["theta"])
    if rounding_kind() == FUSED:
        assert theta.tobytes() == before.tobytes()
        assert found["history"] == golden["history"]
    assert np.abs(theta - before).max() <= TOLERANCE


def test_there_is_a_record_of_0_2_0() -> None:
    assert "v0.2.0" in EXPECTED
    assert len(EXPECTED["v0.2.0"]) == 8
    assert set(BROKEN) < set(EXPECTED["v0.2.0"])


@pytest.mark.parametrize(("version", "name"), RECORDS)
def test_it_opens(tmp_path: Path, version: str, name: str) -> None:
    """Every column that it had is there, with its type and its bits. Later versions may have more."""
    golden = EXPECTED[version][name]
    (path,) = unpack(version, tmp_path, name)
    found = summary(path)
    for key in ("settings", "theta", "theta_dtype", "status", "rounds_done", "history"):
        assert found[key] == golden[key], key
    assert set(golden["phases"]) <= set(found["phases"])
    for table in TABLES:
        assert found[table]["rows"] == golden[table]["rows"], table
        for column, content in golden[table]["columns"].items():
            assert found[table]["columns"].get(column) == content, f"/{table}: {column}"


@each_version
def test_the_record_of_a_killed_writer_opens(tmp_path: Path, version: str) -> None:
    """Its writer never closed it, so that HDF5 opens it in SWMR mode alone."""
    (path,) = unpack(version, tmp_path, "killed")
    with pytest.raises(OSError, match="already open"):
        h5py.File(path, "r")
    with open_record(path) as record:
        assert len(record.rounds) == EXPECTED[version]["killed"]["rounds_done"]
        assert record.theta.dtype == np.float32


@each_version
def test_show(fedmpi: Fedmpi, tmp_path: Path, version: str) -> None:
    names = list(EXPECTED[version])
    unpack(version, tmp_path, *names)
    table = finished(fedmpi("show", *(f"{name}.h5" for name in names))).stdout
    for name, golden in EXPECTED[version].items():
        assert golden["settings"]["sampling.scheme"] in table, name
    for name in ("killed", "network"):
        golden = EXPECTED[version][name]
        about = finished(fedmpi("show", f"{name}.h5")).stdout
        assert re.search(rf"\b{golden['rounds_done']}\b.*\b{golden['settings']['run.T']}\b", about)
        assert version.removeprefix("v") in about


@each_version
def test_report(fedmpi: Fedmpi, tmp_path: Path, version: str) -> None:
    names = [name for name in EXPECTED[version] if name.startswith("quadratic-")]
    unpack(version, tmp_path, *names)
    finished(fedmpi("report", *(f"{name}.h5" for name in names), "-o", "page"))
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert ">md<" in page
    assert ">uniform<" in page


@each_version
def test_report_of_a_virtual_network(fedmpi: Fedmpi, tmp_path: Path, version: str) -> None:
    unpack(version, tmp_path, "network")
    finished(fedmpi("report", "network.h5", "-o", "page"))
    assert ">clustered<" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "ranks"), [("network", 3), ("killed", 0)])
@each_version
def test_replay(fedmpi: Fedmpi, tmp_path: Path, version: str, name: str, ranks: int) -> None:
    """The same cohorts and, on as many ranks, the same bytes."""
    golden = EXPECTED[version][name]
    unpack(version, tmp_path, name)
    finished(fedmpi("replay", f"{name}.h5", "-o", "again.h5", ranks=ranks))
    found = summary(tmp_path / "again.h5")
    assert found["rounds_done"] == golden["rounds_done"]
    for column in DRAWS:
        assert found["cohorts"]["columns"][column] == golden["cohorts"]["columns"][column], column
    for column in ("up_bytes_logical", "down_bytes_logical", "up_bytes_wire", "down_bytes_wire"):
        assert found["rounds"]["columns"][column] == golden["rounds"]["columns"][column], column


@pytest.mark.parametrize(("name", "ranks"), [("killed", 0), ("stopped", 0), ("topk", 3)])
@each_version
def test_resume(fedmpi: Fedmpi, tmp_path: Path, version: str, name: str, ranks: int) -> None:
    """A run that was broken off ends with the θ of the same run unbroken."""
    (path,) = unpack(version, tmp_path, name)
    finished(fedmpi("run", f"{name}.h5", "--resume", ranks=ranks))
    same_run(path, EXPECTED[version][name]["unbroken"])
    with h5py.File(path, "r") as file:
        (event,) = file["events"][:]
    assert event["kind"] == b"resumed"
    assert event["t"] >= FIRST_CHECKPOINT, "it began again instead of going on from its checkpoint"


@each_version
def test_run_again(fedmpi: Fedmpi, tmp_path: Path, version: str) -> None:
    unpack(version, tmp_path, "network")
    finished(fedmpi("run", "network.h5", "-o", "new.h5"))
    same_run(tmp_path / "new.h5", EXPECTED[version]["network"])


@each_version
def test_run_again_in_python(tmp_path: Path, version: str) -> None:
    for name in (name for name in EXPECTED[version] if name.startswith("quadratic-")):
        (path,) = unpack(version, tmp_path, name)
        with open_record(path) as record:
            run(record.config, out=tmp_path / f"new-{name}.h5")
        same_run(tmp_path / f"new-{name}.h5", EXPECTED[version][name])
