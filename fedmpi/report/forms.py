"""A table of results in the forms people take it away in: text, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedmpi.report.statistics import Estimate
from fedmpi.report.tables import plus_minus, printable
from fedmpi.report.tables import table as aligned

Cell = str | int | float | Estimate | None

LATEX = {
    **{c: f"\\{c}" for c in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "≤": r"$\leq$",
    "µ": r"$\mu$",
    "Σ": r"$\Sigma$",
    "ω": r"$\omega$",
    "θ": r"$\theta$",
    "–": "--",
}


@dataclass(frozen=True)
class Column:
    """key: its name in the CSV. unit: B and s are scaled for reading, and never in the CSV."""

    key: str
    title: str
    unit: str = ""
    interval: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. caption: one sentence. name: of its files."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def text(self) -> str:
        """Aligned columns, for the terminal."""
        return aligned([column.title for column in self.columns], self.shown())

    def csv(self) -> str:
        """One line per row, numbers whole and in base units; KEY_low and KEY_high hold the 95 % interval."""
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n").writerow
        write([name for column in self.columns for name in csv_names(column)])
        for row in self.rows:
            write([value for cell, column in zip(row, self.columns, strict=True) for value in csv_values(cell, column)])
        return out.getvalue()

    def latex(self) -> str:
        """A tabular; the document needs \\usepackage{booktabs}."""
        lines = [
            "% needs \\usepackage{booktabs}",
            f"% {latex_escape(self.caption)}",
            f"\\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            "\\toprule",
            " & ".join(latex_escape(column.title) for column in self.columns) + " \\\\",
            "\\midrule",
            *[" & ".join(latex_escape(cell) for cell in row) + " \\\\" for row in self.shown()],
            "\\bottomrule",
            "\\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def html(self, chip: Callable[[str], str] = lambda label: "") -> str:
        """A <table>; chip gives the mark put before a row's name."""
        head = "".join(f'<th scope="col">{html.escape(column.title)}</th>' for column in self.columns)
        body = "".join(
            f'<tr><th scope="row">{chip(row[0])}{html.escape(row[0])}</th>'
            + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
            + "</tr>\n"
            for row in self.shown()
        )
        label = html.escape(self.caption)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
            f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
        )

    def shown(self) -> list[list[str]]:
        """Every cell as it is read."""
        return [[show(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows]


def show(cell: Cell, column: Column) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, Estimate):
        return plus_minus(cell.mean, cell.half, column.unit)
    if isinstance(cell, float):
        return plus_minus(cell, None, column.unit)
    return printable(str(cell))


def csv_names(column: Column) -> list[str]:
    key = f"{column.key}_{ {'B': 'bytes', 's': 'seconds'}[column.unit] }" if column.unit else column.key
    return [key, f"{key}_low", f"{key}_high"] if column.interval else [key]


def csv_values(cell: Cell, column: Column) -> Sequence[str]:
    if isinstance(cell, Estimate):
        known = cell.half is not None
        values = [repr(cell.mean), repr(cell.low) if known else "", repr(cell.high) if known else ""]
    elif cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        values = ["", "", ""]
    else:
        values = [repr(cell) if isinstance(cell, float) else printable(str(cell)), "", ""]
    return values if column.interval else values[:1]


def latex_escape(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in text)
