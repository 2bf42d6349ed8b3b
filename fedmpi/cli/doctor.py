"""fedmpi doctor"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.comm.bandwidth import Line
    from fedmpi.comm.clocks import Offsets
    from fedmpi.comm.hardware import RankHardware
    from fedmpi.comm.world import World
    from fedmpi.scale.fit import Measured
    from fedmpi.scale.measurement import FittedMachine


MB = 2**20
GPU_BUFFERS = {
    True: "takes GPU buffers: θ and uncompressed per-client updates are not copied through the host",
    False: "takes host buffers only, which is what fedmpi gives it",
    None: "does not tell whether it takes GPU buffers",
}
# The columns that hold words, not numbers.
WORDS = ("host", "role", "cores", "devices", "auto", "transport")


@dataclass(frozen=True)
class Diagnosis:
    """What was found out about an MPI job: its library, ranks, the devices of "auto", clocks, lines, and warnings."""

    library: str
    cuda_aware: bool | None
    threads: int
    hardware: list[RankHardware]
    auto: list[str]
    offsets: Offsets
    lines: list[Line]
    warnings: list[str]


@click.command(short_help="Check this MPI job: hosts, cores, clocks, bandwidth.")
@click.option("--threads", default=1, show_default=True, help="Threads per rank of the run that you plan "
              "(client.threads).")  # fmt: skip
@click.option("--max-size", default=64.0, show_default=True, help="Largest message, in MB (2²⁰ bytes).")
@click.option("--json", "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write all "
              "of it to this file, for `fedmpi plan --measured`. Also measures rounds without training, which takes "
              "some minutes.")  # fmt: skip
def doctor(threads: int, max_size: float, file: Path | None) -> None:
    """Check this MPI job: library, hosts, cores, devices, clocks, latency, bandwidth.

    Prints the MPI library; the host, cores and devices of every rank; the device that client.device = "auto" would
    choose; the clock offset of every rank; and latency and bandwidth between the server and each worker. Warns of
    what slows a run down. Start it as you would start the run:

    \b
    mpirun -n 3 fedmpi doctor
    """
    from fedmpi.comm.bandwidth import SIZES, message_overhead, probe_lines
    from fedmpi.comm.clocks import measure
    from fedmpi.comm.hardware import choose_devices, gather_hardware, slowdowns
    from fedmpi.comm.world import connect, cuda_aware, library_version
    from fedmpi.errors import ConfigError
    from fedmpi.models.device import visible_devices

    if threads < 1:
        raise ConfigError(f"--threads {threads}: must be at least 1")
    world = connect()
    hardware = gather_hardware(world, visible_devices())
    offsets = measure(world)
    sizes = [size for size in SIZES if size <= max(8.0, max_size * MB)]
    lines = probe_lines(world, sizes)
    overhead = message_overhead(world)
    rounds = measure_rounds(world, hardware, max_size) if file else []
    if offsets is None:
        return
    auto = choose_devices(hardware, world.workers(hosts_clients=False))
    libraries, warnings = (library_version(), cuda_aware()), slowdowns(hardware, threads)
    diagnosis = Diagnosis(*libraries, threads, hardware, auto, offsets, lines, warnings)
    click.echo("\n".join(report(diagnosis)))
    if file:
        fitted = fit(hardware, lines, overhead, rounds) if rounds else None
        file.write_text(json.dumps(as_dict(diagnosis, fitted), indent=1) + "\n")


def measure_rounds(world: World, hardware: list[RankHardware], max_size: float) -> list[Measured]:
    """**Collective.** No-op rounds of all sizes up to `max_size` MB, on rank 0."""
    from fedmpi.job.noop_rounds import measure_machine

    if world.is_server and world.size > 1:
        click.echo("Measuring rounds without training; this takes a few minutes.", err=True)
    return measure_machine(world, hardware, max_size * MB)


def fit(hardware: list[RankHardware], lines: list[Line], overhead: float, rounds: list[Measured]) -> FittedMachine:
    """The machine that these measurements describe, with the server's arithmetic timed here."""
    from fedmpi.comm.bandwidth import ARITHMETIC, arithmetic
    from fedmpi.job.noop_rounds import SMALL
    from fedmpi.scale.measurement import fit_machine

    sizes = sorted({each.job.theta_bytes for each in rounds} - {SMALL}) or [ARITHMETIC]
    far = [line for line in lines if hardware[line.rank].node != hardware[0].node]
    return fit_machine(
        rounds,
        overhead=overhead,
        cores=len(set().union(*(rank.cores for rank in hardware if rank.node == hardware[0].node))),
        arithmetic={size: arithmetic(size) for size in sizes},
        far=[[(echo.size, echo.seconds) for echo in line.echoes] for line in far],
    )


def report(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis as lines of text: the ranks, then the lines to the workers, then the warnings."""
    hardware = diagnosis.hardware
    hosts = dict.fromkeys(rank.host for rank in hardware)
    counts = ", ".join(f"{host} ({sum(rank.host == host for rank in hardware)})" for host in hosts)
    out = [
        f"MPI      {diagnosis.library}",
        f"GPUs     this MPI {GPU_BUFFERS[diagnosis.cuda_aware]}",
        f"hosts    {counts}   (ranks)",
        f"threads  {diagnosis.threads} per rank",
        "",
        table(rank_rows(diagnosis)),
    ]
    if diagnosis.lines:
        out += ["", "server and worker, one way: 8 B in µs, then MB/s (10⁶ bytes) by size of message", ""]
        out.append(table(line_rows(diagnosis)))
    else:
        out += ["", "One process, so there are no lines to measure. Start it under mpirun: mpirun -n 3 fedmpi doctor"]
    out += ["", *(f"warning: {sentence}" for sentence in diagnosis.warnings)]
    return out if diagnosis.warnings else [*out, "No problems found."]


def rank_rows(diagnosis: Diagnosis) -> list[list[str]]:
    """A header and one row per rank: where it runs, what it has, its clock."""
    rows = [["rank", "host", "role", "cores", "devices", "auto", "clock offset", "±"]]
    for rank in diagnosis.hardware:
        alone = len(diagnosis.hardware) == 1
        role = "server, worker" if alone else "worker" if rank.rank else "server"
        offset, error = diagnosis.offsets.offset[rank.rank], diagnosis.offsets.error[rank.rank]
        clock = [f"{offset * 1e6:.1f} µs", f"{error * 1e6:.1f} µs"] if rank.rank else ["", ""]
        devices = rank.with_mask(", ".join(rank.devices) or "cpu"), diagnosis.auto[rank.rank] or "none"
        rows.append([str(rank.rank), rank.host, role, cores(rank), *devices, *clock])
    return rows


def cores(rank: RankHardware) -> str:
    """The cores a rank may use, such as '0-3 of 8'."""
    runs: list[list[int]] = []
    for core in rank.cores:
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    spelled = ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{spelled} of {rank.host_cores}"


def line_rows(diagnosis: Diagnosis) -> list[list[str]]:
    """A header and one row per worker: latency and bandwidth by size of message."""
    sizes = [echo.size for echo in max((line.echoes for line in diagnosis.lines), key=len)]
    rows = [["rank", "transport", "8 B", *(binary_size(size) for size in sizes[1:])]]
    for line in diagnosis.lines:
        latency, *rest = line.echoes
        cells = [f"{echo.bandwidth / 1e6:.4g}" for echo in rest]
        cells += ["–"] * (len(sizes) - 1 - len(rest))
        rows.append([str(line.rank), transport(diagnosis, line), f"{latency.seconds * 1e6:.1f} µs", *cells])
    return rows


def transport(diagnosis: Diagnosis, line: Line) -> str:
    """What carries messages between the server and this worker, as far as it can be determined."""
    if line.carrier != "no network interface":
        return line.carrier
    if diagnosis.hardware[line.rank].host == diagnosis.hardware[0].host:
        return "shared memory"
    return "unknown (no network interface counted the bytes)"


def binary_size(size: int) -> str:
    """8 B, 64 KB, 2 MB: units of 2¹⁰ and 2²⁰ bytes."""
    for unit, name in ((2**20, "MB"), (2**10, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def table(rows: list[list[str]]) -> str:
    """The rows, of which the first is the header, as a table: words aligned to the left, numbers to the right."""
    from fedmpi.report.tables import text_table

    header, *body = rows
    return text_table(header, body, [k for k, name in enumerate(header) if name in WORDS])


def as_dict(diagnosis: Diagnosis, fitted: FittedMachine | None) -> dict[str, object]:
    """The diagnosis for --json, in seconds, bytes, bytes per second, seconds per byte."""
    offsets = diagnosis.offsets
    return {
        "mpi_library": diagnosis.library,
        "cuda_aware": diagnosis.cuda_aware,
        "threads": diagnosis.threads,
        "ranks": [
            {
                **asdict(rank),
                "auto": diagnosis.auto[rank.rank],
                "clock_offset": offsets.offset[rank.rank],
                "clock_error": offsets.error[rank.rank],
            }
            for rank in diagnosis.hardware
        ],
        "lines": [
            {
                "rank": line.rank,
                "transport": transport(diagnosis, line),
                "echoes": [{**asdict(echo), "bandwidth": echo.bandwidth} for echo in line.echoes],
            }
            for line in diagnosis.lines
        ],
        "warnings": diagnosis.warnings,
        "machine": asdict(fitted.machine) if fitted else None,
        "machine_assumed": list(fitted.assumed) if fitted else [],
        "rounds": [{**asdict(each.job), "seconds": each.seconds} for each in fitted.rounds] if fitted else [],
    }
