"""Numbers as text, and tables as text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io

import pytest

from fedmpi.report.format import plus_minus, printable, scale
from fedmpi.report.statistics import Estimate
from fedmpi.report.tables import Column, Table, text_table

HOSTILE = "<script>alert(1)</script>&_%$\"'\x1b[31m"


@pytest.mark.parametrize(
    ("mean", "half", "unit", "shown"),
    [
        (12345.0, 456.0, "B", "12.35 ± 0.46 kB"),
        (2.5034, 0.1299, "", "2.50 ± 0.13"),
        (0.0042, None, "s", "4.2 ms"),
        (4.0, 0.0, "", "4"),
        (-0.012, 0.11, "", "−0.01 ± 0.11"),
        (1234.0, 120.0, "", "1234 ± 120"),
        (0.0, None, "s", "0"),
        (float("nan"), None, "", "–"),
        (1e90, 3e88, "", "1e+90 ± 3.0e+88"),
        (2.0, 4e-16, "", "2 ± 4.0e−16"),
    ],
)
def test_plus_minus(mean: float, half: float | None, unit: str, shown: str) -> None:
    assert plus_minus(mean, half, unit) == shown


def test_scale_picks_the_unit() -> None:
    assert scale(1.5e6, "B") == (1e-6, "MB")
    assert scale(3e-4, "s") == (pytest.approx(1e6), "µs")
    assert scale(90.0, "s") == (1.0, "s")
    assert scale(7.0, "") == (1.0, "")


def test_printable_takes_the_escape_out() -> None:
    assert "\x1b" not in printable(HOSTILE)
    assert printable("clé Σω") == "clé Σω"


TABLE = Table(
    "t",
    "A caption.",
    (
        Column("scheme", "scheme", words=True),
        Column("loss", "final loss", interval=True),
        Column("moved", "bytes", "B"),
        Column("N", "N"),
    ),
    (
        ("md", Estimate(2.0, 0.5, 3), 1500.0, 4),
        ("a_b & 50 %", Estimate(1.0), None, 5),
    ),
)


def test_csv_holds_whole_numbers_and_the_interval() -> None:
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [
        ["scheme", "loss", "loss_low", "loss_high", "moved_bytes", "N"],
        ["md", "2.0", "1.5", "2.5", "1500.0", "4"],
        ["a_b & 50 %", "1.0", "", "", "", "5"],
    ]


def test_text_is_aligned() -> None:
    lines = TABLE.text().splitlines()
    assert lines[0] == "scheme       final loss   bytes  N"
    assert lines[2] == "md          2.00 ± 0.50  1.5 kB  4"
    assert lines[3] == "a_b & 50 %            1       –  5"


def test_latex_is_escaped() -> None:
    lines = TABLE.latex().splitlines()
    assert lines[2] == r"\begin{tabular}{lrrr}"
    assert lines[6] == r"md & 2.00 $\pm$ 0.50 & 1.5 kB & 4 \\"
    assert lines[7] == r"a\_b \& 50 \% & 1 & -- & 5 \\"


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    rows = [["文字", "1", "a"], ["é", "23", "bc"]]
    assert text_table(["name", "N", "note"], rows, left=(0, 2)).splitlines() == [
        "name   N  note",
        "────  ──  ────",
        "文字   1  a",
        "é     23  bc",
    ]


def test_markdown_says_how_columns_are_aligned() -> None:
    assert text_table(["scheme", "N"], [["md", "12"]], markdown=True).splitlines() == [
        "| scheme |  N |",
        "|:-------|---:|",
        "| md     | 12 |",
    ]
