"""fedmpi bench comm"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.comm.bench import Result

KB, MB = 2**10, 2**20
SMALLEST = 64 * KB
# The names of the paths in fedmpi.comm.bench, which imports mpi4py.
RAW, PICKLED, REDUCE = "raw buffers", "pickled", "raw Reduce"
PER_CLIENT, NOT_ADDED, REDUCED = "per-client", "per-client, not added", "reduced"


@click.command()
@click.option("--max-size", default=256.0, show_default=True, help="Largest θ, in MB (2²⁰ bytes); starts at 64 KB.")
@click.option("--updates", default=4, show_default=True, help="Updates that each worker sends per turn.")
@click.option("--turns", default=15, show_default=True, help="Turns per median; a third of them from 64 MB on.")
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--plot", "picture", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Also draw the results to this file.")  # fmt: skip
def comm(
    max_size: float, updates: int, turns: int, markdown: bool, as_json: bool, picture: Path | None
) -> None:  # fmt: skip
    """Measure the bandwidth of model-sized messages: fedmpi beside raw mpi4py buffers and pickled objects.

    Needs mpirun and at least one worker. All ways of sending take turns in one job, and each time is a median over
    turns. `down` lasts from the server's first call until all ranks hold θ; `up` from there until the server has added
    every update to its sum ("per-client"), or only received it ("not added").

    \b
    mpirun -n 3 fedmpi bench comm
    """
    from fedmpi.comm.bench import race
    from fedmpi.comm.world import connect
    from fedmpi.errors import ConfigError

    world = connect()
    if world.size < 2:
        raise ConfigError("bench comm needs at least two ranks: mpirun -n 3 fedmpi bench comm")
    if updates < 1 or turns < 1:
        raise ConfigError("--updates and --turns must be at least 1")
    results: list[Result] = []
    for result in race(world, sizes(max_size), updates, turns):
        results.append(result)
    if not world.is_server:
        return
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=1))
    else:
        click.echo("\n".join(report(results, world.size - 1, markdown)))
    if picture:
        from fedmpi.report.figures.bandwidth import draw_comm

        draw_comm(results, picture)
        click.echo(f"Wrote {picture}.", err=True)


def sizes(max_size: float) -> list[int]:
    """Bytes of θ: 64 KB, 128 KB, … 1 MB, then 4, 16, 64, 256 MB."""
    steps = [SMALLEST << k for k in range(5)] + [MB << k for k in (2, 4, 6, 8)]
    return [size for size in steps if size <= max(SMALLEST, max_size * MB)]


def report(results: list[Result], workers: int, markdown: bool) -> list[str]:
    """Three tables: updates up, θ down, and the reduction."""
    from fedmpi.cli.doctor import binary_size
    from fedmpi.report.tables import text_table

    by = {(result.size, result.path): result for result in results}
    found = sorted({result.size for result in results})
    updates = results[0].updates
    out = [f"Collecting {updates} updates from {workers} workers, GB/s (10⁹ bytes); share of raw buffers", ""]
    header = ["|θ|", RAW, PER_CLIENT, "", NOT_ADDED, "", PICKLED, "raw ÷ pickled", "per-client ÷ pickled"]
    rows = []
    for size in found:
        raw, kept, flown, pickled = (
            size * updates / by[size, path].up / 1e9 for path in (RAW, PER_CLIENT, NOT_ADDED, PICKLED)
        )
        shares = [f"{raw:.2f}", f"{kept:.2f}", f"{kept / raw:.0%}", f"{flown:.2f}", f"{flown / raw:.0%}"]
        rows.append([binary_size(size), *shares, f"{pickled:.2f}", f"{raw / pickled:.1f}", f"{kept / pickled:.1f}"])
    out += [text_table(header, rows, (), markdown), "", f"θ down to {workers} workers, GB/s over all of them", ""]
    header = ["|θ|", "raw Bcast", "fedmpi", "", "pickled bcast", "fedmpi ÷ pickled"]
    rows = []
    for size in found:
        raw, own, pickled = (size * workers / by[size, path].down / 1e9 for path in (RAW, PER_CLIENT, PICKLED))
        rows.append(
            [
                binary_size(size),
                f"{raw:.2f}",
                f"{own:.2f}",
                f"{own / raw:.0%}",
                f"{pickled:.2f}",
                f"{own / pickled:.1f}",
            ]
        )
    out += [text_table(header, rows, (), markdown), "", f"Reducing the same {updates} updates, ms", ""]
    header = ["|θ|", "raw Reduce of sums", "fedmpi reduced (adds, then reduces)"]
    rows = [[binary_size(size), *(f"{by[size, path].up * 1e3:.2f}" for path in (REDUCE, REDUCED))] for size in found]
    return [*out, text_table(header, rows, (), markdown)]
