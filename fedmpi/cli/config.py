"""fedmpi config"""

from __future__ import annotations

import click


@click.group()
def config() -> None:
    """Explain the settings, or print those of a preset."""


@config.command()
@click.argument("prefix", default="")
def explain(prefix: str) -> None:
    """List every key (or those that start with PREFIX) with its default, unit and meaning."""
    from fedmpi.config import declared_keys
    from fedmpi.config.toml import toml_value
    from fedmpi.errors import ConfigError

    keys = [(dotted, declared) for dotted, declared in declared_keys() if dotted.startswith(prefix)]
    if not keys:
        raise ConfigError(f"no key starts with '{prefix}': `fedmpi config explain` lists them all")
    for dotted, declared in keys:
        default = {} if dotted == "sampling.options" else declared.default
        unit = f" [{declared.metadata['unit']}]" if declared.metadata["unit"] else ""
        click.echo(f"{dotted} = {toml_value(default)}{unit}")
        click.echo(f"    {declared.metadata['meaning']}")
        if declared.metadata["choices"]:
            click.echo(f"    one of: {', '.join(declared.metadata['choices'])}")


@config.command()
@click.argument("source", metavar="[PRESET|FILE|RECORD]")
@click.option("-s", "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a setting.")
def show(source: str, overrides: tuple[str, ...]) -> None:
    """Print the complete configuration of a preset, a file or a record, as TOML."""
    from fedmpi.cli.source import load

    click.echo(load(source, overrides).to_toml(), nl=False)
