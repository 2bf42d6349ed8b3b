"""fedmpi bench"""

from __future__ import annotations

import click

from fedmpi.cli.bench_comm import comm
from fedmpi.cli.bench_draw import draw


@click.group()
def bench() -> None:
    """Measure fedmpi's own cost beside raw MPI and numpy."""


bench.add_command(comm)
bench.add_command(draw)
