"""`fedmpi bench draw`: what a draw costs as n grows, against numpy's own choice."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

import click

SCHEMES = ("md", "uniform", "binomial", "poisson", "clustered")
RIVALS = ("Generator.choice(p=p)", "RandomState.choice(p=p)")


@dataclass(frozen=True)
class Cost:
    """Set-up in s, median draw in ms, memory kept and at its peak in MiB; None where m is not feasible."""

    n: int
    name: str
    setup: float | None
    draw: float | None
    kept: float | None
    peak: float | None


@click.command()
@click.option("--max-n", default=10**7, show_default=True, help="Largest n; starts at 10³, times 10 each.")
@click.option("-m", default=1000, show_default=True, help="Clients drawn.")
@click.option("--repeats", default=31, show_default=True, help="Draws per median.")
@click.option("--seed", default=0, show_default=True)
@click.option("--doubling", is_flag=True, help="Also n twice as large at each step, to see the growth.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def draw(max_n: int, m: int, repeats: int, seed: int, doubling: bool, markdown: bool, as_json: bool) -> None:
    """Set-up time, time per draw and memory of the schemes whose draws do not grow with n.

    Importances are n_i/M with log-normal sizes. The draws of all schemes and rivals take turns, and each time
    is the median over them, so that a busy moment of the machine falls on all alike.
    """
    costs: list[Cost] = []
    n = 1000
    while n <= max_n:
        costs += measure(n, m, repeats, seed)
        if doubling:
            costs += measure(2 * n, m, repeats, seed)
        n *= 10
    if as_json:
        click.echo(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        click.echo("\n".join(report(costs, m, markdown)))


def measure(n: int, m: int, repeats: int, seed: int) -> list[Cost]:
    """The costs of all schemes and rivals at this n, draws interleaved."""
    import numpy as np

    from fedmpi.errors import ConfigError
    from fedmpi.sampling import Scheme, make_scheme

    rng = np.random.default_rng(seed)
    legacy = np.random.RandomState(seed)
    sizes = np.ceil(rng.lognormal(5, 1, n)).astype(np.int64)
    p = sizes / sizes.sum()
    set_up: dict[str, tuple[float, float, float]] = {}
    draws: dict[str, Callable[[], object]] = {}

    def drawing(scheme: Scheme) -> Callable[[], object]:
        return lambda: scheme.draw(rng)

    for name in SCHEMES:
        try:
            start = time.perf_counter()
            make_scheme(name, p=p, m=m, sizes=sizes).draw(rng)
            seconds = time.perf_counter() - start
        except ConfigError:
            continue
        tracemalloc.start()
        scheme = make_scheme(name, p=p, m=m, sizes=sizes)
        scheme.draw(rng)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        set_up[name] = seconds, kept / 2**20, peak / 2**20
        draws[name] = drawing(scheme)
    draws[RIVALS[0]] = lambda: rng.choice(n, m, p=p)
    draws[RIVALS[1]] = lambda: legacy.choice(n, m, p=p)
    times: dict[str, list[float]] = {name: [] for name in draws}
    for _ in range(repeats):
        for name, one_draw in draws.items():
            start = time.perf_counter()
            one_draw()
            times[name].append(time.perf_counter() - start)
    costs = []
    for name in (*SCHEMES, *RIVALS):
        setup, kept_mib, peak_mib = set_up.get(name, (None, None, None))
        milliseconds = median(times[name]) * 1e3 if name in times else None
        costs.append(Cost(n, name, setup, milliseconds, kept_mib, peak_mib))
    return costs


def report(costs: list[Cost], m: int, markdown: bool) -> list[str]:
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
