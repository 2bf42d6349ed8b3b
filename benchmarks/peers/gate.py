"""The pause between rounds: a job does as many rounds as the driver allows, reports their seconds, and waits.

Inside a job, whoever would begin the next round (the server; every process, where there is no server) calls
`Gate.wait` before each round. The driver holds the other end of a Unix socket. Standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any


class Gate:
    """The job's end. Rounds are timed here, by the job's own clock: from one `wait` to the next, pauses excluded."""

    def __init__(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(os.environ["PEERS_GATE"])
        self.stream = connection.makefile("rw")
        self.allowed = 0
        self.began: float | None = None
        self.rounds: list[dict[str, float]] = []

    def wait(self, **facts: float) -> None:
        """Return when the next round may begin. `facts`: what the driver is to know of the round that has ended."""
        if self.began is not None:
            self.rounds.append({"seconds": time.perf_counter() - self.began, **facts})
        if self.allowed == 0:
            print(json.dumps(self.rounds), file=self.stream, flush=True)
            self.rounds = []
            answer = self.stream.readline()
            if not answer:
                sys.exit("the driver has gone")
            self.allowed = int(answer)
        self.allowed -= 1
        self.began = time.perf_counter()


class Party:
    """The driver's end: one process of a job that waits at its gate."""

    def __init__(self, connection: socket.socket) -> None:
        self.stream = connection.makefile("rw")

    def rounds(self) -> list[dict[str, float]] | None:
        """The rounds it has done since it was let through; None if it has ended."""
        line = self.stream.readline()
        done: Any = json.loads(line) if line else None
        return done

    def let_through(self, rounds: int) -> None:
        print(rounds, file=self.stream, flush=True)


def listen(path: Path, seconds: float) -> socket.socket:
    """A socket at which the parties of one job can appear; waiting for them, or for their words, ends in time."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(seconds)
    return listener
