"""Filling in the scripts of launch/: which ranks run on which nodes, the lines to change, and warnings."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import fedmpi
from fedmpi.config import Config
from fedmpi.errors import ConfigError

SCRIPTS = Path(fedmpi.__file__).parent / "launch"
# The scripts stop a run this long before its time limit, so that it can write a checkpoint.
CHECKPOINT_SECONDS = 120


@dataclass(frozen=True)
class ClusterJob:
    """What runs, on how many nodes, and with how many ranks, cores and GPUs. The very first rank is the server."""

    config: Config
    source: str
    overrides: tuple[str, ...]
    output: str | None
    nodes: int
    ranks: int
    cpus: int
    gpus: int
    command: str = "run"

    @property
    def server_trains(self) -> bool:
        return self.config.server.hosts_clients or self.nodes * self.ranks == 1

    @property
    def workers(self) -> int:
        return self.nodes * self.ranks - (not self.server_trains)

    @property
    def drawn(self) -> int:
        """Clients per round, or their mean number if the scheme varies it; the largest of a sweep."""
        cases = self.config.sweep.cases or ((self.config.data.n, self.config.sampling.m),)
        return max(n if self.config.sampling.scheme == "full" else m for n, m in cases)

    def arguments(self) -> list[str]:
        """The arguments of the fedmpi command."""
        changes = list(self.overrides)
        if self.gpus and self.config.client.device == "cpu" and not self.overrides_device:
            changes.append("client.device=auto")
        if self.config.client.threads not in (0, self.cpus):
            changes.append(f"client.threads={self.cpus}")
        output = self.output or self.config.run.name + (".h5" if self.command == "run" else "")
        return [self.command, self.source, *(word for change in changes for word in ("-s", change)), "-o", output]

    @property
    def overrides_device(self) -> bool:
        return any(text.split("=")[0].strip() == "client.device" for text in self.overrides)

    def explanation(self) -> list[str]:
        """Which ranks, cores and GPUs the job uses, in sentences."""
        ranks = counted(self.nodes * self.ranks, "rank")
        where = f"{self.ranks} on each of {self.nodes} nodes" if self.nodes > 1 else "on one node"
        roles = (
            "the server trains clients too" if self.server_trains else f"1 server, {counted(self.workers, 'worker')}"
        )
        lines = [f"{ranks}, {where}: {roles}. A round trains {counted(self.drawn, 'client')}."]
        lines.append(f"{counted(self.cpus, 'core')} per rank, for as many threads (client.threads).")
        if self.gpus:
            lines.append(
                f"{counted(self.gpus, 'GPU')} per node: each worker takes one, in turn; the server takes none."
            )
        return lines

    def warnings(self) -> list[str]:
        """What would work, but waste resources; each sentence ends with the fix."""
        found = []
        on_first = self.ranks - (not self.server_trains)
        if self.gpus > on_first:
            found.append(
                f"the first node has {counted(self.gpus, 'GPU')} for {counted(on_first, 'worker')}, as the server takes"
                f" none: --ranks-per-node {self.gpus + (not self.server_trains)} uses them all"
            )
        if self.gpus and self.config.client.device == "cpu" and self.overrides_device:
            found.append("client.device = cpu leaves the GPUs unused: leave it or --gpus-per-node out")
        if self.workers > self.drawn:
            needed = self.drawn + (not self.server_trains)
            nodes, ranks = -(-needed // self.ranks), -(-needed // self.nodes)
            fix = f"--nodes {nodes}" if nodes < self.nodes else f"--ranks-per-node {ranks}"
            idle = self.workers - self.drawn
            found.append(
                f"{self.workers} workers for {counted(self.drawn, 'client')} per round: {idle} or more of them wait in"
                f" every round; {fix} is enough"
            )
        if self.command == "run" and self.config.sweep != type(self.config.sweep)():
            found.append(f"'{self.source}' has a [sweep] table, and this is one run of it: --array N runs them all")
        return found


def counted(number: int, noun: str) -> str:
    """1 rank, 2 ranks."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def fill(script: str, values: Mapping[str, str], explanation: Sequence[str]) -> str:
    """A script of launch/ in which the line that starts with a key, or with # and a key, ends with that key's value."""
    first, *lines = (SCRIPTS / script).read_text(encoding="utf-8").splitlines()
    for key, value in values.items():
        (place,) = (k for k, line in enumerate(lines) if line.startswith((key, f"#{key}")))
        lines[place] = key + value
    return "\n".join([first, *(f"# {line}" for line in explanation), "#", *lines]) + "\n"


def settings(job: ClusterJob, *before: str) -> dict[str, str]:
    """The lines that every script has: where fedmpi is, what to run, and whether MPI survives lost workers."""
    prefix, words = shlex.quote(sys.prefix), " ".join(map(quoted, [*before, *job.arguments()]))
    lines = {"PREFIX=": f"${{FEDMPI_PREFIX:-{prefix}}}", "DEFAULT=": f"({words})"}
    if job.config.run.on_rank_failure == "continue":
        lines["ULFM="] = "${FEDMPI_ULFM:-yes}"
    return lines


def quoted(word: str) -> str:
    """A word as the shell needs it. shlex does not quote commas, but shellcheck takes a bare comma for a mistake."""
    plain = shlex.quote(word)
    return f"'{word}'" if plain == word and "," in word else plain


def seconds(time: str) -> int:
    """A time limit, D-HH:MM:SS or HH:MM:SS, in seconds."""
    parts = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,4}):([0-5]\d):([0-5]\d)", time)
    if not parts:
        raise ConfigError(f"--time {time}: must be HH:MM:SS or D-HH:MM:SS, such as 01:30:00")
    days, hours, minutes, rest = (int(part or 0) for part in parts.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    if total < 2 * CHECKPOINT_SECONDS:
        raise ConfigError(f"--time {time}: must be at least 00:04:00, as two minutes are kept for the checkpoint")
    return total


def named(option: str, text: str) -> str:
    """A partition, account or host name that is safe to put into a script."""
    if not re.fullmatch(r"[\w.@/+-]+", text):
        raise ConfigError(f"{option} {text}: must be a name of letters, digits and . _ @ / + - only")
    return text
