"""The tables of a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fedmpi.comm.timeline import PHASES
from fedmpi.record.schema import DONE
from fedmpi.report.curves import AXES, BYTES, ROUNDS, SECONDS, difference, last, mean_curve
from fedmpi.report.draws import Draws
from fedmpi.report.statistics import Estimate, Floats, estimate, wilson
from fedmpi.report.study import Group, Run, Study
from fedmpi.report.tables import Cell, Column, Table
from fedmpi.report.target import reach

SCHEME = Column("scheme", "scheme", words=True)
RANK_TIMES = ("compute", "send", "idle")


def headline(study: Study) -> Table:
    """The main comparison: final loss and accuracy of each scheme, and its cost per round."""
    reference = study.reference
    with_accuracy = any(mean_curve(group, ROUNDS, "accuracy") for group in study.groups)
    with_difference = len(study.groups) > 1
    columns = [
        SCHEME,
        Column("final_loss", "final loss", interval=True),
        *[Column("final_accuracy", "final accuracy", interval=True)] * with_accuracy,
        *[Column("loss_of_reference_minus_loss", f"loss below {reference.short_label}", interval=True)]
        * with_difference,
        Column("N", "mean N", interval=True),
        Column("per_round", "bytes/round", "B", interval=True),
        Column("communication_per_round", "comm. time/round", "s", interval=True),
        Column("rounds", "rounds"),
        Column("seeds", "seeds"),
    ]
    rows = []
    for group in study.groups:
        gap = None if group is reference else last(difference(reference, group))
        rows.append(
            (
                group.label,
                last(mean_curve(group, ROUNDS)),
                *[last(mean_curve(group, ROUNDS, "accuracy"))] * with_accuracy,
                *[gap] * with_difference,
                per_round(group, "N"),
                per_round(group, *BYTES.columns),
                per_round(group, *SECONDS.columns),
                rounds_of(group),
                len(group.runs),
            )
        )
    caption = "Mean over seeds ± 95 % interval. Bytes are logical, down + up; communication time is down + up."
    return Table("schemes", caption, tuple(columns), tuple(rows))


def traffic(study: Study) -> Table:
    """Logical and wire bytes per round."""
    names = {
        "down_bytes_logical": "logical down",
        "up_bytes_logical": "logical up",
        "down_bytes_wire": "wire down",
        "up_bytes_wire": "wire up",
        "control_bytes_wire": "wire control",
    }
    columns = tuple(Column(key.replace("_bytes", ""), title, "B", interval=True) for key, title in names.items())
    rows = tuple((group.label, *[per_round(group, key) for key in names]) for group in study.groups)
    return Table("bytes", "Bytes per round: mean over seeds ± 95 % interval.", (SCHEME, *columns), rows)


def phases(study: Study) -> Table:
    """Seconds per round of each phase."""
    names = (*PHASES, "total")
    columns = tuple(Column(name, name, "s", interval=True) for name in names)
    rows = tuple((group.label, *[per_round(group, f"time_{name}") for name in names]) for group in study.groups)
    return Table("phases", "Seconds per round: mean over seeds ± 95 % interval.", (SCHEME, *columns), rows)


def to_target(study: Study, target: float | None) -> Table:
    """Rounds, bytes and seconds until the loss is first at most the target."""
    if target is None:
        return Table("target", "No run was evaluated, so there is no loss to reach.", (SCHEME,), ())
    titles = {ROUNDS.name: "rounds", BYTES.name: "bytes", SECONDS.name: "communication time"}
    columns = [Column(f"{axis.name}_to_target", titles[axis.name], axis.unit, interval=True) for axis in AXES]
    rows = []
    for group in study.groups:
        found = reach(group, target)
        costs = [found.costs.get(axis.name) for axis in AXES]
        rows.append((group.label, *costs, f"{found.reached} of {found.seeds}"))
    caption = (
        f"Cost until the loss is first at most {target:.6g}: mean over seeds ± 95 % interval, interpolated linearly "
        "between evaluations. There is no mean where a seed does not reach it."
    )
    return Table("target", caption, (SCHEME, *columns, Column("reached", "seeds that reach it")), tuple(rows))


def cohorts(drawn: Sequence[Draws]) -> Table:
    """Mean and standard deviation of N and Σω, as drawn and by the law."""
    columns = (
        SCHEME,
        Column("N_mean", "mean N"),
        Column("N_mean_law", "mean N, law"),
        Column("N_sd", "sd of N"),
        Column("N_sd_law", "sd of N, law"),
        Column("sum_omega_mean", "mean Σω"),
        Column("sum_omega_mean_law", "mean Σω, law"),
        Column("sum_omega_sd", "sd of Σω"),
        Column("sum_omega_sd_law", "sd of Σω, law"),
    )
    rows = []
    for d in drawn:
        law: list[Cell] = [None] * 4
        if d.law is not None:
            sd = None if d.law.var_N is None else float(np.sqrt(max(0.0, d.law.var_N)))
            law = [d.law.mean_N, sd, float(d.law.p.sum()), float(np.sqrt(max(0.0, d.law.var_sum)))]
        observed = [f(x) if len(x) else None for x in (d.N, d.sum_omega) for f in (mean, sd_of)]
        rows.append((d.group.label, *[cell for pair in zip(observed, law, strict=True) for cell in pair]))
    caption = "N and Σω over all rounds of all seeds, and what the scheme's law says."
    return Table("draws", caption, columns, tuple(rows))


def participation(drawn: Sequence[Draws]) -> Table:
    """Every client's share of the rounds, for each scheme."""
    columns = (
        SCHEME,
        Column("client", "client"),
        Column("name", "name", words=True),
        Column("n_samples", "n_i"),
        Column("p", "p_i"),
        Column("share", "share of rounds"),
        Column("share_low", "95 % low"),
        Column("share_high", "95 % high"),
        Column("share_law", "share, law"),
    )
    rows: list[tuple[Cell, ...]] = []
    for d in drawn:
        if not d.rounds:
            continue
        clients = d.group.runs[0].clients
        low, high = wilson(d.counts, d.rounds)
        for i, name in enumerate(clients["name"]):
            share = (float(d.counts[i] / d.rounds), float(low[i]), float(high[i]))
            law = None if d.law is None else float(d.law.inclusion[i])
            who = (i, name.decode(errors="replace"), int(clients["n_samples"][i]), float(clients["p"][i]))
            rows.append((d.group.label, *who, *share, law))
    caption = "Share of the rounds in which each client took part, its 95 % interval, and what the law says."
    return Table("clients", caption, columns, tuple(rows))


def ranks(study: Study) -> Table:
    """Placement of the clients, and the time of each rank per round."""
    columns = (
        SCHEME,
        Column("rank", "rank"),
        Column("host", "host", words=True),
        Column("device", "device", words=True),
        Column("clients", "clients"),
        *[Column(name, f"{name}/round", "s", interval=True) for name in RANK_TIMES],
    )
    rows: list[tuple[Cell, ...]] = []
    for group in study.groups:
        for rank in range(group.runs[0].size if group.runs else 0):
            first = group.runs[0]
            host, device = (first.ranks[key][rank].decode(errors="replace") for key in ("host", "device"))
            times = [over_runs(group, partial(rank_time, name=name, rank=rank)) for name in RANK_TIMES]
            hosted = int((first.clients["rank"] == rank).sum())
            rows.append((group.label, rank, host, device or "server", hosted, *times))
    caption = "Seconds per round of each rank; the clients are those of the first seed."
    return Table("ranks", caption, columns, tuple(rows))


def records(study: Study) -> Table:
    """Every record with its status, its rounds, and whether it is averaged."""
    names = ("record", "scheme", "seed", "status", "rounds", "evaluations", "note")
    columns = tuple(Column(key, key, words=key in ("record", "scheme", "seed", "status", "note")) for key in names)
    rows = []
    for group in study.groups:
        for run in (*group.runs, *group.left_out):
            rounds = f"{len(run.rounds)} of {run.config.run.T}"
            row = (
                run.path.name,
                group.label,
                run.seed,
                run.status,
                rounds,
                len(run.evals),
                note(run, run in group.runs),
            )
            rows.append(row)
    return Table("records", "The records this report was made from.", columns, tuple(rows))


def note(run: Run, used: bool) -> str:
    """What a reader must know about an unfinished or unevaluated record; "" for others."""
    parts = ["" if used else "left out of all averages"]
    if run.status != DONE:
        parts.append(run.message or "still running, or killed")
    if not len(run.evals):
        parts.append("no evaluations")
    return "; ".join(part for part in parts if part)


def per_round(group: Group, *columns: str) -> Estimate | None:
    """The mean over seeds of the mean per round of the sum of these columns of /rounds."""
    return over_runs(group, lambda run: float(sum(run.rounds[name].mean() for name in columns)))


def over_runs(group: Group, value: Callable[[Run], float]) -> Estimate | None:
    values = [value(run) for run in group.runs if len(run.rounds)]
    return estimate(values) if values else None


def rank_time(run: Run, name: str, rank: int) -> float:
    return float(run.ranks[f"{name}_time"][:, rank].mean())


def rounds_of(group: Group) -> str:
    """The number of rounds: 100, or 20–100 if the runs differ."""
    done = sorted(len(run.rounds) for run in group.runs)
    return "–" if not done else str(done[0]) if done[0] == done[-1] else f"{done[0]}–{done[-1]}"


def mean(x: Floats) -> float:
    return float(x.mean())


def sd_of(x: Floats) -> float | None:
    return float(x.std(ddof=1)) if len(x) > 1 else None
