"""fedmpi replay"""

from __future__ import annotations

import click


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("-o", "--output", metavar="FILE", required=True, help="The record to write.")
@click.option("--compute", type=click.Choice(["none", "recorded"]), default="none", show_default=True,
              help="Updates are ready at once, or after the seconds that were recorded.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def replay(record: str, output: str, compute: str, force: bool, debug: bool) -> None:
    """Carry out a recorded run's communication again, on the present network.

    Same cohorts, same bytes, nobody trains: what the same rounds would cost here. The result is a record like any
    other, to be shown and reported next to the original. Under mpirun, with the same number of ranks, clients live
    where they lived.
    """
    from fedmpi.comm.world import connect

    world = connect()
    from fedmpi.job.replay import replay as play_again

    play_again(record, output, world, compute=compute == "recorded", force=force, debug=debug)
    if world.is_server:
        from fedmpi.record import open_record
        from fedmpi.report.summary import comparison

        click.echo(comparison([open_record(record), open_record(output)]))
