"""fedmpi show"""

from __future__ import annotations

import click


@click.command()
@click.argument("records", metavar="RECORD...", nargs=-1, required=True)
def show(records: tuple[str, ...]) -> None:
    """Summarise a record, or compare several in a table."""
    from fedmpi.record import open_record
    from fedmpi.report.summary import about, comparison

    opened = [open_record(path) for path in records]
    if len(opened) == 1:
        click.echo(about(opened[0]))
        click.echo()
    click.echo(comparison(opened))
