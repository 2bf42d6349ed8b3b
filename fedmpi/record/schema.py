"""Everything a record holds, declared once: the file, its attributes and the README's table are made from this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "fedmpi-record"
FORMAT_VERSION = "1.0"

RUNNING, DONE, FAILED, STOPPED = "running", "done", "failed", "stopped"


@dataclass(frozen=True)
class Field:
    """A column of a table, or what the cells of a plain dataset are."""

    name: str
    dtype: str
    unit: str
    symbol: str
    meaning: str


@dataclass(frozen=True)
class Dataset:
    """One dataset: its path, the names of its dimensions, and its columns (one without a name if it is no table).

    Dimensions: n clients, d parameters, size ranks; T, E, C, H, V grow with rounds, evaluations, participations, kept
    θ and events. `growing` datasets have such a first dimension.
    """

    path: str
    shape: tuple[str, ...]
    fields: tuple[Field, ...]
    meaning: str
    optional: bool = False

    @property
    def growing(self) -> bool:
        return bool(self.shape) and self.shape[0] in ("T", "E", "C", "H", "V")

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.fields[0].name:
            return np.dtype([(field.name, field.dtype) for field in self.fields])
        return np.dtype(self.fields[0].dtype)


def plain(path: str, shape: tuple[str, ...], dtype: str, unit: str, symbol: str, meaning: str, **more: Any) -> Dataset:
    return Dataset(path, shape, (Field("", dtype, unit, symbol, meaning),), meaning, **more)


def seconds(name: str, meaning: str) -> Field:
    return Field(name, "<f8", "s", "", meaning)


def byte_count(name: str, meaning: str) -> Field:
    return Field(name, "<i8", "B", "", meaning)


SCHEMA = (
    plain("/clients/n_samples", ("n",), "<i8", "samples", "n_i", "training samples of each client"),
    plain("/clients/p", ("n",), "<f8", "1", "p_i", "importance of each client"),
    plain("/clients/rank", ("n",), "<i4", "", "", "rank that is home to each client"),
    plain("/clients/name", ("n",), "S64", "", "", "name of each client (UTF-8)"),
    Dataset(
        "/rounds",
        ("T",),
        (
            Field("t", "<i8", "rounds", "t", "round number, from 0"),
            seconds("wall_time", "when the round began, since the first one did"),
            Field("N", "<i8", "clients", "N", "distinct clients that took part"),
            Field("sum_omega", "<f8", "1", "Σω_i", "sum of the aggregation weights"),
            Field("update_norm", "<f8", "1", "‖θᵗ⁺¹−θᵗ‖", "length of the server's step"),
            Field("rejected", "<i8", "clients", "", "updates left out because they were not finite"),
            byte_count("down_bytes_logical", "what the federation sends down: |θ| to each client that is called"),
            byte_count(
                "up_bytes_logical", "what the federation sends up: an update per client in S_t, and probed scalars"
            ),
            byte_count("down_bytes_wire", "θ as handed to MPI, counted once per receiving rank"),
            byte_count("up_bytes_wire", "updates as handed to MPI by the workers"),
            byte_count("control_bytes_wire", "orders, rows and reports as handed to MPI, both ways"),
            seconds("time_sample", "drawing S_t and ω"),
            seconds("time_down", "from the first byte of θᵗ sent to the last worker holding it"),
            seconds("time_wait", "server waiting for workers, or training clients of its own, no update in flight"),
            seconds("time_up", "at least one update in flight: posted by its worker, not yet complete here"),
            seconds("time_aggregate", "adding updates while none is in flight, and stepping θ"),
            seconds("time_evaluate", "evaluating"),
            seconds("time_record", "writing the previous round's rows, where that was not hidden by the above"),
            seconds("time_total", "wall time of the round: the sum of the seven phases"),
            seconds("skew", "training time of the slowest rank less the mean over the ranks that host clients"),
            seconds("clock_error", "largest bound on a worker's clock error: post times and phases may be off by it"),
            seconds("virtual_total", "what the round would take in the federation of [network]; NaN without it"),
            seconds("virtual_down", "of that, θ on its way to the client that was last"),
            seconds("virtual_compute", "of that, its training"),
            seconds("virtual_up", "of that, its update on the way back, and waiting for the server's link"),
            Field("virtual_straggler", "<i8", "", "i", "the client that was last there; −1 for none"),
            Field(
                "cohort_end", "<i8", "rows", "", "round t's clients are rows cohort_end[t-1]:cohort_end[t] of /cohorts"
            ),
        ),
        "one row per round",
    ),
    Dataset(
        "/cohorts",
        ("C",),
        (
            Field("t", "<i8", "rounds", "t", "round number"),
            Field("client", "<i8", "", "i", "client, from 0"),
            Field("omega", "<f8", "1", "ω_i", "aggregation weight"),
            Field("rank", "<i4", "", "", "rank that trained it"),
            Field("train_loss", "<f8", "1", "", "mean loss over the K local steps"),
            Field("delta_norm", "<f8", "1", "‖Δ_i‖", "length of the update"),
            seconds("compute_time", "local training"),
            seconds("post_time", "when the worker handed the update to MPI, since the round began"),
            seconds("arrive_time", "when it was complete on the server, since the round began"),
        ),
        "one row per participating client and round, clients ascending within a round",
    ),
    Dataset(
        "/evals",
        ("E",),
        (
            Field("t", "<i8", "rounds", "t", "rounds done when θᵗ was evaluated; 0 is θ⁰"),
            Field("loss", "<f8", "1", "Σ p_i L_i(θᵗ)", "loss over the clients' training data"),
            Field("accuracy", "<f8", "1", "", "share of correct predictions over their test data, p-weighted"),
        ),
        "one row per evaluation",
    ),
    plain("/evals_client_loss", ("E", "n"), "<f4", "1", "L_i(θᵗ)", "every client's training loss", optional=True),
    plain("/evals_client_accuracy", ("E", "n"), "<f4", "1", "", "every client's test accuracy", optional=True),
    plain("/ranks/host", ("size",), "S256", "", "", "host name of each rank"),
    plain("/ranks/device", ("size",), "S64", "", "", "torch device of each rank; empty if it trains nobody"),
    plain("/ranks/clock_offset", ("size",), "<f8", "s", "", "what each rank's clock showed more than the server's"),
    plain("/ranks/clock_error", ("size",), "<f8", "s", "", "half the smallest round trip of that measurement"),
    plain("/ranks/compute_time", ("T", "size"), "<f8", "s", "", "local training, per round and rank"),
    plain("/ranks/idle_time", ("T", "size"), "<f8", "s", "", "waiting for orders and θ, per round and rank"),
    plain(
        "/ranks/send_time", ("T", "size"), "<f8", "s", "", "waiting for an earlier update to leave, per round and rank"
    ),
    plain("/model/theta", ("d",), "<f4", "1", "θ", "the last θ that was recorded"),
    plain("/model/theta_t", (), "<i8", "rounds", "t", "rounds done when /model/theta was recorded"),
    plain("/model/history", ("H", "d"), "<f4", "1", "θᵗ", "θᵗ every record.theta_every rounds"),
    plain("/model/history_t", ("H",), "<i8", "rounds", "t", "rounds done at each row of /model/history"),
    plain("/rounds_done", (), "<i8", "rounds", "", "the commit mark: rows of rounds below it are whole"),
    Dataset(
        "/events",
        ("V",),
        (
            Field("t", "<i8", "rounds", "t", "rounds done when it happened"),
            seconds("wall_time", "when, on the scale of /rounds"),
            Field("kind", "S16", "", "", "resumed, or lost: a rank died and the others went on"),
            Field("rank", "<i4", "", "", "the rank that was lost; −1 if it is not about one"),
            seconds("seconds", "how long it took until the run went on"),
            Field("note", "S256", "", "", "what is to be said about it"),
        ),
        "what happened to the run besides its rounds",
    ),
    plain("/status", (), "S16", "", "", "running, done, failed or stopped (by a signal)"),
    plain("/message", (), "S1024", "", "", "why, if it failed or was stopped"),
)

TABLES = {dataset.path: dataset for dataset in SCHEMA}


def row(path: str, **values: Any) -> NDArray[Any]:
    """One row of a table, with every column given."""
    dtype = TABLES[path].dtype
    if set(values) != set(dtype.names or ()):
        raise TypeError(f"{path}: columns {set(values) ^ set(dtype.names or ())} are missing or unknown")
    return np.array([tuple(values[name] for name in dtype.names or ())], dtype)
