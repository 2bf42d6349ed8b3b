"""fedmpi schemes"""

from __future__ import annotations

import click


@click.command()
def schemes() -> None:
    """List the sampling schemes, the values of sampling.scheme."""
    from fedmpi.sampling import SCHEMES

    rows = [(name, f"{'BIASED: ' if scheme.biased else ''}{scheme.summary}") for name, scheme in SCHEMES.items()]
    width = max(len(name) for name, _ in rows)
    for name, summary in rows:
        click.echo(f"{name:<{width}}  {summary}")
    click.echo("\nYour own: -s sampling.scheme=package.module:Class, a class with draw(rng) (see the README).")
