"""fedmpi replay"""

from __future__ import annotations

import click

from fedmpi.cli.source import debug_option


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("-o", "--output", metavar="FILE", required=True, help="Record to write.")
@click.option("--compute", type=click.Choice(["none", "recorded"]), default="none", show_default=True,
              help="Training time of a client: none, or as recorded.")  # fmt: skip
@click.option("--force", is_flag=True, help="If the output exists, overwrite it.")
@debug_option
def replay(record: str, output: str, compute: str, force: bool, debug: bool) -> None:
    """Repeat a recorded run's communication on this network.

    Draws the same cohorts and moves the same bytes, without training, to find out what the rounds would cost here. The
    output is an ordinary record, which `fedmpi show` and `fedmpi report` compare with the original. With the same
    number of ranks, every client is on the same rank as in the original.

    \b
    mpirun -n 3 fedmpi replay demo.h5 -o here.h5
    """
    from fedmpi.comm.world import connect

    world = connect()
    from fedmpi.job.replay import replay as play_again

    play_again(record, output, world, compute=compute == "recorded", force=force, debug=debug)
    if world.is_server:
        from fedmpi.record import open_record
        from fedmpi.report.summary import comparison

        click.echo(comparison([open_record(record), open_record(output)]))
