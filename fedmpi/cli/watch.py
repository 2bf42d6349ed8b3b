"""fedmpi watch"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedmpi.errors import RecordError

if TYPE_CHECKING:
    from fedmpi.report.live import Snapshot

REFRESH_SECONDS = 1.0
# The file of a run that is just starting is not complete yet.
START_SECONDS = 5.0


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("--once", is_flag=True, help="Print the state once and exit.")
@click.pass_context
def watch(ctx: click.Context, record: str, once: bool) -> None:
    """Show the progress of a run from its record, while it is being written.

    Refreshes once a second until the run ends or you press Ctrl-C. The exit code is 1 if the run failed.
    """
    from fedmpi.report.live import frame

    path = Path(record)
    if once:
        now = read_snapshot(path, 0)
        click.echo("\n".join(frame(now, shutil.get_terminal_size().columns)))
    else:
        try:
            now = follow(path, Terminal() if sys.stdout.isatty() else Log())
        except KeyboardInterrupt:
            return
    ctx.exit(1 if now.status == "failed" else 0)


def follow(path: Path, screen: Terminal | Log) -> Snapshot:
    """Show the record until the run has ended, and return its last state."""
    while True:
        now = read_snapshot(path, START_SECONDS)
        screen.show(now)
        if now.ended:
            return now
        time.sleep(REFRESH_SECONDS)


def read_snapshot(path: Path, patience: float) -> Snapshot:
    """The state of the record now. If it cannot be read, try again for `patience` seconds."""
    from fedmpi.report.live import snapshot

    deadline = time.monotonic() + patience
    while True:
        try:
            return snapshot(path)
        except RecordError:
            if time.monotonic() >= deadline or not path.exists():
                raise
            time.sleep(0.1)


class Terminal:
    """Draws each frame over the previous one."""

    def __init__(self) -> None:
        self.lines = 0

    def show(self, now: Snapshot) -> None:
        from fedmpi.report.live import frame

        width, height = shutil.get_terminal_size()
        # A line that wraps, or a frame taller than the window, could not be overwritten.
        lines = frame(now, width - 1)[: height - 1]
        back = f"\x1b[{self.lines}A" if self.lines else ""
        sys.stdout.write(back + "\r\x1b[J" + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self.lines = len(lines)


class Log:
    """Prints a line whenever something has changed."""

    def __init__(self) -> None:
        self.shown: tuple[int, str, bool] | None = None

    def show(self, now: Snapshot) -> None:
        from fedmpi.report.live import one_line

        news = (now.done, now.status, now.stalled)
        if news != self.shown:
            click.echo(one_line(now))
        self.shown = news
