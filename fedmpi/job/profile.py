"""A run as a timeline that Perfetto and chrome://tracing open: phases, clients and messages of every rank.

Chrome's trace format: a JSON list of events with times in µs. A rank is a process there; spans of one rank that cannot
overlap are on one thread, its updates in flight are asynchronous events, since several may be on their way at once.
All times are on the server's clock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.tags import SERVER
from fedmpi.comm.timeline import Doing
from fedmpi.errors import RecordError
from fedmpi.job.round_log import Outcome

Event = dict[str, Any]
WORDS = {
    Doing.IDLE: "wait for an order",
    Doing.RECEIVE: "receive θ",
    Doing.TRAIN: "train",
    Doing.SEND: "send",
    Doing.PROBE: "probe",
    Doing.EVALUATE: "evaluate",
    Doing.CLOCKS: "compare clocks",
}
# Threads of a rank: what it does, and on the server the rounds and how their time is divided.
WORK, ROUNDS, PHASES = 0, 1, 2


class Trace:
    """The events of a job so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.origin: float | None = None

    def round(self, outcome: Outcome) -> None:
        """Take a finished round: the server's phases, its own work, and every update on its way."""
        line, seen = outcome.line, outcome.seen
        if self.origin is None:
            self.origin = line.start
        about = {"N": len(outcome.cohort), "update_norm": outcome.update_norm}
        self._span(SERVER, ROUNDS, f"round {outcome.t}", line.start, outcome.end, about)
        for phase, (start, end) in outcome.timeline:
            self._span(SERVER, PHASES, phase, start, end)
        own = {"add": seen.aggregate, **line.spans}
        for name, spans in own.items():
            for start, end in spans:
                self._span(SERVER, WORK, name, start, end)
        for arrival in seen.arrivals:
            if arrival.rank == SERVER:
                began = arrival.arrive_time - arrival.compute_time
                self._span(SERVER, WORK, f"train client {arrival.client}", began, arrival.arrive_time)
                continue
            about = {"client": arrival.client, "round": outcome.t, "loss": arrival.loss, "norm": arrival.norm}
            key = {"cat": "update", "id": f"{outcome.t}.{arrival.client}", "name": f"Δ of client {arrival.client}"}
            for phase, time in (("b", arrival.post_time), ("e", arrival.arrive_time)):
                self._add({**key, "ph": phase, "pid": arrival.rank, "tid": WORK, "args": about}, time)

    def worker(self, rank: int, spans: NDArray[np.float64]) -> None:
        """Take a worker's spans, (k, 4), on the server's clock."""
        for doing, client, start, end in spans.tolist():
            name = WORDS[Doing(int(doing))] + (f" client {int(client)}" if client >= 0 else "")
            self._span(rank, WORK, name, start, end)

    def write(self, path: Path, hosts: Sequence[str]) -> None:
        """Write all of it; hosts: every rank's."""
        named = []
        for rank, host in enumerate(hosts):
            role = "server" if rank == SERVER else "worker"
            named.append(
                {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}, {role}, {host}"}}
            )
            named.append({"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}})
        for thread, label in ((ROUNDS, "rounds"), (PHASES, "phases")):
            named.append({"ph": "M", "name": "thread_name", "pid": SERVER, "tid": thread, "args": {"name": label}})
        origin = self.origin or 0.0
        timed = [{**event, "ts": (event["ts"] - origin) * 1e6} for event in self.events]
        try:
            path.write_text(json.dumps({"traceEvents": named + timed, "displayTimeUnit": "ms"}), encoding="utf-8")
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}") from None

    def _span(self, rank: int, thread: int, name: str, start: float, end: float, about: Event | None = None) -> None:
        event = {"ph": "X", "name": name, "pid": rank, "tid": thread, "dur": (end - start) * 1e6}
        self._add({**event, "args": about} if about else event, start)

    def _add(self, event: Event, time: float) -> None:
        self.events.append({**event, "ts": time})
