"""Tiny records with numbers one can check by hand, for the tests of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedmpi.config import Config
from fedmpi.record import RecordWriter
from fedmpi.record.schema import DONE, FAILED, STOPPED, TABLES, row

SIZES = (4, 2, 2)
NAMES = ("a", "b", "c")
D = 5
PHASES = ("sample", "down", "wait", "up", "aggregate", "evaluate", "record")


def start_record(
    path: Path, scheme: str, seed: int, T: int, settings: Mapping[str, Any] | None = None, names: Sequence[str] = NAMES
) -> RecordWriter:
    """A record of three clients on two ranks, before its first round."""
    settings = {
        "run.T": T,
        "run.seed": seed,
        "sampling.scheme": scheme,
        "sampling.m": 2,
        "data.n": 3,
        **(settings or {}),
    }
    contents = {
        "/clients/n_samples": np.array(SIZES),
        "/clients/p": np.array(SIZES) / sum(SIZES),
        "/clients/rank": np.array([1, 1, 1]),
        "/clients/name": [name.encode() for name in names],
        "/ranks/host": [b"here", b"there"],
        "/ranks/device": [b"", b"cpu"],
        "/model/theta": np.zeros(D),
    }
    attributes = {"mpi_library": "Some MPI v1, built somewhere", "mpi_size": 2, "hosts": ["here", "there"]}
    sizes = {"n": 3, "d": D, "size": 2}
    return RecordWriter(path, Config.from_toml("", settings), sizes, contents, attributes)


def add_round(writer: RecordWriter, t: int, clients: Sequence[int], cohort_end: int, scale: float = 1.0) -> None:
    """Round t: 20 bytes each way per client; its phases last 1, 2, …, 7 times `scale` seconds, so 6 of down and up."""
    omega = np.full(len(clients), 0.5)
    seconds = {f"time_{phase}": (k + 1) * scale for k, phase in enumerate(PHASES)}
    moved = 4 * D * len(clients)
    writer.append(
        "/rounds",
        row(
            "/rounds",
            **dict.fromkeys(TABLES["/rounds"].dtype.names, 0)
            | {
                "t": t,
                "N": len(clients),
                "sum_omega": omega.sum(),
                "down_bytes_logical": moved,
                "up_bytes_logical": moved,
                "down_bytes_wire": 4 * D,
                "up_bytes_wire": moved,
                "time_total": sum(seconds.values()),
                "cohort_end": cohort_end,
                **seconds,
            },
        ),
    )
    rows = np.zeros(len(clients), TABLES["/cohorts"].dtype)
    rows["t"], rows["client"], rows["omega"], rows["rank"] = t, clients, omega, 1
    writer.append("/cohorts", rows)
    for name, value in (("compute", 3.0), ("idle", 2.0), ("send", 1.0)):
        writer.append(f"/ranks/{name}_time", np.array([[0.0, value * scale]]))
    writer.commit(t + 1)


def add_evaluation(writer: RecordWriter, t: int, loss: float, accuracy: float = float("nan")) -> None:
    writer.append("/evals", row("/evals", t=t, loss=loss, accuracy=accuracy))


def make_record(
    path: Path,
    scheme: str = "md",
    seed: int = 1,
    losses: Sequence[float] = (8.0, 4.0, 2.0),
    *,
    cohorts: Sequence[Sequence[int]] | None = None,
    scale: float = 1.0,
    failure: str = "",
    stopped: str = "",
    T: int | None = None,
    settings: Mapping[str, Any] | None = None,
    names: Sequence[str] = NAMES,
    rounds: int | None = None,
    accuracy: float = float("nan"),
) -> Path:
    """A closed record: losses[t] after t rounds, and by default clients 0 and 1 in every round."""
    if cohorts is None:
        cohorts = [(0, 1)] * (len(losses) - 1 if rounds is None else rounds)
    with start_record(path, scheme, seed, len(cohorts) if T is None else T, settings, names) as writer:
        if losses:
            add_evaluation(writer, 0, losses[0], accuracy)
        end = 0
        for t, clients in enumerate(cohorts):
            end += len(clients)
            if len(losses) > t + 1:
                add_evaluation(writer, t + 1, losses[t + 1], accuracy)
            add_round(writer, t, clients, end, scale)
        writer.close(FAILED if failure else STOPPED if stopped else DONE, failure or stopped)
    return path
