"""Summaries of records for the terminal: `fedmpi show`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedmpi.comm.timeline import PHASES
from fedmpi.record import Record
from fedmpi.record.schema import STOPPED
from fedmpi.report.format import byte_size, printable, seconds
from fedmpi.report.tables import text_table


def comparison(records: Sequence[Record]) -> str:
    """One row per record: rounds, mean N, bytes per round both ways, mean seconds per phase and round, last loss."""
    header = ["scheme", "rounds", "mean N", "down/round", "up/round", *PHASES, "loss", "status"]
    return text_table(header, [summary_row(record) for record in records])


def summary_row(record: Record) -> list[str]:
    rounds, scheme, status = record.rounds, printable(record.config.sampling.scheme), printable(record.status)
    if not len(rounds):
        return [scheme, "0", *["–"] * (3 + len(PHASES)), last_loss(record), status]
    means = {name: float(values.mean()) for name, values in record.phases.items()}
    return [
        scheme,
        str(len(rounds)),
        f"{rounds['N'].mean():.2f}",
        byte_size(rounds["down_bytes_logical"].mean()),
        byte_size(rounds["up_bytes_logical"].mean()),
        *[seconds(means[phase]) for phase in PHASES],
        last_loss(record),
        status,
    ]


def last_loss(record: Record) -> str:
    return f"{record.evals['loss'][-1]:.4f}" if len(record.evals) else "–"


def balance(record: Record) -> str:
    """How evenly the training was spread over the ranks that host clients; "" if no client has trained."""
    busy = record.ranks["compute_time"]
    hosting = busy.any(axis=0)
    mean = busy[:, hosting].mean(axis=1) if hosting.any() else busy[:, :0].sum(axis=1)
    trained = mean > 0
    if not trained.any():
        return ""
    ratio = float(np.median(busy[trained].max(axis=1) / mean[trained]))
    ranks = f"{hosting.sum()} {'rank' if hosting.sum() == 1 else 'ranks'}"
    slowest = f"the slowest rank trained {ratio:.2f} × the mean time (median over rounds)"
    return f"{record.config.comm.placement} over {ranks}: {slowest}"


def about(record: Record) -> str:
    """What was run, where, and how many bytes it moved."""
    config, rounds = record.config, record.rounds
    known = ("created", "software_version", "command", "mpi_size", "mpi_library")
    created, version, command, size, library = (record.attributes.get(name, "?") for name in known)
    hosts = ", ".join(str(host) for host in np.atleast_1d(record.attributes.get("hosts", "?")))
    data = f"{config.data.name}, n = {config.data.n}; model {config.model.name}, {record.d:,} parameters"
    lines = [
        f"{record.path}: {config.run.name}, {record.status}, {record.rounds_done} of {config.run.T} rounds",
        f"created   {created} by fedmpi {version}: {command}",
        f"where     {size} ranks on {hosts}; {str(library).partition(chr(10))[0]}",
        f"data      {data}",
        f"sampling  {config.sampling.scheme}, m = {config.sampling.m}, p {config.sampling.importance}",
        f"client    K = {config.client.K}, B = {config.client.B}, η_l = {config.client.eta_l}, μ = {config.client.mu}",
    ]
    for direction in ("down", "up"):
        logical, wire = (int(rounds[f"{direction}_bytes_{ledger}"].sum()) for ledger in ("logical", "wire"))
        lines.append(f"{direction:<9} {byte_size(logical)} logical, {byte_size(wire)} on the wire")
    if imbalance := balance(record):
        lines.append(f"balance   {imbalance}")
    if record.message and record.status == STOPPED:
        lines.append(f"stopped   {record.message.removeprefix('stopped ')}")
    elif record.message:
        lines.append(f"failure   {record.message}")
    return "\n".join(map(printable, lines))
