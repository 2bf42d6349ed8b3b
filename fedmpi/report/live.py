"""The state of a running record as lines of text: progress, loss, bytes, time per phase. For `fedmpi watch`."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedmpi.comm.timeline import PHASES
from fedmpi.errors import RecordError
from fedmpi.record import open_record
from fedmpi.record.schema import DONE, FAILED, RUNNING, STOPPED
from fedmpi.report.format import byte_size, display_width, printable, seconds
from fedmpi.report.statistics import Floats

BARS = "▁▂▃▄▅▆▇█"
RECENT = 20
"""Rates and phases are means over this many of the last rounds."""
STALL_SECONDS = 30.0
"""Seconds without a write after which a run counts as stalled, unless its rounds take longer."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a record at one moment.

    losses: one per evaluation. phases: mean seconds over the last rounds. idle: seconds since the last write.
    """

    name: str
    scheme: str
    seed: int
    m: int
    status: str
    message: str
    T: int
    done: int
    idle: float
    losses: Floats
    accuracy: float
    evaluated: int
    N: Floats
    bytes_logical: int
    bytes_wire: int
    phases: dict[str, float]
    round_time: float
    longest: float

    @property
    def ended(self) -> bool:
        return self.status in (DONE, FAILED, STOPPED)

    @property
    def stalled(self) -> bool:
        """Whether nothing has been written for so long that the run may have been killed."""
        return self.status == RUNNING and self.idle > max(STALL_SECONDS, 10 * self.longest)


def snapshot(path: Path) -> Snapshot:
    """The record as it is now. The file is closed again at once, so that it never blocks the run."""
    with open_record(path) as record:
        config, rounds, evals = record.config, record.rounds, record.evals
        recent = rounds[-RECENT:]
        moved = {
            ledger: int(sum(rounds[f"{way}_bytes_{ledger}"].sum() for way in ("down", "up"))) for ledger in LEDGERS
        }
        return Snapshot(
            name=printable(path.name),
            scheme=printable(config.sampling.scheme),
            seed=config.run.seed,
            m=config.sampling.m,
            status=printable(record.status),
            message=printable(record.message),
            T=config.run.T,
            done=record.rounds_done,
            idle=max(0.0, time.time() - last_written(path)),
            losses=evals["loss"].astype(np.float64),
            accuracy=float(evals["accuracy"][-1]) if len(evals) else math.nan,
            evaluated=int(evals["t"][-1]) if len(evals) else 0,
            N=rounds["N"].astype(np.float64),
            bytes_logical=moved["logical"],
            bytes_wire=moved["wire"],
            phases={phase: float(recent[f"time_{phase}"].mean()) if len(recent) else 0.0 for phase in PHASES},
            round_time=float(recent["time_total"].mean()) if len(recent) else math.nan,
            longest=float(rounds["time_total"].max()) if len(rounds) else 0.0,
        )


LEDGERS = ("logical", "wire")


def last_written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError as error:
        raise RecordError(f"{path}: no longer there ({error.strerror})") from None


def frame(now: Snapshot, width: int = 80) -> list[str]:
    """The lines of one frame, none wider than `width`."""
    lines = [
        f"{now.name}  {now.scheme}, seed {now.seed}  {now.status}",
        progress_line(now, width),
        loss_line(now, width),
    ]
    if now.done:
        lines += [
            f"N       {now.N[-1]:.0f} in the last round, {now.N.mean():.2f} on average, m = {now.m}",
            f"moved   {byte_size(now.bytes_logical)} logical, {byte_size(now.bytes_wire)} on the wire",
            f"phases  mean of the last {min(RECENT, now.done)} rounds, {seconds(now.round_time)} in all",
            *phase_lines(now, width),
        ]
    lines += remarks(now)
    return [cut(line, width) for line in lines]


def one_line(now: Snapshot) -> str:
    """The state in one line, for a log."""
    loss = f"loss {now.losses[-1]:.4f}" if len(now.losses) else "no loss yet"
    parts = [f"{now.status}: round {now.done}/{now.T}", loss, pace(now), *remarks(now)]
    return "  ".join(part for part in parts if part)


def progress_line(now: Snapshot, width: int) -> str:
    room = max(5, min(30, width - 50))
    filled = min(room, room * now.done // now.T) if now.T else room
    share = 100 * now.done / now.T if now.T else 100
    return f"rounds  {now.done}/{now.T}  {'█' * filled}{'·' * (room - filled)}  {share:.0f} %  {pace(now)}"


def pace(now: Snapshot) -> str:
    """Rounds per second and the time left, at the pace of the last rounds."""
    if not now.done or not now.round_time > 0:
        return ""
    rate = 1 / now.round_time
    speed = f"{rate:.3g} rounds/s" if rate >= 1 else f"{seconds(now.round_time)} per round"
    return speed if now.ended else f"{speed}, {span((now.T - now.done) * now.round_time)} left"


def loss_line(now: Snapshot, width: int) -> str:
    if not len(now.losses):
        return "loss    not evaluated yet"
    accuracy = f", accuracy {now.accuracy:.4f}" if math.isfinite(now.accuracy) else ""
    said = f"loss    {now.losses[-1]:.4f} at round {now.evaluated}{accuracy}  "
    return said + sparkline(now.losses, max(8, min(40, width - len(said))))


def phase_lines(now: Snapshot, width: int) -> list[str]:
    room = max(5, min(40, width - 36))
    total = sum(now.phases.values()) or 1.0
    longest = max(now.phases.values()) or 1.0
    bars = {name: "█" * round(room * value / longest) for name, value in now.phases.items()}
    return [
        f"  {name:<10} {seconds(value):>8}  {100 * value / total:3.0f} %  {bars[name]}".rstrip()
        for name, value in now.phases.items()
    ]


def remarks(now: Snapshot) -> list[str]:
    if now.status == FAILED:
        return [f"failed: {now.message}"]
    if now.status == STOPPED:
        return [now.message or "stopped by a signal"]
    if now.stalled:
        return [f"nothing written for {span(now.idle)}: the run may have been killed"]
    return []


def sparkline(values: Sequence[float] | Floats, width: int) -> str:
    """At most `width` bars of eight heights, each the mean of as many values; a space where none is finite.

    The first tenth does not set the scale: losses start so high that the rest would look flat.
    """
    values = np.asarray(values, dtype=np.float64)
    stretches = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [float(s[np.isfinite(s)].mean()) if np.isfinite(s).any() else math.nan for s in stretches]
    known = [x for x in means[len(means) // 10 :] if math.isfinite(x)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    step = (high - low) / (len(BARS) - 1) or 1.0
    heights = [round((min(max(x, low), high) - low) / step) if math.isfinite(x) else -1 for x in means]
    return "".join(BARS[height] if height >= 0 else " " for height in heights)


def span(value: float) -> str:
    """42 s, 3 min 5 s, 2 h 10 min."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def cut(line: str, width: int) -> str:
    """The line, shortened to `width` columns of a terminal."""
    while display_width(line) > width:
        line = line[:-1]
    return line
