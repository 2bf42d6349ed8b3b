"""fedmpi report"""

from __future__ import annotations

import click


@click.command()
@click.argument("records", metavar="RECORD...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="DIR", default="report", show_default=True, help="Where to put the report.")
@click.option("--reference", metavar="SCHEME", help="Compare the others with this one.  [default: md, else the first]")
@click.option(
    "--target",
    metavar="LOSS",
    type=float,
    help="Say what it costs to reach this loss.  [default: the lowest loss that every run reaches]",
)
def report(records: tuple[str, ...], output: str, reference: str | None, target: float | None) -> None:
    """Turn records into tables (text, CSV, LaTeX), figures (PNG, PDF) and one HTML page.

    Records of one experiment: same data, model and importances. Runs of one scheme that differ by seed are averaged.
    """
    from fedmpi.report.write import write_report

    made = write_report(records, output, reference, target)
    for warning in made.warnings:
        click.echo(f"fedmpi: {warning}", err=True)
    for name in ("schemes", "target"):
        click.echo(made.tables[name].text())
        click.echo(f"{made.tables[name].caption}\n")
    click.echo(f"report: {made.page}")
