"""fedmpi sweep"""

from __future__ import annotations

from pathlib import Path

import click

from fedmpi.cli.source import debug_option, set_option


@click.command()
@click.argument("source", metavar="[PRESET|FILE]")
@set_option
@click.option("-o", "--output", metavar="DIR", help="Folder for the records.  [default: <run.name>]")
@click.option("--shard", metavar="i/N", default="0/1", help="Run only share i of N (i from 0), as a task of a Slurm "
              "array does.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Only count the runs and estimate how long they take.")
@debug_option
def sweep(source: str, overrides: tuple[str, ...], output: str | None, shard: str, listing: bool, debug: bool) -> None:
    """Run the grid of a [sweep] table.

    At each point of the grid and for each seed, all schemes run in one job, paired as in `fedmpi compare`, and each
    writes its own record. Finished runs are skipped and unfinished ones resumed, so after an interruption the same
    command completes the sweep.

    \b
    fedmpi sweep quadratic-run-small --list
    mpirun -n 3 fedmpi sweep quadratic-run-small -o runs
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.cli.source import load, on_all_ranks
    from fedmpi.comm.world import connect

    world = connect()
    config = on_all_ranks(world, lambda: load(source, overrides))
    from fedmpi.job import sweep as sweeps

    folder = Path(output or config.run.name)
    # On rank 0 first, so that a wrong --shard is reported once.
    world.from_server(lambda: len(sweeps.shard(sweeps.cells(config, folder), shard)))
    grid = sweeps.shard(sweeps.cells(config, folder), shard)
    left = sweeps.pick(grid, world.from_server(lambda: sweeps.missing(grid)))
    if world.is_server:
        runs, todo = (sum(len(cell.configs) for cell in part) for part in (grid, left))
        click.echo(f"{runs} runs, {runs - todo} of them finished")
    if listing:
        if world.is_server and left:
            seconds = sum(sweeps.estimate(cell, world.size - 1) for cell in left)
            click.echo(f"about {duration(seconds)} for the other {todo} on {max(1, world.size - 1)} workers")
        return
    for cell in left:
        with Progress(config.run.T * len(cell.configs), not world.is_server, len(cell.configs)) as progress:
            sweeps.run_cell(cell, world, debug=debug, on_round=progress.update)
    if world.is_server:
        click.echo(f"records: {folder}; a report compares the schemes at one point of the grid:")
        for point in dict.fromkeys(cell.point for cell in grid):
            click.echo(f"  fedmpi report {folder}/{point}*.h5 -o report/{point.rstrip('-')}")


def duration(seconds: float) -> str:
    """3 min, 2.5 h, 4 days."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.2g} {name}"
    return f"{seconds / 86400:.2g} days"
