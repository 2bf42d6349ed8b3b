"""fedmpi presets"""

from __future__ import annotations

import click


@click.command()
def presets() -> None:
    """List the presets, which `fedmpi run` takes by name.

    Those that end in -small are cut down to run in minutes on two cores.
    """
    from fedmpi.config import presets as shipped

    width = max(len(name) for name in shipped())
    for name, path in shipped().items():
        about = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        click.echo(f"{name:<{width}}  {about}")
