"""Tables: the one renderer of text tables, and a table of results that is written as text, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fedmpi.report.format import display_width, plus_minus, printable
from fedmpi.report.statistics import Estimate

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


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int] = (0,), markdown: bool = False
) -> str:
    """Aligned columns under a header and a rule, for a terminal or as Markdown.

    left: the columns that are aligned to the left; the others, which hold numbers, are aligned to the right.
    """
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(display_width(line[k]) for line in lines) for k in range(len(header))]
    cells = [[pad(cell, widths[k], k in left) for k, cell in enumerate(line)] for line in lines]
    if markdown:
        rule = "|".join(":" + "-" * (w + 1) if k in left else "-" * (w + 1) + ":" for k, w in enumerate(widths))
        head, *body = [f"| {' | '.join(line)} |" for line in cells]
        return "\n".join([head, f"|{rule}|", *body])
    head, *body = ["  ".join(line).rstrip() for line in cells]
    return "\n".join([head, "  ".join("─" * width for width in widths), *body])


def pad(cell: str, width: int, left: bool) -> str:
    space = " " * (width - display_width(cell))
    return cell + space if left else space + cell


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: its name in the CSV. unit: B and s are scaled in text and LaTeX, never in the CSV. interval: its cells are
    estimates with an interval. words: its cells are names or sentences, which are aligned to the left and may wrap.
    """

    key: str
    title: str
    unit: str = ""
    interval: bool = False
    words: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. caption: one sentence. name: the name of its files."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def titles(self) -> list[str]:
        return [column.title for column in self.columns]

    def text(self) -> str:
        """Aligned columns, for the terminal."""
        left = [k for k, column in enumerate(self.columns) if column.words]
        return text_table(self.titles, self.shown(), left)

    def csv(self) -> str:
        """One line per row, numbers in full and in base units; KEY_low and KEY_high hold the 95 % interval."""
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
            f"\\begin{{tabular}}{{{''.join('l' if column.words else 'r' for column in self.columns)}}}",
            "\\toprule",
            " & ".join(latex_escape(title) for title in self.titles) + " \\\\",
            "\\midrule",
            *[" & ".join(latex_escape(cell) for cell in row) + " \\\\" for row in self.shown()],
            "\\bottomrule",
            "\\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def shown(self) -> list[list[str]]:
        """Every cell as text."""
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
