"""Numbers and tables as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def byte_size(count: float) -> str:
    """12.3 MB: three digits and a decimal unit."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def seconds(value: float) -> str:
    """1.25 s, 3.1 ms, 42 µs."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(columns(line[k]) for line in lines) for k in range(len(header))]
    rule = "  ".join("─" * width for width in widths)
    text = [
        "  ".join(pad(cell, width, k == 0) for k, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
    return "\n".join([text[0], rule, *text[1:]])


def pad(cell: str, width: int, left: bool) -> str:
    space = " " * (width - columns(cell))
    return cell + space if left else space + cell


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
