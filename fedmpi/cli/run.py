"""fedmpi run"""

from __future__ import annotations

from pathlib import Path

import click

from fedmpi.cli.source import debug_option, set_option


@click.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]", default="demo")
@set_option
@click.option("-o", "--output", metavar="FILE", help="Record to write.  [default: <run.name>.h5]")
@click.option("--resume", is_flag=True, help="If the output exists, continue it from its last checkpoint.")
@click.option("--force", is_flag=True, help="If the output exists, overwrite it.")
@click.option("--profile", is_flag=True, help="Also write a timeline of all ranks to <output>.trace.json, which "
              "ui.perfetto.dev opens.")  # fmt: skip
@debug_option
def run(
    source: str,
    overrides: tuple[str, ...],
    output: str | None,
    resume: bool,
    force: bool,
    profile: bool,
    debug: bool,
) -> None:
    """Run one federation and record it.

    The settings come from a preset (`fedmpi presets` lists them), a TOML file, or a record to run again. Under mpirun,
    rank 0 is the server and the other ranks train the clients; without mpirun, one process does both.

    \b
    fedmpi run demo
    mpirun -n 3 fedmpi run demo -s run.T=50 -o fifty.h5
    fedmpi run fifty.h5 --resume                 continue an interrupted run
    fedmpi run fifty.h5 --resume -s run.T=200    extend a finished run to 200 rounds
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.cli.source import load, on_all_ranks
    from fedmpi.comm.world import connect
    from fedmpi.errors import ConfigError
    from fedmpi.record import find_earlier_run, is_record

    world = connect()
    if resume and force:
        raise ConfigError("--resume continues a record and --force overwrites it: choose one")
    config = on_all_ranks(world, lambda: load(source, overrides))
    path = Path(output or (source if resume and is_record(source) else f"{config.run.name}.h5"))

    def is_over() -> bool:
        earlier = find_earlier_run(path, config) if resume else None
        return earlier is not None and earlier.is_complete(config)

    if world.from_server(is_over):
        if world.is_server:
            click.echo(f"{path} is done: all {config.run.T} rounds; -s run.T=… extends it")
        return
    # Torch takes seconds to import: errors in the settings are reported before.
    from fedmpi.job.start import run_job

    timeline = path.with_suffix(".trace.json") if profile else None
    with Progress(config.run.T, quiet=not world.is_server) as progress:
        run_job(
            [config],
            [path],
            world,
            force=force,
            resume=resume,
            debug=debug,
            on_round=progress.update,
            profile=timeline,
        )
    if world.is_server:
        click.echo(f"record: {path}")
        if timeline:
            click.echo(f"timeline: {timeline} (open it at ui.perfetto.dev or chrome://tracing)")
