"""fedmpi bench draw"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.scale.draws import DrawCost


@click.command()
@click.option("--max-n", default=10**7, show_default=True, help="Largest number of clients n; starts at 10³, times 10 "
              "each.")  # fmt: skip
@click.option("-m", default=1000, show_default=True, help="Number of clients drawn.")
@click.option("--repeats", default=31, show_default=True, help="Draws per median.")
@click.option("--seed", default=0, show_default=True, help="Seed of the clients' sizes and of the draws.")
@click.option("--doubling", is_flag=True, help="Also measure 2n at each step, to see how the cost grows.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def draw(max_n: int, m: int, repeats: int, seed: int, doubling: bool, markdown: bool, as_json: bool) -> None:
    """Measure set-up time, time per draw and memory of the schemes whose draws do not grow with n.

    Importances are n_i/M with log-normal sizes. Draws of all schemes, and of numpy's choice for comparison, are
    interleaved, and each time is a median, so that a busy moment of the machine affects all alike.
    """
    from fedmpi.scale.draws import measure_draws, numbers_of_clients

    costs = [cost for n in numbers_of_clients(max_n, doubling) for cost in measure_draws(n, m, repeats, seed)]
    if as_json:
        click.echo(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        click.echo("\n".join(report(costs, m, markdown)))


def report(costs: list[DrawCost], m: int, markdown: bool) -> list[str]:
    """The costs as lines of text or Markdown."""
    from fedmpi.report.tables import text_table

    def number(value: float | None, digits: int) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    rows = []
    for c in costs:
        infeasible = " (infeasible)" if c.draw is None else ""
        times = (number(c.setup, 3), number(c.draw, 3))
        rows.append((f"{c.n:,}", c.name + infeasible, *times, number(c.kept, 1), number(c.peak, 1)))
    header = ("n", "scheme", "set-up s", "draw ms", "kept MiB", "peak MiB")
    head = [] if markdown else [f"m = {m}; memory is what set-up allocates, apart from p itself", ""]
    return [*head, text_table(header, rows, (1,), markdown)]
