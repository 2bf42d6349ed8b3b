"""The report as one HTML page that needs no other file.

report.html is its template, macros.html what the template is made of, report.css its stylesheet.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import fedmpi
from fedmpi.report import text
from fedmpi.report.draws import Draws
from fedmpi.report.figures import Picture
from fedmpi.report.figures.style import line_style
from fedmpi.report.format import printable
from fedmpi.report.statistics import Estimate
from fedmpi.report.study import Study
from fedmpi.report.tables import Cell, Column, Table, show

MOST_ROWS = 400
"""Longer tables are in their files only."""

MOST_UNFOLDED = 24
"""Longer tables of ranks are folded away."""

LONGEST_WORD = 22
"""Longer words in a table may break anywhere, so that they leave the other columns room."""

# No script, no connection: what the page may do, should someone slip markup into a record after all.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class PageContent:
    """What the page shows."""

    study: Study
    drawn: Sequence[Draws]
    pictures: Sequence[Picture]
    tables: Mapping[str, Table]


def page(content: PageContent) -> str:
    """The whole document."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(values(content))


def values(content: PageContent) -> dict[str, Any]:
    """Everything that the template names."""
    from markupsafe import Markup

    study = content.study
    name = printable(study.first.config.run.name)
    return {
        "title": f"{name}: {text.count(len(study.groups), 'sampling scheme')}" + " compared" * (len(study.groups) > 1),
        "policy": POLICY,
        "stylesheet": Markup(files(__name__).joinpath("report.css").read_text(encoding="utf-8")),
        "version": fedmpi.__version__,
        "records": text.count(len(study.runs), "record"),
        "experiment": text.experiment(study),
        "warnings": text.warnings(study),
        "reference": study.reference.label,
        "outcome": text.outcome(study),
        "verdicts": [sentence for drawn in content.drawn for sentence in drawn.sentences],
        "phase_meanings": text.phase_meanings(),
        "rank_meanings": text.rank_meanings(),
        "glossary": text.glossary(),
        "provenance": text.provenance(study),
        "repeat": text.repeat_commands(study),
        "recorded": text.recorded_commands(study),
        "config": study.first.config.to_toml(),
        "config_file": text.CONFIG_FILE,
        "pictures": pictures_by_subject(content.pictures),
        "tables": {name: table_view(table) for name, table in content.tables.items()},
        "colours": {group.label: line_style(group).colour for group in study.groups},
        "most_rows": MOST_ROWS,
        "most_unfolded": MOST_UNFOLDED,
    }


SUBJECTS = ("loss", "accuracy", "difference", "phases", "draws", "participation", "ranks")


def pictures_by_subject(pictures: Sequence[Picture]) -> dict[str, list[dict[str, str]]]:
    """The pictures of each section: the first word of a picture's name says which."""
    return {
        subject: [picture_view(picture) for picture in pictures if picture.name.split("-")[0] == subject]
        for subject in SUBJECTS
    }


def picture_view(picture: Picture) -> dict[str, str]:
    return {
        "name": picture.name,
        "title": picture.title,
        "caption": picture.caption,
        "alt": picture.alt,
        "base64": base64.b64encode(picture.svg).decode(),
    }


def table_view(table: Table) -> dict[str, Any]:
    """A table as the template shows it: its caption, columns, and rows of cells."""
    rows = [[cell_view(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    return {"caption": table.caption, "columns": table.columns, "rows": rows}


def cell_view(cell: Cell, column: Column) -> dict[str, Any]:
    """A cell's text; the interval of an estimate is apart, because it may go to a second line. long: it may break."""
    shown = show(cell, column)
    mean, _, half = shown.partition(" ± ") if isinstance(cell, Estimate) else (shown, "", "")
    long = max(map(len, shown.split()), default=0) > LONGEST_WORD
    return {"text": mean, "interval": half, "words": column.words, "long": long}
