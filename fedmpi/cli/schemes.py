"""fedmpi schemes"""

from __future__ import annotations

import click


@click.command()
def schemes() -> None:
    """List the sampling schemes, the values of sampling.scheme."""
    from fedmpi.sampling import SCHEMES

    width = max(len(name) for name in SCHEMES)
    for name, scheme in SCHEMES.items():
        click.echo(f"{name:<{width}}  {scheme.summary}")
    click.echo("\nYour own: -s sampling.scheme=package.module:Class, a class with draw(rng) (see docs/extending.md).")
