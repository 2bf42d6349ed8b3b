"""fedmpi compare"""

from __future__ import annotations

from pathlib import Path

import click

from fedmpi.cli.source import debug_option, set_option


@click.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]", default="demo")
@click.option("--schemes", default="md,uniform,clustered", show_default=True, metavar="A,B,…",
              help="Schemes to compare; `fedmpi schemes` lists them.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of seeds: run.seed, run.seed + 1, …")  # fmt: skip
@set_option
@click.option("-o", "--output", metavar="DIR", default="compare", show_default=True, help="Folder for the records.")
@click.option("--resume", is_flag=True, help="Continue unfinished records in the folder; finished ones stay.")
@click.option("--force", is_flag=True, help="Overwrite records that exist.")
@debug_option
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
    """Run several schemes in one job, and compare them.

    Their rounds are interleaved, and the comparison is paired: all schemes start from the same θ⁰, a client draws the
    same batches under each, and disturbances of the machine and network affect all alike. Writes one record per scheme
    and seed; `fedmpi report` draws the comparison.

    \b
    mpirun -n 3 fedmpi compare demo --schemes md,uniform --seeds 5 -o pairs
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.cli.source import load, on_all_ranks
    from fedmpi.comm.world import connect

    world = connect()
    grid = {"sweep.schemes": [name.strip() for name in schemes.split(",") if name.strip()], "sweep.seeds": seeds}
    config = on_all_ranks(world, lambda: load(source, overrides).replace(grid))
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
