"""The command line: one file per command, which imports the rest of fedmpi only when the command runs."""

from __future__ import annotations

import os
import sys
import time
import traceback
from importlib import import_module

import click

import fedmpi
from fedmpi.comm.launcher import GRACE_SECONDS, is_first_rank, write_exit_file
from fedmpi.errors import FedmpiError

# In the order of the help text. Each has a module of its name here, with a click command of the same name.
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


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

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
    fedmpi run demo                        one run in this process
    mpirun -n 3 fedmpi run demo -o d.h5    the same run with one server and two workers
    fedmpi show d.h5                       its results
    """


def main() -> None:
    """Run the `fedmpi` command. Errors are printed as one sentence.

    Exit codes: 0 done, 1 the run failed, 2 bad usage or settings, 3 stopped by a signal with a checkpoint written.
    """
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
            # mpirun ends the job when the first rank exits: rank 0 needs time to print the error before that.
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
    """Exit the process.

    Without Python's clean-up if HDF5 would crash in it, over a file that it could not write, or MPI could wait in it
    forever for lost ranks.
    """
    writer, world = (sys.modules.get(f"fedmpi.{name}") for name in ("record.writer", "comm.world"))
    if (writer and writer.UNCLOSED) or (world and world.LOST_RANKS):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
