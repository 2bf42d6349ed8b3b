"""A round's wall time divided into phases that do not overlap and leave nothing out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

PHASES = ("sample", "down", "wait", "up", "aggregate", "evaluate", "record")

Interval = tuple[float, float]


def divide(start: float, end: float, spans: Mapping[str, Sequence[Interval]]) -> dict[str, float]:
    """Seconds of each phase between start and end; see `partition`."""
    seconds = dict.fromkeys(PHASES, 0.0)
    for phase, (a, b) in partition(start, end, spans):
        seconds[phase] += b - a
    return seconds


def partition(start: float, end: float, spans: Mapping[str, Sequence[Interval]]) -> list[tuple[str, Interval]]:
    """The time between start and end as intervals that do not overlap, each with its phase.

    spans: what was seen, as intervals that may overlap. Where they do, θ on its way down comes first, then
    updates on their way up, then what the server itself was doing: an update in flight is `up` even while the
    server adds another. What nothing covers is `wait`.
    """
    parts: list[tuple[str, Interval]] = []
    covered: list[Interval] = []
    for phase in ("down", "up", "sample", "aggregate", "evaluate", "record"):
        clipped = [(max(a, start), min(b, end)) for a, b in spans.get(phase, ())]
        parts += [(phase, gap) for a, b in union(clipped) for gap in gaps(a, b, covered)]
        covered = union([*covered, *clipped])
    return parts + [("wait", gap) for gap in gaps(start, end, covered)]


def gaps(start: float, end: float, covered: Iterable[Interval]) -> list[Interval]:
    """What sorted intervals leave of the time between start and end."""
    left = []
    for a, b in covered:
        if b <= start:
            continue
        if a >= end:
            break
        if start < a:
            left.append((start, a))
        start = b
    return [*left, (start, end)] if start < end else left


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points in sorted intervals that do not touch."""
    merged: list[Interval] = []
    for a, b in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged
