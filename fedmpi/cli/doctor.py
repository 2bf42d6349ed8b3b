"""fedmpi doctor"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.comm.bandwidth import Line
    from fedmpi.comm.clocks import Offsets
    from fedmpi.comm.hardware import Seat
    from fedmpi.comm.world import World
    from fedmpi.scale import Machine
    from fedmpi.scale.fit import Measured


GPU_BUFFERS = {
    True: "takes GPU buffers: per-client updates that are not compressed go from there, and θ comes there",
    False: "takes host buffers only, which is what fedmpi gives it",
    None: "does not say whether it takes GPU buffers",
}
# The columns that hold words, not numbers.
WORDS = ("host", "role", "cores", "devices", "auto", "transport")


@dataclass(frozen=True)
class Findings:
    """What there is to say about a job: its library, seats, the devices that "auto" takes, clocks and lines."""

    library: str
    cuda_aware: bool | None
    threads: int
    seats: list[Seat]
    auto: list[str]
    offsets: Offsets
    lines: list[Line]
    complaints: list[str]


@dataclass(frozen=True)
class Account:
    """What rounds cost here, for `fedmpi plan`: no-op rounds that were measured, the machine that explains them, and
    which of its parameters could not be measured on these hosts."""

    machine: Machine
    assumed: list[str]
    rounds: list[Measured]


@click.command()
@click.option("--threads", default=1, show_default=True, help="Threads per rank of the run you plan: client.threads.")
@click.option("--max-size", default=64.0, show_default=True, help="Largest message, in MB (2²⁰ bytes).")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also measure rounds in which "
              "nobody trains, and write all of it here: for `fedmpi plan --measured`.")  # fmt: skip
def doctor(threads: int, max_size: float, file: Path | None) -> None:
    """Say what this MPI job has to work with, and what is wrong with it.

    Under mpirun: the MPI library, hosts, cores and devices of every rank, the device that client.device = "auto"
    takes, the offset of every rank's clock, and latency and bandwidth between the server and each worker. Start it as
    you would start the run:

    \b
    mpirun -n 3 fedmpi doctor
    """
    from fedmpi.comm.bandwidth import SIZES, message_overhead, probe_lines
    from fedmpi.comm.clocks import measure
    from fedmpi.comm.hardware import choose, complaints, seats
    from fedmpi.comm.world import connect, cuda_aware, library_version
    from fedmpi.errors import ConfigError
    from fedmpi.models.device import visible_devices

    if threads < 1:
        raise ConfigError(f"--threads {threads}: must be at least 1")
    world = connect()
    taken = seats(world, visible_devices())
    offsets = measure(world)
    sizes = [size for size in SIZES if size <= max(8.0, max_size * 2**20)]
    lines = probe_lines(world, sizes)
    overhead = message_overhead(world)
    rounds = rehearsed(world, taken, max_size) if file else []
    if offsets is None:
        return
    auto = choose(taken, world.workers(hosts_clients=False))
    libraries, wrong = (library_version(), cuda_aware()), complaints(taken, threads)
    findings = Findings(*libraries, threads, taken, auto, offsets, lines, wrong)
    click.echo("\n".join(report(findings)))
    if file:
        account = settle(taken, lines, overhead, rounds) if rounds else None
        file.write_text(json.dumps(as_dict(findings, account), indent=1) + "\n")


def rehearsed(world: World, taken: list[Seat], max_size: float) -> list[Measured]:
    """**Collective.** No-op rounds of all sizes up to `max_size` MB, on rank 0."""
    from fedmpi.job.noop_rounds import rehearse_all

    if world.is_server and world.size > 1:
        click.echo("Measuring rounds in which nobody trains; this takes a few minutes.", err=True)
    return rehearse_all(world, taken, max_size * 2**20)


def settle(taken: list[Seat], lines: list[Line], overhead: float, rounds: list[Measured]) -> Account:
    """The machine that these measurements describe. What none of them shows is as in a typical cluster."""
    from fedmpi.comm.bandwidth import ARITHMETIC, arithmetic
    from fedmpi.job.noop_rounds import SMALL
    from fedmpi.scale import CLUSTER
    from fedmpi.scale.fit import fit

    rates = []
    for size in sorted({each.job.theta_bytes for each in rounds} - {SMALL}) or [ARITHMETIC]:
        add, step = arithmetic(size)
        rates.append(replace(CLUSTER.rates[-1], size=size, add=add, step=step))
    cores = len(set().union(*(seat.cores for seat in taken if seat.node == taken[0].node)))
    known = CLUSTER.changed({"overhead": overhead, "cores": cores, "rates": tuple(rates)})
    far = [line for line in lines if taken[line.rank].node != taken[0].node]
    if far:
        # The slowest line counts: a broadcast waits for it.
        latency = max(line.echoes[0].seconds for line in far)
        link = max((line.echoes[-1].seconds - line.echoes[0].seconds) / line.echoes[-1].size for line in far)
        known = known.changed({"latency": max(0.0, latency - 2 * overhead), "link": max(0.0, link)})
    machine, assumed = fit(known, rounds)
    return Account(machine, [*assumed, *([] if far else ["latency", "link"])], rounds)


def report(findings: Findings) -> list[str]:
    """The findings as lines of text: the ranks, then the lines to them, then what is wrong."""
    taken = findings.seats
    hosts = dict.fromkeys(seat.host for seat in taken)
    counts = ", ".join(f"{host} ({sum(seat.host == host for seat in taken)})" for host in hosts)
    out = [
        f"MPI      {findings.library}",
        f"GPUs     this MPI {GPU_BUFFERS[findings.cuda_aware]}",
        f"hosts    {counts}   (ranks)",
        f"threads  {findings.threads} per rank",
        "",
        table(rank_rows(findings)),
    ]
    if findings.lines:
        out += ["", "server and worker, one way: 8 B in µs, then MB/s (10⁶ bytes) by size of message", ""]
        out.append(table(line_rows(findings)))
    else:
        out += ["", "One process: no lines to measure. Start it under mpirun: mpirun -n 3 fedmpi doctor"]
    out += ["", *(f"warning: {sentence}" for sentence in findings.complaints)]
    return out if findings.complaints else [*out, "Nothing to complain of."]


def rank_rows(findings: Findings) -> list[list[str]]:
    rows = [["rank", "host", "role", "cores", "devices", "auto", "clock offset", "±"]]
    for seat in findings.seats:
        alone = len(findings.seats) == 1
        role = "server, worker" if alone else "worker" if seat.rank else "server"
        offset, error = findings.offsets.offset[seat.rank], findings.offsets.error[seat.rank]
        clock = [f"{offset * 1e6:.1f} µs", f"{error * 1e6:.1f} µs"] if seat.rank else ["", ""]
        devices = seat.masked(", ".join(seat.devices) or "cpu"), findings.auto[seat.rank] or "none"
        rows.append([str(seat.rank), seat.host, role, cores(seat), *devices, *clock])
    return rows


def cores(seat: Seat) -> str:
    """The cores a rank may use, such as '0-3 of 8'."""
    runs: list[list[int]] = []
    for core in seat.cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    spelled = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{spelled} of {seat.host_cores}"


def line_rows(findings: Findings) -> list[list[str]]:
    sizes = [echo.size for echo in max((line.echoes for line in findings.lines), key=len)]
    rows = [["rank", "transport", "8 B", *(words(size) for size in sizes[1:])]]
    for line in findings.lines:
        latency, *rest = line.echoes
        cells = [f"{echo.bandwidth / 1e6:.4g}" for echo in rest]
        cells += ["–"] * (len(sizes) - 1 - len(rest))
        rows.append([str(line.rank), transport(findings, line), f"{latency.seconds * 1e6:.1f} µs", *cells])
    return rows


def transport(findings: Findings, line: Line) -> str:
    """What moves messages between the server and this worker, as far as it can be known."""
    if line.carrier != "no network interface":
        return line.carrier
    if findings.seats[line.rank].host == findings.seats[0].host:
        return "shared memory"
    return "not known (no network interface counted the bytes)"


def words(size: int) -> str:
    for unit, name in ((2**20, "MB"), (2**10, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(rows: list[list[str]]) -> str:
    """The rows, of which the first is the header, as a table: words aligned to the left, numbers to the right."""
    from fedmpi.report.tables import text_table

    header, *body = rows
    return text_table(header, body, [k for k, name in enumerate(header) if name in WORDS])


def as_dict(findings: Findings, account: Account | None) -> dict[str, object]:
    """The findings for --json: seconds, bytes, bytes per second, seconds per byte."""
    offsets = findings.offsets
    return {
        "mpi_library": findings.library,
        "cuda_aware": findings.cuda_aware,
        "threads": findings.threads,
        "ranks": [
            {
                **asdict(seat),
                "auto": findings.auto[seat.rank],
                "clock_offset": offsets.offset[seat.rank],
                "clock_error": offsets.error[seat.rank],
            }
            for seat in findings.seats
        ],
        "lines": [
            {
                "rank": line.rank,
                "transport": transport(findings, line),
                "echoes": [{**asdict(echo), "bandwidth": echo.bandwidth} for echo in line.echoes],
            }
            for line in findings.lines
        ],
        "warnings": findings.complaints,
        "machine": asdict(account.machine) if account else None,
        "machine_assumed": account.assumed if account else [],
        "rounds": [{**asdict(each.job), "seconds": each.seconds} for each in account.rounds] if account else [],
    }
