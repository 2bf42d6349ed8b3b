"""The sentences of a report: what was run and where, the outcome, how to repeat it, and what the terms mean."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import numpy as np

from fedmpi.comm.timeline import PHASES
from fedmpi.config.toml import toml_value
from fedmpi.record.schema import DONE, FAILED, RUNNING, STOPPED, TABLES
from fedmpi.report.curves import difference, last
from fedmpi.report.format import byte_size, plus_minus, printable, seconds
from fedmpi.report.results import note
from fedmpi.report.study import Run, Study, flat

CONFIG_FILE = "config.toml"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def experiment(study: Study) -> str:
    """The experiment in one paragraph."""
    config, run = study.first.config, study.first
    n, p = len(run.clients["p"]), config.sampling.importance
    importance = {"ratio": "in proportion to their samples", "uniform": "all equal"}.get(
        str(p), "as given in the config"
    )
    seeds = sorted({r.seed for r in study.runs})
    varied = {
        key: sorted({str(r.settings[key]) for r in study.runs}) for key in ("sampling.m", "client.K", "client.eta_l")
    }
    m, K, eta_l = (" or ".join(values) for values in varied.values())
    return (
        f"{count(len(study.groups), 'sampling scheme')} on {config.data.name}: n = {n} clients with importances "
        f"{importance}, m = {m}, {count(len(seeds), 'seed')} ({numbers(seeds)}). The model is {config.model.name} with "
        f"{run.d:,} parameters, {byte_size(4 * run.d)} each way per client. Each client takes K = {K} local steps of "
        f"batch size B = {config.client.B} with η_l = {eta_l}; the server's step size is η_g = {config.server.eta_g:g}."
    )


def provenance(study: Study) -> list[tuple[str, str]]:
    """Hosts, ranks, libraries and dates, as (name, value)."""
    runs = study.runs
    devices = sorted({d.decode(errors="replace") for run in runs for d in run.ranks["device"]} - {""})
    errors = [run.clock_error for run in runs if run.clock_error is not None]
    libraries = sorted({library.splitlines()[0].split(",")[0] for library in distinct(runs, "mpi_library")})
    facts = [
        ("ranks", " or ".join(map(str, sorted({run.size for run in runs})))),
        ("hosts", ", ".join(sorted({host for run in runs for host in texts(run.attributes.get("hosts"))}))),
        ("devices", ", ".join(devices)),
        ("MPI", "; ".join(libraries)),
        ("fedmpi", ", ".join(distinct(runs, "software_version"))),
        *[(name, ", ".join(distinct(runs, f"{name}_version"))) for name in ("torch", "numpy", "h5py", "mpi4py")],
        ("runs started", " to ".join(map(date, ends(distinct(runs, "created"))))),
        ("clock error", f"at most {seconds(max(errors))} between ranks" if errors else ""),
    ]
    return [(name, printable(value)) for name, value in facts if value]


def outcome(study: Study) -> list[str]:
    """One sentence per scheme: is its final loss below the reference's, and is the difference more than noise?"""
    reference = study.reference
    sentences = []
    for group in study.groups:
        if group is reference:
            continue
        band = difference(reference, group)
        end = last(band)
        if band is None or end is None:
            sentences.append(
                f"{group.label} cannot be compared with {reference.label}: no seed of both has an evaluation."
            )
            continue
        side = "below" if end.mean > 0 else "above"
        gap = plus_minus(abs(end.mean), end.half)
        start = f"After {band.x[-1]:.0f} rounds the loss of {group.label} is {gap} {side} that of {reference.label}"
        if end.half is None:
            sentences.append(f"{start} for one seed; more seeds are needed to distinguish this from noise.")
        elif end.excludes_zero:
            sentences.append(f"{start} (95 % interval over {end.k} paired seeds).")
        else:
            sentences.append(f"{start}; with {end.k} paired seeds this cannot be distinguished from noise.")
    return sentences


def warnings(study: Study) -> list[str]:
    """One sentence for each record that is unfinished, was left out or has no evaluations."""
    found = []
    for group in study.groups:
        for run in (*group.runs, *group.left_out):
            remark = note(run, run in group.runs)
            if remark:
                rounds = f"{len(run.rounds)} of {run.config.run.T} rounds"
                name = f"{run.path.name} ({group.label}, seed {run.seed})"
                found.append(printable(f"{name} {progress(run.status, rounds)}: {remark}."))
    return found


def progress(status: str, rounds: str) -> str:
    """How far a run came, as the middle of a sentence."""
    verbs = {
        DONE: f"is complete, with {rounds}",
        FAILED: f"failed after {rounds}",
        STOPPED: f"was stopped after {rounds}",
        RUNNING: f"has {rounds}",
    }
    return verbs.get(status, f"has the status {status!r} and {rounds}")


def repeat_commands(study: Study) -> list[str]:
    """The commands that repeat every run, given the first run's config as CONFIG_FILE."""
    base = flat(study.first.config)
    lines = []
    for run in study.runs:
        settings = flat(run.config)
        changes = [
            f"-s {shlex.quote(f'{key}={value_text(settings[key])}')}" for key in settings if settings[key] != base[key]
        ]
        launch = f"mpirun -n {run.size} " if run.size > 1 else ""
        command = [f"{launch}fedmpi run {CONFIG_FILE}", *changes, f"-o {shlex.quote(run.path.name)}"]
        lines.append(printable(" ".join(command)))
    return lines


def recorded_commands(study: Study) -> list[str]:
    """The commands that the records contain, without the directory that fedmpi was installed in."""
    kept = {" ".join(["fedmpi", *str(run.attributes.get("command", "")).split()[1:]]): None for run in study.runs}
    return [printable(command) for command in kept]


def glossary() -> list[tuple[str, str]]:
    """(term, meaning), partly from the record's own descriptions."""
    fields = {field.name: field.meaning for field in TABLES["/rounds"].fields}
    return [
        ("loss", "Σ pᵢ Lᵢ(θ): the clients' training losses, weighted by their importances"),
        ("accuracy", "share of correct predictions on the clients' test data, with the same weights"),
        ("N", fields["N"]),
        ("Σω", f"{fields['sum_omega']}; it need not be 1, and it is never rescaled"),
        (
            "logical bytes",
            "what the federation moves: |θ| down to each client that is called, |θ| up from each that takes part",
        ),
        ("wire bytes", "what MPI was given to send: θ once per rank, for all its clients, and every update"),
        ("communication time", "down + up: the time in which θ or some update is on its way"),
        ("±, band", "95 % confidence interval of the mean over seeds (Student's t); a single seed has none"),
        ("law", "what the scheme's theory says about N, Σω and the share of rounds of each client"),
    ]


def phase_meanings() -> list[tuple[str, str]]:
    """(phase, meaning), from the record's own descriptions."""
    fields = {field.name: field.meaning for field in TABLES["/rounds"].fields}
    return [(phase, fields[f"time_{phase}"]) for phase in PHASES]


def rank_meanings() -> list[tuple[str, str]]:
    """(what a rank does, meaning)."""
    return [
        ("compute", "training its clients"),
        ("send", "waiting for an earlier update to leave"),
        ("idle", "waiting for the server's next message and for θ"),
    ]


def value_text(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)


def texts(values: Any) -> list[str]:
    return [str(value) for value in np.atleast_1d(values)] if values is not None else []


def distinct(runs: Sequence[Run], key: str) -> list[str]:
    """The different values of an attribute, sorted."""
    found = {str(run.attributes[key]).strip() for run in runs if isinstance(run.attributes.get(key), str)}
    return sorted(found - {""})


def ends(values: Sequence[str]) -> Iterable[str]:
    """The first and the last value."""
    return values if len(values) < 2 else (values[0], values[-1])


def date(text: str) -> str:
    """18 Nov 2026, 10:35 UTC, of a time in ISO 8601; other text as it is."""
    try:
        found = datetime.fromisoformat(text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return text
    return f"{found.day} {MONTHS[found.month - 1]} {found.year}, {found:%H:%M} UTC"


def count(k: int, noun: str) -> str:
    return f"{k} {noun}" if k == 1 else f"{k} {noun}s"


def numbers(values: Sequence[int]) -> str:
    """1–4 for consecutive numbers, else 1, 3, 7."""
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]}–{values[-1]}"
    return ", ".join(map(str, values))
