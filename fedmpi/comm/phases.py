"""A round's wall time divided into phases that do not overlap and leave nothing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

PHASES = ("sample", "down", "wait", "up", "aggregate", "evaluate", "record")

Interval = tuple[float, float]


def divide(start: float, end: float, spans: Mapping[str, Sequence[Interval]]) -> dict[str, float]:
    """Seconds of each phase between start and end.

    spans: what was seen, as intervals that may overlap. Where they do, θ on its way down comes first, then
    updates on their way up, then what the server itself was doing: an update in flight is `up` even while the
    server adds another. What nothing covers is `wait`.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    covered: list[Interval] = []
    for phase in ("down", "up", "sample", "aggregate", "evaluate", "record"):
        clipped = ((max(a, start), min(b, end)) for a, b in spans.get(phase, ()))
        together = union([*covered, *clipped])
        seconds[phase] = length(together) - length(covered)
        covered = together
    seconds["wait"] = end - start - length(covered)
    return seconds


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points in sorted intervals that do not touch."""
    merged: list[Interval] = []
    for a, b in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(b - a for a, b in intervals)
