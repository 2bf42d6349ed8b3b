"""The command line: one file per command, each importing the rest of fedmpi only when it runs."""

from __future__ import annotations

import os
import sys
import time
import traceback
from importlib import import_module

import click

import fedmpi
from fedmpi.comm.launcher import is_first_rank, write_exit_file
from fedmpi.errors import FedmpiError

# command -> module that defines a click command of the same name ("-" becomes "_")
COMMANDS = (
    "run",
    "compare",
    "sweep",
    "replay",
    "doctor",
    "launch",
    "plan",
    "show",
    "report",
    "watch",
    "theory",
    "schemes",
    "presets",
    "config",
    "data",
    "bench",
)
GRACE_SECONDS = 3.0


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"fedmpi.cli.{name}"), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fedmpi.__version__, prog_name="fedmpi")
def cli() -> None:
    """Emulate federated learning over MPI, and measure what each client-sampling scheme costs.

    \b
    fedmpi run demo                        one run, in this process
    mpirun -n 3 fedmpi run demo -o d.h5    the same: one server, two workers
    fedmpi show d.h5                       what happened
    """


def main() -> None:
    """The `fedmpi` command: every error is one sentence, with exit code 2 for bad input and 1 for a failed run."""
    write_exit_file("running")
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except click.Abort:
        code = 1
    except click.ClickException as error:
        if is_first_rank():
            error.show()
        else:
            # mpirun ends the job with the first rank that leaves: let that be the one that has something to say.
            time.sleep(GRACE_SECONDS)
        code = 2
    except FedmpiError as error:
        if is_first_rank():
            click.echo(f"fedmpi: {error}", err=True)
        code = error.exit_code
    except Exception as error:
        click.echo(f"fedmpi: {type(error).__name__}: {error} (this is a bug; --debug shows where)", err=True)
        code = 1
        if "--debug" in sys.argv:
            traceback.print_exc()
    code = code if isinstance(code, int) else 0
    write_exit_file(str(code))
    end(code)


def end(code: int) -> None:
    """End the process; without the usual ceremony if HDF5 would crash in it, over a file that it could not write, or
    MPI could hang in it, waiting for ranks that were lost."""
    writer, world = (sys.modules.get(f"fedmpi.{name}") for name in ("record.writer", "comm.world"))
    if (writer and writer.UNCLOSED) or (world and world.LOST_RANKS):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
