"""fedmpi config"""

from __future__ import annotations

from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import click

from fedmpi.cli.source import set_option

if TYPE_CHECKING:
    from dataclasses import Field

INDENT = "    "
WIDEST = 100


@click.group()
def config() -> None:
    """Explain the settings, or print those of a preset."""


@config.command()
@click.argument("prefix", default="")
def explain(prefix: str) -> None:
    """List every key with its default, unit, meaning and allowed values.

    With PREFIX, only the keys that start with it, such as `comm.` or `client.K`.
    """
    from fedmpi.config import declared_keys
    from fedmpi.config.toml import toml_value
    from fedmpi.errors import ConfigError

    keys = [(dotted, declared) for dotted, declared in declared_keys() if dotted.startswith(prefix)]
    if not keys:
        raise ConfigError(f"no key starts with '{prefix}': `fedmpi config explain` lists them all")
    for dotted, declared in keys:
        default = {} if declared.default is MISSING else declared.default
        unit = f" [{declared.metadata['unit']}]" if declared.metadata["unit"] else ""
        click.echo(f"{dotted} = {toml_value(default)}{unit}")
        for text in (declared.metadata["meaning"], allowed(declared)):
            if text:
                click.echo(click.wrap_text(text, WIDEST, INDENT, INDENT))


def allowed(declared: Field[Any]) -> str:
    """The values that a key takes, in words; empty if its type alone says it."""
    limits = declared.metadata
    if limits["choices"]:
        return f"one of: {', '.join(limits['choices'])}"
    bounds = (("at least", limits["least"]), ("above", limits["above"]), ("at most", limits["most"]))
    return ", ".join(f"{words} {limit}" for words, limit in bounds if limit is not None)


@config.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]")
@set_option
def show(source: str, overrides: tuple[str, ...]) -> None:
    """Print the complete configuration of a preset, a file or a record, as TOML."""
    from fedmpi.cli.source import load

    click.echo(load(source, overrides).to_toml(), nl=False)
