"""fedmpi bench"""

from __future__ import annotations

import click

from fedmpi.cli.bench_comm import comm
from fedmpi.cli.bench_draw import draw


@click.group()
def bench() -> None:
    """Measure fedmpi's parts against the raw limits."""


bench.add_command(comm)
bench.add_command(draw)
