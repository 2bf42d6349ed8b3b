"""The log of a run: what each round leaves in the record, written while the next round's clients train."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmpi.comm.clocks import Offsets
from fedmpi.comm.tags import SERVER
from fedmpi.comm.traffic import RoundTraffic
from fedmpi.job.outcome import Evaluation, Outcome
from fedmpi.network import VirtualNetwork
from fedmpi.record import Record, RecordWriter
from fedmpi.record.schema import TABLES, row

VIRTUAL = ("virtual_total", "virtual_down", "virtual_compute", "virtual_up")


class RoundLog:
    """Collects finished rounds (`add`) and writes them to the record (`write`).

    Rounds that an earlier job has recorded are not written again: a resumed run repeats those after its checkpoint.
    """

    def __init__(
        self, record: RecordWriter, size: int, network: VirtualNetwork | None = None, earlier: Record | None = None
    ) -> None:
        """size: the number of ranks. earlier: the record that is resumed, if any."""
        self.record, self.network = record, network
        # The ranks as the record numbers them, by the numbers they have now.
        self.original_ranks = list(range(size))
        self.recorded = earlier.rounds_done if earlier else 0
        self.evaluated = int(earlier.evals["t"].max(initial=-1)) if earlier else -1
        self.kept = int(earlier.history[0].max(initial=-1)) if earlier else -1
        self.cohort_end, self.wall_time = 0, 0.0
        if earlier and len(earlier.rounds):
            last = earlier.rounds[-1]
            self.cohort_end, self.wall_time = int(last["cohort_end"]), float(last["wall_time"] + last["time_total"])
        self.first_start: float | None = None
        self.unwritten: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.unwritten.append(outcome)

    def write(self) -> list[Outcome]:
        """Append the rounds added since the last call, and return them."""
        outcomes, self.unwritten = self.unwritten, []
        for outcome in outcomes:
            if outcome.t < self.recorded:
                continue
            if self.first_start is None:
                self.first_start = outcome.start
            self.cohort_end += len(outcome.cohort)
            self._write_round(outcome)
            self._write_cohort(outcome)
            self._write_ranks(outcome.traffic)
            if outcome.evaluation:
                self.write_evaluation(outcome.evaluation)
            self.record.commit(outcome.t + 1)
        return outcomes

    def keep_theta(self, theta: NDArray[np.float32], t: int) -> None:
        """Keep θᵗ in the history."""
        if t > self.kept:
            self.record.keep_theta(theta, t)

    def write_event(self, t: int, now: float, kind: str, text: str, rank: int = -1, seconds: float = 0.0) -> None:
        """Record something that is not a round."""
        columns = {"kind": kind.encode(), "note": text.encode()[:256], "rank": rank, "seconds": seconds}
        self.record.append("/events", row("/events", t=t, wall_time=self._wall_time(now), **columns))
        self.record.file.flush()

    def write_evaluation(self, evaluation: Evaluation) -> None:
        if evaluation.t <= self.evaluated:
            return
        judged = row("/evals", t=evaluation.t, loss=evaluation.loss, accuracy=evaluation.accuracy)
        self.record.append("/evals", judged)
        if "/evals_client_loss" in self.record.open:
            self.record.append("/evals_client_loss", evaluation.results[None, :, 0])
            self.record.append("/evals_client_accuracy", evaluation.results[None, :, 1])

    def write_clocks(self, offsets: Offsets) -> None:
        """The offsets of the ranks' clocks, as last measured."""
        for name, values in (("clock_offset", offsets.offset), ("clock_error", offsets.error)):
            self.record.open[f"/ranks/{name}"][self.original_ranks] = values

    def write_homes(self, home: NDArray[np.int32]) -> None:
        """The rank that is home to each client from now on; home: by the ranks' present numbers."""
        self.record.open["/clients/rank"][...] = np.array(self.original_ranks, np.int32)[home]

    def _wall_time(self, now: float) -> float:
        return self.wall_time + (now - self.first_start if self.first_start is not None else 0.0)

    def _write_round(self, outcome: Outcome) -> None:
        traffic = outcome.traffic
        self.record.append(
            "/rounds",
            row(
                "/rounds",
                t=outcome.t,
                wall_time=self._wall_time(outcome.start),
                N=len(outcome.cohort),
                sum_omega=outcome.cohort.omega.sum(),
                update_norm=outcome.update_norm,
                rejected=outcome.rejected,
                down_bytes_logical=outcome.ledger.down,
                up_bytes_logical=outcome.ledger.up,
                down_bytes_wire=traffic.down_bytes,
                up_bytes_wire=traffic.up_bytes,
                control_bytes_wire=traffic.control_bytes,
                time_total=outcome.end - outcome.start,
                skew=outcome.skew,
                clock_error=traffic.clock_error,
                cohort_end=self.cohort_end,
                **{f"time_{phase}": seconds for phase, seconds in outcome.phases.items()},
                **virtual_times(self.network, outcome),
            ),
        )

    def _write_cohort(self, outcome: Outcome) -> None:
        """Every column is a field of ARRIVAL, or is set here. Times count from the round's start."""
        arrivals = outcome.traffic.arrivals
        columns = {name: arrivals[name] for name in arrivals.dtype.names or ()}
        columns["t"] = np.full(len(arrivals), outcome.t)
        columns["omega"] = outcome.cohort.omega
        columns["rank"] = np.array(self.original_ranks)[arrivals["rank"]]
        for name in ("post_time", "arrive_time"):
            columns[name] = arrivals[name] - outcome.start
        rows = np.empty(len(arrivals), TABLES["/cohorts"].dtype)
        for name in rows.dtype.names or ():
            rows[name] = columns[name]
        self.record.append("/cohorts", rows)

    def _write_ranks(self, traffic: RoundTraffic) -> None:
        times = np.zeros((3, 1, self.record.open["/ranks/compute_time"].shape[1]))
        for report in traffic.reports:
            times[:, 0, self.original_ranks[report.rank]] = report.compute, report.idle, report.send
        own = traffic.arrivals["rank"] == SERVER
        times[0, 0, SERVER] = traffic.arrivals["compute_time"][own].sum()
        for name, values in zip(("compute_time", "idle_time", "send_time"), times, strict=True):
            self.record.append(f"/ranks/{name}", values)


def virtual_times(network: VirtualNetwork | None, outcome: Outcome) -> dict[str, float]:
    """What the round would have taken in the federation of [network]; NaN and −1 if there is none.

    Where probing means training (optimal), a probed client is taken to work as long before the draw as the drawn ones
    did on average; where it means a look at the loss, no time.
    """
    if network is None:
        return {**dict.fromkeys(VIRTUAL, float("nan")), "virtual_straggler": -1}
    ledger, seconds = outcome.ledger, outcome.traffic.arrivals["compute_time"].astype(np.float64)
    clients, sizes = outcome.cohort.clients, (ledger.theta_bytes, ledger.update_bytes)
    if not len(ledger.probed):
        times = network.round(clients, seconds, *sizes)
    else:
        trained = ledger.trained_before_draw
        before = float(seconds.mean()) if trained and len(seconds) else 0.0
        scalars = (8,) + (16,) * ((ledger.scalars_each - 1) // 2)
        after = 0.0 if trained else seconds
        times = network.round(clients, after, *sizes, probed=ledger.probed, probe_seconds=before, scalar_bytes=scalars)
    parts = (times.total, times.down, times.compute, times.up)
    return {**dict(zip(VIRTUAL, parts, strict=True)), "virtual_straggler": times.straggler}
