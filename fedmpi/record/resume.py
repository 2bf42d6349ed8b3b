"""What an earlier job has left of a run, and whether this one may go on with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import ConfigError
from fedmpi.record.checkpoint import Checkpoint, read_checkpoint
from fedmpi.record.reader import Record, open_record
from fedmpi.record.schema import DONE

# Settings that do not decide what θ is: a resumed run may have others.
FREE = {
    "run.T",
    "run.checkpoint_every",
    "run.on_rank_failure",
    "server.hosts_clients",
    "comm.exchange",
    "comm.down",
    "comm.placement",
    "comm.overlap",
    "comm.sync_every",
    "comm.timeout",
}


@dataclass(frozen=True)
class Past:
    """A record with its committed rounds, and the checkpoint to go on from; None: from the start."""

    record: Record
    checkpoint: Checkpoint | None

    @property
    def size(self) -> int:
        """How many ranks the record has room for."""
        return len(self.record.ranks["host"])

    def reaches(self, config: Config) -> bool:
        """Whether the run is finished as `config` asks for."""
        return self.record.status == DONE and self.record.rounds_done == config.run.T


def find_past(path: Path, config: Config) -> Past | None:
    """What is left of an earlier job at `path`; None if nothing is. A ConfigError if it was another run."""
    if not path.exists():
        return None
    record = open_record(path)
    refuse_changes(path, record.config, config)
    if record.rounds_done > config.run.T:
        raise ConfigError(f"run.T = {config.run.T}: {path} has {record.rounds_done} rounds already")
    return Past(record, read_checkpoint(path) or finished_theta(record))


def finished_theta(record: Record) -> Checkpoint | None:
    """The last θ of a record that was closed, as good as a checkpoint for a run that remembers nothing else."""
    t = record.theta_t
    if not 0 < t == record.rounds_done:
        return None
    return Checkpoint(record.config, t, record.theta)


def committed(record: Record) -> dict[str, NDArray[Any]]:
    """The rows of a record's growing datasets that belong to its committed rounds, by path."""
    evaluations, kept = len(record.evals), int((record.history[0] <= record.rounds_done).sum())
    rows = {"/rounds": record.rounds, "/cohorts": record.cohorts, "/evals": record.evals}
    rows |= {f"/ranks/{name}": record.ranks[name] for name in ("compute_time", "idle_time", "send_time")}
    rows |= {path: record.table(path, kept) for path in ("/model/history_t", "/model/history")}
    rows["/events"] = record.events
    if record.config.record.per_client:
        rows |= {path: record.table(path, evaluations) for path in ("/evals_client_loss", "/evals_client_accuracy")}
    return rows


def refuse_changes(path: Path, before: Config, now: Config) -> None:
    """Raise if a setting that decides θ is not what it was, and say which."""
    if now.client.threads == 0:  # whatever it was
        now = now.replace({"client.threads": before.client.threads})
    changed = {key: pair for key, pair in before.differences(now).items() if key not in FREE}
    if changed:
        told = ", ".join(f"{key} was {old}, now {new}" for key, (old, new) in changed.items())
        raise ConfigError(f"{path} is of another run: {told}; resume with the same settings, or choose another -o FILE")
