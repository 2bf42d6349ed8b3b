"""The runs of a report: read from their records, checked to belong to one experiment, and grouped by scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.config import Config, declared_keys
from fedmpi.errors import ConfigError, RecordError
from fedmpi.record import open_record
from fedmpi.record.schema import DONE
from fedmpi.report.format import printable
from fedmpi.sampling import SCHEMES

LONGEST_LABEL = 22
"""Characters of the longest label in a figure."""
# Settings that define the problem: where they differ, losses cannot be compared.
EXPERIMENT_KEYS = ("data.", "model.", "sampling.importance", "eval.max_samples")
# Settings that may differ between the runs of one group.
FREE_KEYS = ("run.", "record.", "eval.every", "sampling.scheme", "sweep.")


@dataclass(frozen=True, eq=False)
class Run:
    """One run, read from its record, which is closed again. The arrays are those of fedmpi.record.Record."""

    path: Path
    config: Config
    attributes: Mapping[str, Any]
    status: str
    message: str
    rounds: NDArray[Any]
    evals: NDArray[Any]
    cohorts: NDArray[Any]
    clients: Mapping[str, NDArray[Any]]
    ranks: Mapping[str, NDArray[Any]]
    d: int
    clock_error: float | None

    @property
    def scheme(self) -> str:
        return self.config.sampling.scheme

    @property
    def seed(self) -> int:
        return self.config.run.seed

    @property
    def size(self) -> int:
        return len(self.ranks["host"])

    @property
    def settings(self) -> dict[str, Any]:
        """Every key of the config, and the number of ranks."""
        return {**flat(self.config), "ranks": self.size}


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one scheme that differ only in their seeds: `runs` are averaged, `left_out` are not.

    variant: 0 for the first group of its scheme, 1 for the next one (another m, say), and so on.
    """

    label: str
    scheme: str
    variant: int
    runs: tuple[Run, ...]
    left_out: tuple[Run, ...]

    @property
    def short_label(self) -> str:
        """The label for figures: only the class name of an own scheme, and at most LONGEST_LABEL characters."""
        text = self.label.removeprefix(self.scheme.rpartition(":")[0] + ":")
        return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]


@dataclass(frozen=True, eq=False)
class Study:
    """All runs of one experiment, one group per scheme, and the group that the others are compared with."""

    groups: tuple[Group, ...]
    reference: Group

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in (*group.runs, *group.left_out)]

    @property
    def first(self) -> Run:
        return self.runs[0]


def read_study(paths: Sequence[str | Path], reference: str | None = None) -> Study:
    """The study of these records. Raises RecordError if they do not belong to one experiment."""
    runs = [read_run(Path(path)) for path in paths]
    for run in runs[1:]:
        check_same_experiment(runs[0], run)
    groups = grouped(runs)
    return Study(groups, reference_group(groups, reference))


def read_run(path: Path) -> Run:
    """The run in a record, as far as it is recorded now. Raises RecordError if the record cannot be read."""
    with open_record(path) as record:
        clocks = record.table("/ranks/clock_error") if record.has("/ranks/clock_error") else np.zeros(0)
        return Run(
            path=path,
            config=record.config,
            attributes=record.attributes,
            status=record.status,
            message=record.message,
            rounds=record.rounds,
            evals=record.evals,
            cohorts=record.cohorts,
            clients=record.clients,
            ranks=record.ranks,
            d=record.d,
            clock_error=float(np.nanmax(np.abs(clocks))) if np.isfinite(clocks).any() else None,
        )


def flat(config: Config) -> dict[str, Any]:
    """Every setting by its dotted key."""
    return {key: getattr(getattr(config, key.split(".")[0]), key.split(".")[1]) for key, _ in declared_keys()}


def check_same_experiment(one: Run, other: Run) -> None:
    ours, theirs = one.settings, other.settings
    for key in ours:
        if key.startswith(EXPERIMENT_KEYS) and ours[key] != theirs[key]:
            raise RecordError(
                f"{one.path} and {other.path} belong to different experiments ({key} = {ours[key]} and {theirs[key]}): "
                "make a report for each"
            )
    if not np.array_equal(one.clients["p"], other.clients["p"]):
        raise RecordError(
            f"{one.path} and {other.path} differ in the importances of their clients: make a report for each"
        )


def grouped(runs: Sequence[Run]) -> tuple[Group, ...]:
    """The runs grouped by scheme and varying settings; schemes in the registry's order, own schemes last."""
    varying = varying_keys(runs)
    members: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        members.setdefault((run.scheme, *variant_of(run, varying).values()), []).append(run)
    for same in members.values():
        check_distinct(same)
    known = list(SCHEMES)
    ordered = sorted(members, key=lambda k: (known.index(k[0]) if k[0] in known else len(known), *map(sortable, k)))
    groups: list[Group] = []
    for key in ordered:
        same = sorted(members[key], key=lambda run: run.seed)
        used = [run for run in same if run.status == DONE] or [run for run in same if len(run.rounds)]
        left_out = tuple(run for run in same if run not in used)
        variant = sum(group.scheme == key[0] for group in groups)
        groups.append(Group(label_of(same[0], varying), key[0], variant, tuple(used), left_out))
    return tuple(groups)


def varying_keys(runs: Sequence[Run]) -> list[str]:
    """The settings in which the runs differ, without FREE_KEYS."""
    first = runs[0].settings
    return [
        key for key in first if not key.startswith(FREE_KEYS) and any(run.settings[key] != first[key] for run in runs)
    ]


def variant_of(run: Run, varying: Sequence[str]) -> dict[str, str]:
    """The varying settings of a run that its scheme uses: `full` does not use m."""
    return {key: str(run.settings[key]) for key in varying if not (key == "sampling.m" and run.scheme == "full")}


def label_of(run: Run, varying: Sequence[str]) -> str:
    """The label of a run's group: "md", or "md, m = 4" where m varies."""
    settings = [f"{key.split('.')[-1]} = {value}" for key, value in variant_of(run, varying).items()]
    return printable(", ".join([run.scheme, *settings]))


def sortable(text: str) -> tuple[float, str]:
    """A sort key: numbers by value, then words."""
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def check_distinct(runs: Sequence[Run]) -> None:
    seen: dict[int, Run] = {}
    for run in runs:
        if run.seed in seen:
            raise RecordError(
                f"{seen[run.seed].path} and {run.path} are the same run ({run.scheme}, seed {run.seed}): "
                "leave one of them out"
            )
        seen[run.seed] = run


def reference_group(groups: Sequence[Group], name: str | None) -> Group:
    """The group with that label or scheme; by default md, or the first group without md."""
    for group in groups:
        if name in (group.label, group.scheme) or (name is None and group.scheme == "md"):
            return group
    if name is None:
        return groups[0]
    known = ", ".join(group.label for group in groups)
    raise ConfigError(f"--reference {name}: no record has this scheme; the records have {known}")
