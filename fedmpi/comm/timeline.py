"""When a rank did what: spans of time on its clock, and a round's wall time divided into phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

# The phases of a round on the server. They do not overlap and add up to the round's wall time.
PHASES = ("sample", "down", "wait", "up", "aggregate", "evaluate", "record")
# Which of two overlapping phases counts, the first one first; `wait` is what nothing covers.
PRECEDENCE = ("down", "up", "sample", "aggregate", "evaluate", "record")

Interval = tuple[float, float]
What = TypeVar("What", bound=str | IntEnum)


class Activity(IntEnum):
    """What a worker spends time on."""

    IDLE = 0  # waiting for a command
    RECEIVE = 1  # waiting for θ, and receiving it
    TRAIN = 2
    SEND = 3  # waiting for an earlier update to leave, compressing, handing over
    PROBE = 4  # training or evaluating losses before the draw
    EVALUATE = 5
    CLOCKS = 6  # answering the ping-pong that compares clocks


# One span of a worker's time as it travels to the server.
SPAN = np.dtype([("activity", "<f8"), ("client", "<f8"), ("start", "<f8"), ("end", "<f8")])


class Timeline(Generic[What]):
    """Spans of time on one rank: what it did, for which client (−1: none), from when to when.

    The server keeps one per round, of phases; a worker keeps one of activities, if the run is profiled.
    """

    def __init__(self, now: Callable[[], float], enabled: bool = True) -> None:
        self.now, self.enabled = now, enabled
        self.start = now()
        self.spans: list[tuple[What, int, float, float]] = []

    def add(self, what: What, start: float, end: float, client: int = -1) -> None:
        if self.enabled:
            self.spans.append((what, client, start, end))

    @contextmanager
    def during(self, what: What, client: int = -1) -> Iterator[None]:
        """Add a span that lasts as long as the block."""
        start = self.now()
        yield
        self.add(what, start, self.now(), client)

    def intervals(self) -> dict[What, list[Interval]]:
        """The spans by what they were spent on."""
        found: dict[What, list[Interval]] = {}
        for what, _, start, end in self.spans:
            found.setdefault(what, []).append((start, end))
        return found

    def take(self) -> NDArray[np.void]:
        """The spans so far, as SPAN; they are forgotten here."""
        spans, self.spans = self.spans, []
        return np.array(spans, SPAN)


def divide(start: float, end: float, spans: Mapping[str, Sequence[Interval]]) -> dict[str, float]:
    """Seconds of each phase between start and end; see `partition`."""
    seconds = dict.fromkeys(PHASES, 0.0)
    for phase, (a, b) in partition(start, end, spans):
        seconds[phase] += b - a
    return seconds


def partition(start: float, end: float, spans: Mapping[str, Sequence[Interval]]) -> list[tuple[str, Interval]]:
    """The time between start and end as intervals that do not overlap, each with its phase.

    spans: what was measured, as intervals that may overlap. Where they do, PRECEDENCE decides: θ on its way down comes
    first, then updates on their way up, then what the server itself did, so that an update in flight is `up` even while
    the server adds another. What nothing covers is `wait`.
    """
    parts: list[tuple[str, Interval]] = []
    covered: list[Interval] = []
    for phase in PRECEDENCE:
        clipped = [(max(a, start), min(b, end)) for a, b in spans.get(phase, ())]
        parts += [(phase, gap) for a, b in union(clipped) for gap in gaps(a, b, covered)]
        covered = union([*covered, *clipped])
    return parts + [("wait", gap) for gap in gaps(start, end, covered)]


def gaps(start: float, end: float, covered: Iterable[Interval]) -> list[Interval]:
    """What sorted intervals leave of the time between start and end."""
    free = []
    for a, b in covered:
        if b <= start:
            continue
        if a >= end:
            break
        if start < a:
            free.append((start, a))
        start = b
    return [*free, (start, end)] if start < end else free


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same points in sorted intervals that do not touch."""
    merged: list[Interval] = []
    for a, b in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged
