"""What a worker does when, for `fedmpi run --profile`: spans of time on its own clock, collected only if asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

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
