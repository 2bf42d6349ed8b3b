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

EVERY = 1.0
# A run that is just being started has a file, but not yet a whole one.
START = 5.0


@click.command()
@click.argument("record", metavar="RECORD")
@click.option("--once", is_flag=True, help="Print one frame and leave.")
@click.pass_context
def watch(ctx: click.Context, record: str, once: bool) -> None:
    """Show a record while it is being written, from another process.

    Redraws once a second until the run ends; Ctrl-C leaves. Exit code 1 if the run failed.
    """
    from fedmpi.report.live import frame

    path = Path(record)
    if once:
        now = look(path, 0)
        click.echo("\n".join(frame(now, shutil.get_terminal_size().columns)))
    else:
        try:
            now = follow(path, Terminal() if sys.stdout.isatty() else Log())
        except KeyboardInterrupt:
            return
    ctx.exit(1 if now.status == "failed" else 0)


def follow(path: Path, screen: Terminal | Log) -> Snapshot:
    """Show the record until it says that the run has ended."""
    while True:
        now = look(path, START)
        screen.show(now)
        if now.ended:
            return now
        time.sleep(EVERY)


def look(path: Path, patience: float) -> Snapshot:
    """The record now; one that cannot be read at this moment is tried again for so many seconds."""
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
    """Each frame drawn over the last one."""

    def __init__(self) -> None:
        self.lines = 0

    def show(self, now: Snapshot) -> None:
        from fedmpi.report.live import frame

        width, height = shutil.get_terminal_size()
        # A line that wraps, or a frame taller than the window, could not be drawn over.
        lines = frame(now, width - 1)[: height - 1]
        back = f"\x1b[{self.lines}A" if self.lines else ""
        sys.stdout.write(back + "\r\x1b[J" + "\n".join(lines) + "\n")
        sys.stdout.flush()
        self.lines = len(lines)


class Log:
    """A line whenever something has changed."""

    def __init__(self) -> None:
        self.said: tuple[int, str, bool] | None = None

    def show(self, now: Snapshot) -> None:
        from fedmpi.report.live import one_line

        news = (now.done, now.status, now.stalled)
        if news != self.said:
            click.echo(one_line(now))
        self.said = news
