"""fedmpi report"""

from __future__ import annotations

import click


@click.command()
@click.argument("records", metavar="RECORD...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", default="report", show_default=True, help="Directory of the report.")
@click.option(
    "--reference",
    metavar="SCHEME",
    help="Scheme that the others are compared with.  [default: md, or the first without md]",
)
@click.option(
    "--target",
    metavar="LOSS",
    type=float,
    help="Loss whose cost in rounds, bytes and seconds is reported.  [default: the lowest that every run reaches]",
)
def report(records: tuple[str, ...], output: str, reference: str | None, target: float | None) -> None:
    """Make tables (text, CSV, LaTeX), figures (PNG, PDF) and one HTML page from records.

    The records must belong to one experiment: same data, model and importances. Runs of a scheme that differ only in
    their seeds are averaged. An own scheme that has a law() is imported, so start this command where it can be found.
    """
    from fedmpi.report.write import write_report

    made = write_report(records, output, reference, target)
    for warning in made.warnings:
        click.echo(f"fedmpi: {warning}", err=True)
    for name in ("schemes", "target"):
        click.echo(made.tables[name].text())
        click.echo(f"{made.tables[name].caption}\n")
    click.echo(f"report: {made.page}")
