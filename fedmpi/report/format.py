"""Numbers and names as text: units, ± and characters that a terminal can show. Imports the standard library only."""

from __future__ import annotations

import math
import unicodedata

MOST_DIGITS = 7
"""A number with more digits than this is written with an exponent."""

STEPS = {
    "B": ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")),
    "s": ((1e-6, "µs"), (1e-3, "ms"), (1, "s")),
}


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


def scale(value: float, unit: str) -> tuple[float, str]:
    """(factor, unit) that show a number of bytes or seconds with few digits before the point: 1234 B is 1.234 kB."""
    if unit not in STEPS:
        return 1.0, unit
    fitting = [step for step in STEPS[unit] if abs(value) >= step[0] * 0.9995]
    factor, name = fitting[-1] if fitting else STEPS[unit][0]
    return 1 / factor, name


def plus_minus(mean: float, half: float | None = None, unit: str = "") -> str:
    """12.3 ± 0.4 kB: the half-width to two digits and the mean as far; four digits where there is no half-width."""
    if not math.isfinite(mean):
        return "–"
    if mean == 0 and not half:
        return "0"
    factor, unit = scale(mean, unit)
    mean *= factor
    after = f" {unit}" if unit else ""
    if not half or not math.isfinite(half):
        return f"{mean:.4g}".replace("-", "−") + after
    half *= factor
    places = max(0, 1 - math.floor(math.log10(half)))
    text = f"{mean:.{places}f} ± {half:.{places}f}"
    if places > MOST_DIGITS or max(abs(mean), half) >= 10**MOST_DIGITS:
        text = f"{mean:.4g} ± {half:.1e}"
    return text.replace("-", "−") + after


def printable(text: str) -> str:
    """The text with control characters replaced: a record from elsewhere could send them to the terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def display_width(text: str) -> int:
    """The number of columns that a text takes in a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
