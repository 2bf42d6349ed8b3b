"""Signals: the first one is noted, to be acted upon where a run can be left whole; the second one acts at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# What users, schedulers and Slurm's --signal send to end a job.
HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
# mpirun and Slurm may both pass the same signal on: what follows this soon is not a second one.
ECHO_SECONDS = 1.0


class Signals:
    """`name` is that of the signal this process was sent, or empty."""

    def __init__(self) -> None:
        self.name = ""
        self.since = 0.0

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Note signals for as long as this lasts. Only a main thread can; in others nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._note) for number in HEEDED}
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
