"""fedmpi sweep"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("source", metavar="[PRESET|FILE]")
@click.option("-s", "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a setting.")
@click.option("-o", "--output", metavar="DIR", help="Where the records go.  [default: <run.name>]")
@click.option("--shard", metavar="i/N", default="0/1", help="Run share i of N, as one task of a Slurm array does.")
@click.option("--list", "listing", is_flag=True, help="Say how many runs there are and how long they will take.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def sweep(source: str, overrides: tuple[str, ...], output: str | None, shard: str, listing: bool, debug: bool) -> None:
    """Run the grid of a [sweep] table.

    Every point and seed of the grid runs its schemes as pairs, into one record each. Finished runs are skipped and
    broken ones resumed, so the same command goes on after an interruption.
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.cli.run import load
    from fedmpi.comm.world import connect
    from fedmpi.config import Config

    world = connect()
    config = world.from_server(lambda: load(source, overrides), Config.to_toml, Config.from_toml)
    from fedmpi.job import sweep as sweeps

    folder = Path(output or config.run.name)
    world.from_server(lambda: len(sweeps.shard(sweeps.cells(config, folder), shard)))  # one error, not one per rank
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
