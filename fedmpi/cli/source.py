"""The settings that a command is given: a preset, a TOML file or a record, with `-s` overrides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.comm.world import World
    from fedmpi.config import Config

set_option = click.option(
    "-s",
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a setting, such as -s run.T=50; may be given several times. `fedmpi config explain` lists the keys.",
)
debug_option = click.option("--debug", is_flag=True, help="Show a traceback if something fails.")


def load(source: str, overrides: tuple[str, ...]) -> Config:
    """The configuration of a preset's name, a TOML file or a record, with `-s` overrides."""
    from fedmpi.config import Config, parse_override
    from fedmpi.record import is_record, open_record

    changes = dict(parse_override(text) for text in overrides)
    if is_record(source):
        with open_record(source) as record:
            return record.config.replace(changes)
    return Config.load(source, changes)


def on_all_ranks(world: World, read: Callable[[], Config]) -> Config:
    """**Collective.** The config that `read` returns on rank 0, on every rank.

    Only rank 0 reads files, so that an error is reported once; every rank parses the settings once.
    """
    from fedmpi.config import Config

    return world.from_server(read, Config.to_toml, Config.from_toml)
