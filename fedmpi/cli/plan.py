"""`fedmpi plan`: seconds per round on a cluster that you do not have yet, and which exchange to choose."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedmpi.errors import ConfigError

if TYPE_CHECKING:
    from fedmpi.scale import Job, Machine, Phases
    from fedmpi.scale.advice import Turn

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MOST_WORKERS = 10**6
MOST_CLIENTS = 10**9
MOST_BYTES = 32 << 20
DEFAULT_M = 10
# Of one node, where neither an option nor doctor's file says.
DEFAULT_RANKS = 4
AGAIN = "write it with `mpirun -n 3 fedmpi doctor --json"


@dataclass(frozen=True)
class Basis:
    """What a plan stands on: the machine, ranks per node, and what of it was neither measured nor given."""

    machine: Machine
    ranks_per_node: int
    assumed: tuple[str, ...]
    source: str


@click.command()
@click.option("--workers", "-W", required=True, type=click.IntRange(1, MOST_WORKERS), help="Worker ranks W.")
@click.option("--theta", metavar="SIZE", help="|θ|, such as 400MB (float32: 4 bytes per parameter).")
@click.option("-m", "m", type=click.IntRange(1, MOST_CLIENTS), help="Clients per round.  [default: the preset's or "
              f"the record's, else {DEFAULT_M}]")  # fmt: skip
@click.option("--preset", metavar="NAME|FILE", help="Take |θ| and m from a config's model.")
@click.option("--record", "record_file", metavar="RECORD", help="Take |θ|, m and the median training time of a "
              "client from a run.")  # fmt: skip
@click.option("--compute-seconds", type=float, help="Training time per client.  [default: the record's, else 0]")
@click.option("--exchange", type=click.Choice(["both", "per-client", "reduced"]), default="both", show_default=True,
              help="Which to show.")  # fmt: skip
@click.option("--down", type=click.Choice(["bcast", "p2p", "p2p-per-client"]), default="bcast", show_default=True,
              help="comm.down.")  # fmt: skip
@click.option("--ranks-per-node", type=click.IntRange(1, 10**6), help="Ranks on each node.  [default: as doctor saw, "
              f"else {DEFAULT_RANKS}]")  # fmt: skip
@click.option("--measured", metavar="FILE", type=click.Path(path_type=Path), help="What `fedmpi doctor --json FILE` "
              "wrote under mpirun.  [default: a typical cluster]")  # fmt: skip
@click.option("--latency", type=float, help="Between nodes, one way, in seconds.")
@click.option("--bandwidth", metavar="SIZE", help="Between nodes, bytes per second: 11GB.")
@click.option("--cores", type=click.IntRange(1, 10**6), help="Cores per node.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def plan(
    workers: int,
    theta: str | None,
    m: int | None,
    preset: str | None,
    record_file: str | None,
    compute_seconds: float | None,
    exchange: str,
    down: str,
    ranks_per_node: int | None,
    measured: Path | None,
    latency: float | None,
    bandwidth: str | None,
    cores: int | None,
    as_json: bool,
) -> None:
    """Predict the seconds per round for W workers, and say where the server becomes the limit.

    docs/scale.md has the model and how it was checked. Evaluation, compression and stragglers are not in it.

    \b
    fedmpi plan --workers 1024 --theta 400MB -m 1024
    mpirun -n 9 fedmpi doctor --json found.json
    fedmpi plan --workers 64 --preset shakespeare --compute-seconds 0.5 --measured found.json
    """
    from fedmpi.scale.advice import advice, crossing, turn

    basis = find_basis(measured, ranks_per_node, {"latency": latency, "link": per_byte(bandwidth), "cores": cores})
    job = find_job(workers, theta, m, preset, record_file, compute_seconds)
    job = replace(job, down=down, ranks_per_node=basis.ranks_per_node)
    shown = ("per-client", "reduced") if exchange == "both" else (exchange,)
    jobs = [replace(job, exchange=each) for each in shown]
    turns = [turn(basis.machine, each) for each in jobs]
    found = Findings(basis, jobs, turns, crossing(basis.machine, job), advice(basis.machine, job))
    click.echo(json.dumps(found.as_dict(), indent=1) if as_json else "\n".join(found.lines()))


@dataclass(frozen=True)
class Findings:
    """All that a plan says."""

    basis: Basis
    jobs: list[Job]
    turns: list[Turn]
    crossing: int | None
    advice: str

    def phases(self) -> list[Phases]:
        from fedmpi.scale import predict

        return [predict(self.basis.machine, job) for job in self.jobs]

    def lines(self) -> list[str]:
        """The plan as text: the job, the phases, where it turns, what to do."""
        from fedmpi.report.format import byte_size, seconds
        from fedmpi.report.tables import text_table

        machine, job = self.basis.machine, self.jobs[0]
        rows = [
            [job.exchange, *(seconds(value) for value in asdict(phases).values()), seconds(phases.total)]
            for job, phases in zip(self.jobs, self.phases(), strict=True)
        ]
        out = [
            f"W = {job.workers} workers and a server on {job.nodes} nodes of {job.ranks_per_node} ranks and "
            f"{machine.cores} cores; m = {job.m}, |θ| = {byte_size(job.theta_bytes)}, "
            f"{seconds(job.compute)} of training per client",
            f"machine: {self.basis.source}; between nodes {seconds(machine.latency)} and "
            f"{byte_size(1 / machine.link) if machine.link else '∞ B'}/s",
        ]
        if job.nodes > 1 and {"latency", "link"} & set(self.basis.assumed):
            out.append("the link between nodes is assumed: give --bandwidth and --latency, or run doctor on two nodes")
        if job.ranks_per_node > machine.cores:
            out.append(f"{job.ranks_per_node} ranks share {machine.cores} cores of a node: copies and sums take turns")
        out += ["", text_table(["seconds per round", *PHASES, "total"], rows), ""]
        out += [
            f"{each.exchange}: more than {each.workers} workers do not help; there a round takes "
            f"{seconds(each.seconds)}, most of it for {each.limit}."
            for each in self.turns
        ]
        return [*out, self.about_server(), self.about_down(), self.about_crossing(), "", self.advice]

    def about_server(self) -> str:
        from fedmpi.report.format import byte_size, seconds
        from fedmpi.scale.advice import arrival_seconds, keeps_up, link_seconds

        machine, job = self.basis.machine, self.jobs[0]
        each = arrival_seconds(machine, job)
        adding = job.theta_bytes * machine.at(job.theta_bytes).add
        start = (
            f"Under per-client the server spends {seconds(each - adding)} on receiving an update and {seconds(adding)} "
            f"on adding it, {seconds(job.m * each)} for all {byte_size(job.m * job.theta_bytes)}: "
        )
        if not job.compute:
            return start + "without training time, that is what more workers cannot shorten."
        count = keeps_up(machine, job)
        if count >= min(job.workers, job.m):
            return start + f"it keeps up with {job.called} workers that train {seconds(job.compute)} per client."
        link = int(job.compute * job.m / link_seconds(machine, job)) if machine.link else MOST_WORKERS
        return start + f"it keeps up with {count} workers (its link alone would with {link}); with more, updates queue."

    def about_down(self) -> str:
        from fedmpi.report.format import seconds
        from fedmpi.scale.model import levels

        job, down = self.jobs[0], self.phases()[0].down
        if job.down != "bcast":
            return f"θ goes down in {seconds(down)}, by messages of the server's own."
        return f"θ goes down in {seconds(down)}: {levels(job)} steps of a tree over the nodes, then within each."

    def about_crossing(self) -> str:
        asked = self.jobs[0].workers
        if self.crossing is None:
            return f"reduced is not faster than per-client at W = {asked}."
        if self.crossing == 1:
            return "reduced is faster than per-client with any number of workers."
        return f"per-client is fine up to W = {self.crossing - 1}; from W = {self.crossing} on reduced is faster."

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": asdict(self.basis.machine),
            "machine_assumed": list(self.basis.assumed),
            "exchanges": {
                job.exchange: {"job": asdict(job), "phases": asdict(phases), "seconds": phases.total,
                               "turn": asdict(turn)}
                for job, phases, turn in zip(self.jobs, self.phases(), self.turns, strict=True)
            },
            "reduced_faster_from": self.crossing,
            "advice": self.advice,
        }  # fmt: skip


PHASES = ("fixed", "down", "wait", "up", "aggregate")


def find_basis(file: Path | None, ranks: int | None, changes: dict[str, float | None]) -> Basis:
    """The machine of a file that doctor wrote, or a typical one, with what the options say."""
    from fedmpi.scale import CLUSTER, Machine

    machine, assumed, source = CLUSTER, tuple(CLUSTER.as_dict()), "a typical cluster"
    if file:
        found = read_measured(file)
        try:
            machine, source = Machine.from_dict(found["machine"]), f"as measured, {file}"
        except ConfigError as error:
            raise ConfigError(f"--measured {file}: {error}; {AGAIN} {file.name}`") from None
        assumed = tuple(str(name) for name in found["machine_assumed"])
        ranks = ranks or max(found["nodes"].values())
    given = [name for name, value in changes.items() if value is not None]
    assumed = tuple(name for name in assumed if name not in given)
    return Basis(machine.changed(changes), ranks or DEFAULT_RANKS, assumed, source)


def read_measured(file: Path) -> dict[str, Any]:
    """The parts of doctor's JSON that a plan needs: machine, machine_assumed, and how many ranks each node had."""
    from fedmpi.data.sources.archive import read_file

    again = f"{AGAIN} {file.name}`"
    try:
        found = json.loads(read_file(file, MOST_BYTES))
        nodes = [int(rank["node"]) for rank in found["ranks"]]
        machine, assumed = found["machine"], list(found["machine_assumed"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"--measured {file}: not what doctor writes; {again}") from None
    if machine is None or not nodes:
        raise ConfigError(f"--measured {file}: doctor ran alone and has measured no rounds; {again}")
    return {"machine": machine, "machine_assumed": assumed, "nodes": {node: nodes.count(node) for node in nodes}}


def find_job(
    workers: int, theta: str | None, m: int | None, preset: str | None, record_file: str | None, compute: float | None
) -> Job:
    """W, |θ|, m and κ: what an option says, else the record, else the preset."""
    from fedmpi.scale import Job

    size, drawn, seconds = of_record(record_file) if record_file else (None, None, None)
    if preset:
        from fedmpi.config import Config

        config = Config.load(preset)
        drawn = drawn or config.sampling.m
        if not size and not theta:
            from fedmpi.models import make_model

            size = 4 * make_model(config.replace({"client.device": "cpu"})).theta.numel()
    size = byte_count("--theta", theta) if theta else size
    if not size:
        raise ConfigError("say how large θ is: --theta 400MB, --preset NAME or --record FILE")
    compute = seconds if compute is None else compute
    return Job(workers, m or drawn or DEFAULT_M, size, compute=compute or 0.0)


def of_record(file: str) -> tuple[int, int, float]:
    """|θ| in bytes, the mean N and the median training time of a client, of a run."""
    import numpy as np

    from fedmpi.record import open_record

    with open_record(file) as record:
        if not len(record.cohorts):
            raise ConfigError(f"--record {file}: no client has taken part in a round yet")
        N = max(1, round(float(record.rounds["N"].mean())))
        return 4 * record.d, N, float(np.median(record.cohorts["compute_time"]))


def byte_count(option: str, text: str) -> int:
    """
    >>> byte_count("--theta", "1.5 MB")
    1500000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE]\d{1,2})?)\s*([a-zA-Z]*)\s*", text)
    unit = (found[2].upper() or "B") if found else ""
    if not found or unit not in UNITS or not 1 <= float(found[1]) * UNITS[unit] < 2**60:
        raise ConfigError(f"{option} {text}: give bytes with a unit, such as 400MB, 1.5GB or 512KiB")
    return round(float(found[1]) * UNITS[unit])


def per_byte(bandwidth: str | None) -> float | None:
    return None if bandwidth is None else 1 / byte_count("--bandwidth", bandwidth.removesuffix("/s"))
