"""Every dataset and column of a record, declared once: the writer, the reader and `docs/record.md` follow this table.

A new column is one line here, and one where it is written; nothing else in this folder changes. A file written before
the column existed reads as the column's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.timeline import PHASES

FORMAT = "fedmpi-record"
# Readers open every file with the same major version, and new columns or datasets do not change that version.
FORMAT_VERSION = "1.0"

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"

DIMENSIONS = {"n": "clients", "d": "parameters", "size": "ranks"}
GROWING_DIMENSIONS = {"T": "rounds", "C": "participations", "E": "evaluations", "H": "kept θ", "V": "events"}
# The dataset whose length is the dimension.
LENGTH_OF = {"n": "/clients/p", "d": "/model/theta", "size": "/ranks/host"}

# What a reader returns for a column that a file lacks, by the kind of its dtype.
DEFAULTS = {"f": float("nan"), "i": -1, "S": b""}
# No run takes longer or moves more in a round. Sums and means of larger values could overflow.
MAX_SECONDS = 1e12
MAX_BYTES = 2**52
INFINITE = float("inf")


@dataclass(frozen=True)
class Field:
    """A column of a table, or the values of a dataset that is no table.

    low, high: the range of the values; a file with values outside of it is damaged. essential: a file without this
    column is damaged; any other column that a file lacks reads as `default`, which is also a valid value in the file.
    """

    name: str
    dtype: str
    unit: str
    symbol: str
    meaning: str
    low: float = -INFINITE
    high: float = INFINITE
    essential: bool = False
    default: Any = None

    def __post_init__(self) -> None:
        if self.default is None:
            object.__setattr__(self, "default", DEFAULTS[np.dtype(self.dtype).kind])


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset: its path, the names of its dimensions, and its columns (a single one without a name if it is no
    table). per_client: written only with record.per_client = true."""

    path: str
    shape: tuple[str, ...]
    fields: tuple[Field, ...]
    meaning: str
    per_client: bool = False

    @property
    def growing(self) -> bool:
        """Whether rows are appended to it during the run."""
        return bool(self.shape) and self.shape[0] in GROWING_DIMENSIONS

    @property
    def essential(self) -> bool:
        """Whether a file without this dataset is damaged; any other dataset that a file lacks reads as defaults."""
        return any(field.essential for field in self.fields)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        if self.fields[0].name:
            return np.dtype([(field.name, field.dtype) for field in self.fields])
        return np.dtype(self.fields[0].dtype)


def plain(
    path: str,
    shape: tuple[str, ...],
    dtype: str,
    unit: str,
    symbol: str,
    meaning: str,
    per_client: bool = False,
    **more: Any,
) -> DatasetSpec:
    """A dataset that is no table. more: further arguments of its Field."""
    return DatasetSpec(path, shape, (Field("", dtype, unit, symbol, meaning, **more),), meaning, per_client)


def seconds(name: str, meaning: str, **more: Any) -> Field:
    """A column of measured times or durations."""
    return Field(name, "<f8", "s", "", meaning, -MAX_SECONDS, MAX_SECONDS, **more)


def simulated_seconds(name: str, meaning: str) -> Field:
    """A column of durations in the network of [network], whose links may be arbitrarily slow."""
    return Field(name, "<f8", "s", "", meaning)


def byte_count(name: str, meaning: str, **more: Any) -> Field:
    """A column of numbers of bytes."""
    return Field(name, "<i8", "B", "", meaning, 0, MAX_BYTES, **more)


def rank_seconds(path: str, meaning: str) -> DatasetSpec:
    """A dataset of measured durations per round and rank."""
    return DatasetSpec(path, ("T", "size"), (seconds("", meaning, essential=True),), meaning)


PER_CLIENT = "; with record.per_client = true"
PHASE_MEANINGS = {
    "sample": "drawing S_t and ω",
    "down": "from the server's first send of θᵗ until the last worker has received it",
    "wait": "server waiting for workers, or training clients of its own, while no update is in flight",
    "up": "at least one update in flight: posted by its worker and not yet complete on the server",
    "aggregate": "adding updates while none is in flight, and the server's step",
    "evaluate": "evaluating θ on the clients' data",
    "record": "writing the previous round's rows while neither θ nor an update is in flight",
}

SCHEMA = (
    plain("/clients/n_samples", ("n",), "<i8", "samples", "n_i", "training samples per client", low=0, essential=True),
    plain("/clients/p", ("n",), "<f8", "1", "p_i", "importance of each client", low=0, high=1, essential=True),
    plain("/clients/rank", ("n",), "<i4", "", "", "rank to which each client is assigned", low=0, essential=True),
    plain("/clients/name", ("n",), "S64", "", "", "name of each client, in UTF-8"),
    DatasetSpec(
        "/rounds",
        ("T",),
        (
            Field("t", "<i8", "rounds", "t", "round number, from 0", essential=True),
            seconds("wall_time", "start of the round, counted from the start of the first round", essential=True),
            Field("N", "<i8", "clients", "N", "number of distinct clients that took part", essential=True),
            Field("sum_omega", "<f8", "1", "Σω_i", "sum of the aggregation weights", essential=True),
            Field("update_norm", "<f8", "1", "‖θᵗ⁺¹−θᵗ‖", "Euclidean norm of the server's step"),
            Field("rejected", "<i8", "clients", "", "updates left out because they were not finite"),
            byte_count(
                "down_bytes_logical",
                "sent down in a federation: θ to each client of S_t, or to each probed one",
                essential=True,
            ),
            byte_count(
                "up_bytes_logical",
                "sent up in a federation: the updates of S_t, and 8 bytes per number of a probed client",
                essential=True,
            ),
            byte_count("down_bytes_wire", "θ as handed to MPI, counted once per receiving rank", essential=True),
            byte_count("up_bytes_wire", "updates as handed to MPI by the workers", essential=True),
            byte_count("control_bytes_wire", "orders, per-client results and reports as handed to MPI", essential=True),
            *[seconds(f"time_{phase}", PHASE_MEANINGS[phase], essential=True) for phase in PHASES],
            seconds("time_total", "wall time of the round: the sum of its phases", essential=True),
            seconds("skew", "training time of the slowest rank minus the mean over the ranks that host clients"),
            seconds("clock_error", "largest error bound of a worker's clock: post times and phases may be off by it"),
            simulated_seconds("virtual_total", "simulated duration of the round in [network]; NaN without it"),
            simulated_seconds("virtual_down", "of virtual_total: θ travels to virtual_straggler"),
            simulated_seconds("virtual_compute", "of virtual_total: virtual_straggler trains"),
            simulated_seconds(
                "virtual_up", "of virtual_total: its update waits for the server's link and travels back"
            ),
            Field("virtual_straggler", "<i8", "", "i", "the last client to finish in [network]; −1 without it"),
            Field(
                "cohort_end",
                "<i8",
                "rows",
                "",
                "rows cohort_end[t-1]:cohort_end[t] of /cohorts belong to round t",
                essential=True,
            ),
        ),
        "one row per round",
    ),
    DatasetSpec(
        "/cohorts",
        ("C",),
        (
            Field("t", "<i8", "rounds", "t", "round number, from 0", essential=True),
            Field("client", "<i8", "", "i", "client number, from 0", essential=True),
            Field("omega", "<f8", "1", "ω_i", "aggregation weight", essential=True),
            Field("rank", "<i4", "", "", "rank that trained the client"),
            Field("train_loss", "<f8", "1", "", "mean loss over the K local steps"),
            Field("delta_norm", "<f8", "1", "‖Δ_i‖", "Euclidean norm of the update"),
            seconds("compute_time", "duration of local training", essential=True),
            seconds("post_time", "when the worker handed the update to MPI, counted from the start of the round"),
            seconds("arrive_time", "when the update was complete on the server, counted from the start of the round"),
        ),
        "one row per round and participating client, in ascending order of clients within a round",
    ),
    DatasetSpec(
        "/evals",
        ("E",),
        (
            Field("t", "<i8", "rounds", "t", "rounds done when θᵗ was evaluated; 0 for θ⁰", low=0, essential=True),
            Field("loss", "<f8", "1", "Σ p_i L_i(θᵗ)", "mean training loss, weighted by p", essential=True),
            Field("accuracy", "<f8", "1", "", "mean test accuracy, weighted by p; NaN without test data"),
        ),
        "one row per evaluation",
    ),
    plain(
        "/evals_client_loss",
        ("E", "n"),
        "<f4",
        "1",
        "L_i(θᵗ)",
        f"training loss per client{PER_CLIENT}",
        per_client=True,
    ),
    plain(
        "/evals_client_accuracy", ("E", "n"), "<f4", "1", "", f"test accuracy per client{PER_CLIENT}", per_client=True
    ),
    plain("/ranks/host", ("size",), "S256", "", "", "host name of each rank", essential=True),
    plain("/ranks/device", ("size",), "S64", "", "", "torch device of each rank; empty if it trains no client"),
    plain("/ranks/clock_offset", ("size",), "<f8", "s", "", "each rank's clock minus the server's, as last measured"),
    plain("/ranks/clock_error", ("size",), "<f8", "s", "", "error bound of clock_offset: half the smallest round trip"),
    rank_seconds("/ranks/compute_time", "local training, per round and rank"),
    rank_seconds("/ranks/idle_time", "waiting for orders and θ, per round and rank"),
    rank_seconds("/ranks/send_time", "waiting until an earlier update has been sent, per round and rank"),
    plain("/model/theta", ("d",), "<f4", "1", "θ", "the last θ that was recorded", essential=True),
    plain("/model/theta_t", (), "<i8", "rounds", "t", "rounds done when /model/theta was recorded"),
    plain("/model/history", ("H", "d"), "<f4", "1", "θᵗ", "θᵗ every record.theta_every rounds"),
    plain("/model/history_t", ("H",), "<i8", "rounds", "t", "rounds done at each row of /model/history"),
    plain("/rounds_done", (), "<i8", "rounds", "", "committed rounds; rows of later ones are not read", essential=True),
    DatasetSpec(
        "/events",
        ("V",),
        (
            Field("t", "<i8", "rounds", "t", "rounds done at the time of the event"),
            seconds("wall_time", "when it happened, on the scale of wall_time in /rounds"),
            Field("kind", "S16", "", "", "resumed (by a later job), or lost (a rank failed, the others went on)"),
            Field("rank", "<i4", "", "", "the rank that was lost; −1 for other events"),
            seconds("seconds", "time until the run went on"),
            Field("note", "S256", "", "", "free text, in UTF-8"),
        ),
        "one row per event of the run that is not a round",
    ),
    plain("/status", (), "S16", "", "", "running (or killed), done, failed, or stopped by a signal", essential=True),
    plain("/message", (), "S1024", "", "", "the reason, if the run failed or was stopped"),
)

TABLES = {dataset.path: dataset for dataset in SCHEMA}


def row(path: str, **values: Any) -> NDArray[Any]:
    """One row of a table, (1,); every column must be given."""
    dtype = TABLES[path].dtype
    if set(values) != set(dtype.names or ()):
        raise TypeError(f"{path}: columns {set(values) ^ set(dtype.names or ())} are missing or unknown")
    return np.array([tuple(values[name] for name in dtype.names or ())], dtype)
