"""fedmpi presets"""

from __future__ import annotations

import click


@click.command()
def presets() -> None:
    """List the presets that `fedmpi run` knows by name."""
    from fedmpi.config import presets as shipped

    width = max(len(name) for name in shipped())
    for name, path in shipped().items():
        about = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        click.echo(f"{name:<{width}}  {about}")
