"""When a rank did what: spans of time, and a round's wall time divided into phases that leave nothing out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

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


# float64 numbers of a span: what, client, start, end.
SPAN = 4


class Doing(IntEnum):
    """What a span of a worker's time was spent on."""

    IDLE = 0  # waiting for an order
    RECEIVE = 1  # waiting for θ, and receiving it
    TRAIN = 2
    SEND = 3  # waiting for an earlier update to leave, compressing, handing over
    PROBE = 4  # training or looking at losses before the draw
    EVALUATE = 5
    CLOCKS = 6  # answering the ping-pong that compares clocks


class Spans:
    """This rank's spans since they were last taken."""

    def __init__(self, now: Callable[[], float], wanted: bool) -> None:
        self.now, self.wanted = now, wanted
        self.rows: list[tuple[float, float, float, float]] = []

    def add(self, doing: Doing, start: float, end: float, client: int = -1) -> None:
        if self.wanted:
            self.rows.append((doing, client, start, end))

    @contextmanager
    def during(self, doing: Doing, client: int = -1) -> Iterator[None]:
        began = self.now()
        yield
        self.add(doing, began, self.now(), client)

    def take(self) -> NDArray[np.float64]:
        """The spans so far: (k, SPAN). They are forgotten here."""
        rows, self.rows = self.rows, []
        return np.array(rows, np.float64).reshape(-1, SPAN)
