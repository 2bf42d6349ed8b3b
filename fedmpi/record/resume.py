"""Finding the earlier run that a job resumes: its record, its checkpoint, and whether the settings allow it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedmpi.config import Config
from fedmpi.errors import ConfigError
from fedmpi.record.checkpoint import Checkpoint, read_checkpoint
from fedmpi.record.reader import Record, open_record
from fedmpi.record.schema import DONE, SCHEMA

# Settings that do not affect θ: a resumed run may change them.
CHANGEABLE = {
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
class EarlierRun:
    """The open record of an earlier job, and the checkpoint to resume from; None: from the start."""

    record: Record
    checkpoint: Checkpoint | None

    @property
    def size(self) -> int:
        """The number of ranks that the record has room for."""
        return len(self.record.ranks["host"])

    def is_complete(self, config: Config) -> bool:
        """Whether the run has ended with all rounds that `config` asks for."""
        return self.record.status == DONE and self.record.rounds_done == config.run.T


def find_earlier_run(path: Path, config: Config) -> EarlierRun | None:
    """The run recorded at `path`, or None if there is no file; a ConfigError if its settings do not fit `config`."""
    if not path.exists():
        return None
    record = open_record(path)
    refuse_changes(path, record.config, config)
    if record.rounds_done > config.run.T:
        raise ConfigError(f"run.T = {config.run.T}: {path} has {record.rounds_done} rounds already")
    return EarlierRun(record, read_checkpoint(path) or final_checkpoint(record))


def final_checkpoint(record: Record) -> Checkpoint | None:
    """The last θ of a record that was closed as a checkpoint: enough for a run whose only state is θ."""
    t = record.theta_t
    if not 0 < t == record.rounds_done:
        return None
    return Checkpoint(record.config, t, record.theta)


def committed_rows(record: Record) -> dict[str, NDArray[Any]]:
    """The rows of all growing datasets that belong to the record's committed rounds, by path."""
    kept_theta = int((record.history[0] <= record.rounds_done).sum())
    rows = {"T": record.rounds_done, "C": len(record.cohorts), "E": len(record.evals), "H": kept_theta}
    return {
        dataset.path: record.table(dataset.path, rows.get(dataset.shape[0]))
        for dataset in SCHEMA
        if dataset.growing and (record.config.record.per_client or not dataset.per_client)
    }


def refuse_changes(path: Path, before: Config, now: Config) -> None:
    """Raise if a setting that affects θ has changed, and name it."""
    if now.client.threads == 0:  # 0 takes whatever the earlier run had
        now = now.replace({"client.threads": before.client.threads})
    changed = {key: pair for key, pair in before.differences(now).items() if key not in CHANGEABLE}
    if changed:
        differences = ", ".join(f"{key} was {old}, now {new}" for key, (old, new) in changed.items())
        raise ConfigError(
            f"{path} is of another run: {differences}; resume with the same settings, or choose another -o FILE"
        )
