"""A report on disk: each figure and table in its own files, and a page that shows them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedmpi.errors import ConfigError, RecordError
from fedmpi.report import results
from fedmpi.report.draws import draws_of
from fedmpi.report.figures import draw_all
from fedmpi.report.page import PageContent, page
from fedmpi.report.study import read_study
from fedmpi.report.tables import Table
from fedmpi.report.target import default_target
from fedmpi.report.text import CONFIG_FILE, warnings

PAGE = "index.html"


@dataclass(frozen=True)
class WrittenReport:
    """What was written: the page, the tables by name, and warnings about the records."""

    page: Path
    tables: dict[str, Table]
    warnings: list[str]


def write_report(
    records: Sequence[str | Path], directory: str | Path, reference: str | None = None, target: float | None = None
) -> WrittenReport:
    """Read the records and write their report into the directory. Other files in it are left alone."""
    if target is not None and not math.isfinite(target):
        raise ConfigError(f"--target {target}: must be a finite number")
    study = read_study(records, reference)
    directory = Path(directory)
    drawn = [draws_of(group) for group in study.groups]
    goal = default_target(study.groups) if target is None else target
    made = (
        results.headline(study),
        results.to_target(study, goal),
        results.phases(study),
        results.traffic(study),
        results.cohorts(drawn),
        results.participation(drawn),
        results.ranks(study),
        results.records(study),
    )
    tables = {table.name: table for table in made}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for table in made:
            write_table(table, directory)
        (directory / CONFIG_FILE).write_text(study.first.config.to_toml(), encoding="utf-8")
        pictures = draw_all(study, drawn, directory)
        text = page(PageContent(study, drawn, pictures, tables))
        (directory / PAGE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot write the report to {directory}: {error.strerror or error}") from None
    return WrittenReport(directory / PAGE, tables, warnings(study))


def write_table(table: Table, directory: Path) -> None:
    for suffix, content in (
        ("txt", f"{table.text()}\n\n{table.caption}\n"),
        ("csv", table.csv()),
        ("tex", table.latex()),
    ):
        (directory / f"{table.name}.{suffix}").write_text(content, encoding="utf-8")
