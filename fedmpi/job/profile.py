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
from fedmpi.comm.timeline import Activity
from fedmpi.errors import RecordError
from fedmpi.job.outcome import Outcome

Event = dict[str, Any]
NAMES = {
    Activity.IDLE: "wait for a command",
    Activity.RECEIVE: "receive θ",
    Activity.TRAIN: "train",
    Activity.SEND: "send",
    Activity.PROBE: "probe",
    Activity.EVALUATE: "evaluate",
    Activity.CLOCKS: "compare clocks",
}
# Threads of a rank: what it does, and on the server also the rounds and their phases.
WORK, ROUNDS, PHASE = 0, 1, 2


class Profile:
    """The timeline of a job so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.origin: float | None = None

    def add_round(self, outcome: Outcome) -> None:
        """Add a finished round: the server's phases, its own work, and every update in flight."""
        traffic = outcome.traffic
        if self.origin is None:
            self.origin = outcome.start
        about = {"N": len(outcome.cohort), "update_norm": outcome.update_norm}
        self._span(SERVER, ROUNDS, f"round {outcome.t}", outcome.start, outcome.end, about)
        for phase, (start, end) in outcome.phase_intervals:
            self._span(SERVER, PHASE, phase, start, end)
        own = {"add": traffic.aggregate, **outcome.timeline.intervals()}
        for name, spans in own.items():
            for start, end in spans:
                self._span(SERVER, WORK, name, start, end)
        for row in traffic.arrivals:
            update = dict(zip(row.dtype.names, row.item(), strict=True))
            client, rank, arrived = update["client"], update["rank"], update["arrive_time"]
            if rank == SERVER:
                self._span(SERVER, WORK, f"train client {client}", arrived - update["compute_time"], arrived)
                continue
            about = {"client": client, "round": outcome.t, "loss": update["train_loss"], "norm": update["delta_norm"]}
            key = {"cat": "update", "id": f"{outcome.t}.{client}", "name": f"Δ of client {client}"}
            for phase, time in (("b", update["post_time"]), ("e", arrived)):
                self._add({**key, "ph": phase, "pid": rank, "tid": WORK, "args": about}, time)

    def add_worker(self, rank: int, spans: NDArray[np.void]) -> None:
        """Add a worker's spans (SPAN), on the server's clock."""
        for activity, client, start, end in spans.tolist():
            name = NAMES[Activity(int(activity))] + (f" client {int(client)}" if client >= 0 else "")
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
        for thread, label in ((ROUNDS, "rounds"), (PHASE, "phases")):
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
