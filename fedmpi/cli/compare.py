"""fedmpi compare"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]", default="demo")
@click.option("--schemes", default="md,uniform,clustered", show_default=True, help="The schemes, with commas between.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="So many seeds, from run.seed.")
@click.option("-s", "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a setting.")
@click.option("-o", "--output", metavar="DIR", default="compare", show_default=True, help="Where the records go.")
@click.option("--resume", is_flag=True, help="Go on with records that exist; finished ones stay as they are.")
@click.option("--force", is_flag=True, help="Replace records that exist.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def compare(
    source: str,
    schemes: str,
    seeds: int,
    overrides: tuple[str, ...],
    output: str,
    resume: bool,
    force: bool,
    debug: bool,
) -> None:
    """Run several schemes in one job, round by round in turn.

    All start from the same θ⁰ and every client draws the same batches whatever the scheme, and noise of machine and
    network falls on all alike: differences are the schemes'. One record per scheme and seed, with a common pair id.
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.cli.run import load
    from fedmpi.comm.world import connect
    from fedmpi.config import Config

    world = connect()
    grid = {"sweep.schemes": [name.strip() for name in schemes.split(",") if name.strip()], "sweep.seeds": seeds}
    config = world.from_server(lambda: load(source, overrides).replace(grid), Config.to_toml, Config.from_toml)
    from fedmpi.job.sweep import cells, missing, pick, run_cell
    from fedmpi.record import refuse_existing

    work = cells(config, Path(output))
    paths = [path for cell in work for path in cell.paths]

    def check_outputs() -> list[tuple[int, list[int]]]:
        for path in paths:
            if force:
                path.unlink(missing_ok=True)
            elif not resume:
                refuse_existing(path, force)
        return missing(work)

    left = pick(work, world.from_server(check_outputs))
    with Progress(config.run.T * len(paths), not world.is_server, len(paths)) as progress:
        for cell in left:
            run_cell(cell, world, debug=debug, on_round=progress.update)
    if world.is_server:
        from fedmpi.record import open_record
        from fedmpi.report.summary import comparison

        click.echo(comparison([open_record(path) for path in paths]))
        click.echo(f"records: {output}; `fedmpi report {output}/*.h5 -o report` draws them")
