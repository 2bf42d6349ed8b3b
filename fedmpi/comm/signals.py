"""Signals: the first one is noted, and acted on where the record is consistent; a second one acts at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Signals by which users, schedulers and Slurm's --signal end a job.
CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# mpirun and Slurm may both forward the same signal: one that follows this soon is not a second one.
ECHO_SECONDS = 1.0


class Signals:
    """The signal that this process has received: `name` is empty if there was none."""

    def __init__(self) -> None:
        self.name = ""
        self.since = 0.0

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Note signals during the block. Only a main thread can; in others nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in CAUGHT}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.name and time.monotonic() - self.since > ECHO_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        elif not self.name:
            self.name, self.since = signal.Signals(number).name, time.monotonic()
