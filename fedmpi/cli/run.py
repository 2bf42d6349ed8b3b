"""fedmpi run"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.config import Config


@click.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]", default="demo")
@click.option(
    "-s", "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a setting, such as run.T=50."
)
@click.option("-o", "--output", metavar="FILE", help="The record to write.  [default: <run.name>.h5]")
@click.option("--resume", is_flag=True, help="Go on with the output if it exists, from its last checkpoint.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--profile", is_flag=True, help="Also write a timeline of all ranks, for Perfetto: <output>.trace.json.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
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

    SOURCE is a preset's name (`fedmpi presets`), a TOML file, or a record to run again. Under mpirun, rank 0 is
    the server and the other ranks train the clients; alone, one process does both.

    \b
    fedmpi run RECORD --resume                  go on with a run that was broken off
    fedmpi run RECORD --resume -s run.T=200     or with one that is done, to more rounds
    """
    from fedmpi.cli.progress import Progress
    from fedmpi.comm.world import connect
    from fedmpi.config import Config
    from fedmpi.errors import ConfigError
    from fedmpi.record import find_earlier_run, is_record

    world = connect()
    if resume and force:
        raise ConfigError("--resume goes on with a record, --force replaces it: choose one")
    config = world.from_server(lambda: load(source, overrides), Config.to_toml, Config.from_toml)
    path = Path(output or (source if resume and is_record(source) else f"{config.run.name}.h5"))

    def is_over() -> bool:
        earlier = find_earlier_run(path, config) if resume else None
        return earlier is not None and earlier.is_complete(config)

    if world.from_server(is_over):
        if world.is_server:
            click.echo(f"{path} is done: all {config.run.T} rounds; -s run.T=… extends it")
        return
    # Torch takes seconds to import: a mistake in the settings is answered before.
    from fedmpi.job.start import run_job

    with Progress(config.run.T, quiet=not world.is_server) as progress:
        timeline = path.with_suffix(".trace.json") if profile else None
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


def load(source: str, overrides: tuple[str, ...]) -> Config:
    """The configuration of a preset, a file or a record, with `-s` overrides."""
    from fedmpi.config import Config, parse_override
    from fedmpi.record import is_record, open_record

    changes = dict(parse_override(text) for text in overrides)
    if is_record(source):
        with open_record(source) as record:
            return record.config.replace(changes)
    return Config.load(source, changes)
