"""fedmpi plan"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedmpi.errors import ConfigError

if TYPE_CHECKING:
    from fedmpi.scale import JobShape, Machine, Phases
    from fedmpi.scale.advice import Saturation, ServerLoad

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MOST_WORKERS = 10**6
MOST_CLIENTS = 10**9
DEFAULT_M = 10
# If neither an option nor doctor's file gives it.
DEFAULT_RANKS_PER_NODE = 4


@dataclass(frozen=True)
class Basis:
    """The machine of a plan, its ranks per node, which parameters were neither measured nor given, and its source."""

    machine: Machine
    ranks_per_node: int
    assumed: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Forecast:
    """The predicted rounds of one job, one entry per exchange, and what follows from them."""

    basis: Basis
    jobs: list[JobShape]
    phases: list[Phases]
    saturations: list[Saturation]
    server: ServerLoad
    crossover: int | None
    advice: str


@click.command()
@click.option("--workers", "-W", required=True, type=click.IntRange(1, MOST_WORKERS), help="Number of worker ranks W.")
@click.option("--theta", metavar="SIZE", help="Size of θ, such as 400MB; float32 has 4 bytes per parameter.")
@click.option("-m", "m", type=click.IntRange(1, MOST_CLIENTS), help="Clients per round.  [default: the preset's or "
              f"the record's, else {DEFAULT_M}]")  # fmt: skip
@click.option("--preset", metavar="NAME|FILE", help="Take the size of θ and m from a preset or a TOML file.")
@click.option("--record", "record_file", metavar="RECORD", help="Take the size of θ, m and the median training time "
              "of a client from a record.")  # fmt: skip
@click.option("--compute-seconds", type=float, help="Training time per client, in seconds.  [default: the record's, "
              "else 0]")  # fmt: skip
@click.option("--exchange", type=click.Choice(["both", "per-client", "reduced"]), default="both", show_default=True,
              help="Values of comm.exchange to show.")  # fmt: skip
@click.option("--down", type=click.Choice(["bcast", "p2p", "p2p-per-client"]), default="bcast", show_default=True,
              help="Value of comm.down.")  # fmt: skip
@click.option("--ranks-per-node", type=click.IntRange(1, 10**6), help="Ranks on each node.  [default: as in the "
              f"--measured file, else {DEFAULT_RANKS_PER_NODE}]")  # fmt: skip
@click.option("--measured", metavar="FILE", type=click.Path(path_type=Path), help="Use the machine that `mpirun … "
              "fedmpi doctor --json FILE` measured.  [default: a typical cluster]")  # fmt: skip
@click.option("--latency", type=float, help="One-way latency between nodes, in seconds.")
@click.option("--bandwidth", metavar="SIZE", help="Bytes per second between nodes, such as 11GB.")
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
    """Predict the seconds per round on a larger cluster.

    Also says where the server becomes the bottleneck, and which exchange to choose. docs/scale.md explains the model
    and how accurate it is. It leaves out evaluation, compression and stragglers.

    \b
    fedmpi plan --workers 1024 --theta 400MB -m 1024
    mpirun -n 9 fedmpi doctor --json found.json
    fedmpi plan --workers 64 --preset shakespeare --compute-seconds 0.5 --measured found.json
    """
    from fedmpi.scale import predict
    from fedmpi.scale.advice import choose_exchange, crossover, saturation, server_load

    basis = find_basis(measured, ranks_per_node, {"latency": latency, "link": per_byte(bandwidth), "cores": cores})
    machine = basis.machine
    job = find_job(workers, theta, m, preset, record_file, compute_seconds)
    job = replace(job, down=down, ranks_per_node=basis.ranks_per_node)
    jobs = [replace(job, exchange=each) for each in ("per-client", "reduced") if exchange in ("both", each)]
    forecast = Forecast(
        basis,
        jobs,
        [predict(machine, each) for each in jobs],
        [saturation(machine, each) for each in jobs],
        server_load(machine, job),
        crossover(machine, job),
        choose_exchange(machine, job),
    )
    click.echo(json.dumps(as_dict(forecast), indent=1) if as_json else "\n".join(lines(forecast)))


def lines(forecast: Forecast) -> list[str]:
    """The forecast as text: the job, its phases, what limits it, what to choose."""
    from fedmpi.report.format import byte_size, seconds
    from fedmpi.report.tables import text_table

    basis, machine, job = forecast.basis, forecast.basis.machine, forecast.jobs[0]
    rows = [
        [job.exchange, *(seconds(value) for value in asdict(phases).values()), seconds(phases.total)]
        for job, phases in zip(forecast.jobs, forecast.phases, strict=True)
    ]
    out = [
        f"W = {job.workers} workers and a server on {job.nodes} nodes of {job.ranks_per_node} ranks and "
        f"{machine.cores} cores; m = {job.m}, |θ| = {byte_size(job.theta_bytes)}, "
        f"{seconds(job.compute)} of training per client",
        f"machine: {basis.source}; between nodes {seconds(machine.latency)} and "
        f"{byte_size(1 / machine.link) if machine.link else '∞ B'}/s",
    ]
    if job.nodes > 1 and {"latency", "link"} & set(basis.assumed):
        out.append("the link between nodes is assumed: give --bandwidth and --latency, or run doctor on two nodes")
    if job.most_ranks > machine.cores:
        out.append(f"{job.most_ranks} ranks share {machine.cores} cores of a node: copies and sums take turns")
    out += ["", text_table(["seconds per round", *asdict(forecast.phases[0]), "total"], rows), ""]
    out += [
        f"{each.exchange}: more than {each.workers} workers do not help; there a round takes "
        f"{seconds(each.seconds)}, most of it for {each.limit}."
        for each in forecast.saturations
    ]
    return [*out, about_server(forecast), about_down(forecast), about_crossover(forecast), "", forecast.advice]


def about_server(forecast: Forecast) -> str:
    """How long the server's part of a round takes under `per-client`, and how many workers it serves."""
    from fedmpi.report.format import byte_size, seconds

    job, load = forecast.jobs[0], forecast.server
    start = (
        f"Under per-client the server spends {seconds(load.receive)} on receiving an update and {seconds(load.add)} "
        f"on adding it, {seconds(load.round)} for all {byte_size(job.m * job.theta_bytes)}: "
    )
    if not job.compute:
        return start + "without training time, that is what more workers cannot shorten."
    if load.serves >= job.busy_workers:
        return start + f"it keeps up with {job.busy_workers} workers that train {seconds(job.compute)} per client."
    link = "any number" if load.link_serves is None else load.link_serves
    served = f"it keeps up with {load.serves} workers (its link alone would with {link})"
    return f"{start}{served}; with more, updates queue."


def about_down(forecast: Forecast) -> str:
    """How long θ takes to all workers."""
    from fedmpi.report.format import seconds
    from fedmpi.scale.model import levels

    job, down = forecast.jobs[0], forecast.phases[0].down
    if job.down != "bcast":
        return f"θ goes down in {seconds(down)}, in messages from the server itself."
    return f"θ goes down in {seconds(down)}: {levels(job)} steps of a tree over the nodes, then within each."


def about_crossover(forecast: Forecast) -> str:
    """From how many workers on `reduced` is faster."""
    if forecast.crossover is None:
        return f"reduced is not faster than per-client at W = {forecast.jobs[0].workers}."
    if forecast.crossover == 1:
        return "reduced is faster than per-client with any number of workers."
    return f"per-client is fine up to W = {forecast.crossover - 1}; from W = {forecast.crossover} on reduced is faster."


def as_dict(forecast: Forecast) -> dict[str, Any]:
    """The forecast for --json, in seconds and bytes."""
    predicted = zip(forecast.jobs, forecast.phases, forecast.saturations, strict=True)
    return {
        "machine": asdict(forecast.basis.machine),
        "machine_assumed": list(forecast.basis.assumed),
        "exchanges": {
            job.exchange: {
                "job": asdict(job),
                "phases": asdict(phases),
                "seconds": phases.total,
                "turn": asdict(saturation),
            }
            for job, phases, saturation in predicted
        },
        "reduced_faster_from": forecast.crossover,
        "advice": forecast.advice,
    }


def find_basis(file: Path | None, ranks_per_node: int | None, given: dict[str, float | None]) -> Basis:
    """The machine that doctor measured, or a typical one, with the parameters that options give."""
    from fedmpi.scale import CLUSTER
    from fedmpi.scale.measurement import read_machine

    machine, assumed, source = CLUSTER, tuple(CLUSTER.as_dict()), "a typical cluster"
    if file:
        try:
            found = read_machine(file)
        except ConfigError as error:
            raise ConfigError(f"--measured {error}") from None
        machine, assumed, source = found.machine, found.assumed, f"as measured, {file}"
        ranks_per_node = ranks_per_node or found.ranks_per_node
    assumed = tuple(name for name in assumed if given.get(name) is None)
    return Basis(machine.changed(given), ranks_per_node or DEFAULT_RANKS_PER_NODE, assumed, source)


def find_job(
    workers: int, theta: str | None, m: int | None, preset: str | None, record_file: str | None, compute: float | None
) -> JobShape:
    """W, |θ|, m and κ, each from its option, else from the record, else from the preset."""
    from fedmpi.scale import JobShape

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
        raise ConfigError("the size of θ is missing: give --theta 400MB, --preset NAME or --record FILE")
    compute = seconds if compute is None else compute
    return JobShape(workers, m or drawn or DEFAULT_M, size, compute=compute or 0.0)


def of_record(file: str) -> tuple[int, int, float]:
    """|θ| in bytes, the mean N and the median training time of a client, of a run."""
    from fedmpi.record import open_record
    from fedmpi.scale.measurement import typical_round

    with open_record(file) as record:
        if not len(record.cohorts):
            raise ConfigError(f"--record {file}: no client has taken part in a round yet")
        return 4 * record.d, *typical_round(record.rounds["N"], record.cohorts["compute_time"])


def byte_count(option: str, text: str) -> int:
    """The number of bytes that a text such as "1.5 MB" gives; a ConfigError names the option.

    >>> byte_count("--theta", "1.5 MB")
    1500000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE]\d{1,2})?)\s*([a-zA-Z]*)\s*", text)
    unit = (found[2].upper() or "B") if found else ""
    if not found or unit not in UNITS or not 1 <= float(found[1]) * UNITS[unit] < 2**60:
        raise ConfigError(f"{option} {text}: give bytes with a unit, such as 400MB, 1.5GB or 512KiB")
    return round(float(found[1]) * UNITS[unit])


def per_byte(bandwidth: str | None) -> float | None:
    """Seconds per byte of a bandwidth such as 11GB/s."""
    return None if bandwidth is None else 1 / byte_count("--bandwidth", bandwidth.removesuffix("/s"))
