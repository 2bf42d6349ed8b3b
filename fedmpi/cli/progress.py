"""The progress of a run on stderr: one line that is redrawn on a terminal, some plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from fedmpi.report.format import byte_size, seconds

if TYPE_CHECKING:
    from fedmpi.job.outcome import Outcome

BAR = 20
# If stderr is not a terminal, about this many lines in a whole run.
LINES = 20


class Progress:
    """Prints each finished round: loss, N, bytes and the seconds of the phases."""

    def __init__(self, T: int, quiet: bool = False, runs: int = 1) -> None:
        """T: rounds of all runs together. A single run is counted by its own round numbers, also when resumed."""
        self.T, self.quiet, self.runs = T, quiet, runs
        self.stream = sys.stderr
        self.terminal = self.stream.isatty()
        self.began = time.monotonic()
        self.loss = float("nan")
        self.counted = 0

    def update(self, outcome: Outcome) -> None:
        if self.quiet:
            return
        if outcome.evaluation:
            self.loss = outcome.evaluation.loss
        self.counted += 1
        done = outcome.t + 1 if self.runs == 1 else self.counted
        if self.terminal:
            self.stream.write(f"\r\x1b[K{self.line(outcome, done)}")
        elif done == self.T or done % max(1, self.T // LINES) == 0:
            self.stream.write(self.line(outcome, done) + "\n")
        self.stream.flush()

    def line(self, outcome: Outcome, done: int) -> str:
        left = (time.monotonic() - self.began) / max(1, self.counted) * (self.T - done)
        filled = BAR * done // self.T
        bar = f"{'█' * filled}{'·' * (BAR - filled)} " if self.terminal else ""
        moved = outcome.ledger.down + outcome.ledger.up
        phases = outcome.phases
        times = "  ".join(f"{phase} {seconds(phases[phase])}" for phase in ("down", "wait", "up"))
        return (
            f"{bar}round {done}/{self.T}  loss {self.loss:.4f}  N {len(outcome.cohort)}  {byte_size(moved)}"
            f"  {times}  left {left:.0f} s"
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.terminal and not self.quiet:
            self.stream.write("\n")
            self.stream.flush()
