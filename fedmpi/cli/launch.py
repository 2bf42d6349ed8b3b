"""fedmpi launch"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedmpi.cli.source import set_option

if TYPE_CHECKING:
    from fedmpi.cli.launch_scripts import ClusterJob

COUNT = click.IntRange(1)
COMMON = (
    click.argument("source", metavar="[PRESET|FILE|RECORD]"),
    set_option,
    click.option("-o", "--output", metavar="FILE", help="Record to write, or a sweep's folder.  [default: <run.name>]"),
    click.option(
        "--ranks-per-node",
        "ranks",
        type=COUNT,
        default=2,
        show_default=True,
        help="Ranks on each node; the very first rank is the server.",
    ),
    click.option(
        "--cpus-per-rank", "cpus", type=COUNT, help="Cores and threads of each rank.  [default: client.threads]"
    ),
    click.option(
        "--gpus-per-node",
        "gpus",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="GPUs of each node, which its workers share.",
    ),
    click.option("--write", "path", metavar="FILE", help="Write the script to this file instead of stdout."),
)
SCHEDULED = (
    click.option("--nodes", type=COUNT, default=2, show_default=True, help="Number of nodes."),
    click.option("--time", default="01:00:00", show_default=True, help="Time limit, HH:MM:SS or D-HH:MM:SS."),
    click.option("--partition", metavar="NAME", help="Partition or queue, if your site requires one."),
    click.option("--account", metavar="NAME", help="Account or project, if your site requires one."),
)
Command = Callable[..., None]


def options(*which: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator that adds several click options, which the help lists in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(which):
            command = option(command)
        return command

    return decorate


@click.group()
def launch() -> None:
    """Write the script that runs a federation on a cluster.

    Checks the settings first, explains which rank does what, and warns of ranks or GPUs that would be idle.

    \b
    fedmpi launch slurm --nodes 4 --ranks-per-node 5 --gpus-per-node 4 demo --write job.sbatch
    fedmpi launch slurm --array 4 quadratic-run --write sweep.sbatch
    fedmpi launch pbs --nodes 2 --ranks-per-node 8 demo --write job.pbs
    fedmpi launch mpirun --hosts node1,node2 demo --write job.sh
    """


@launch.command()
@options(*COMMON, *SCHEDULED)
@click.option("--array", type=COUNT, metavar="N", help="Run the settings' sweep, shared by an array of N tasks.")
def slurm(
    time: str, partition: str | None, account: str | None, array: int | None, path: str | None, **given: Any
) -> None:
    """Write a script for sbatch: one run, or with --array a sweep.

    Before its time limit the job writes a checkpoint and requeues itself, and then continues from the checkpoint.
    """
    from fedmpi.cli.launch_scripts import named, seconds, settings

    job = checked("sweep" if array else "run", **given)
    seconds(time)
    values = {
        "#   sbatch ": path or "FILE",
        "#SBATCH --job-name=": job.config.run.name,
        "#SBATCH --nodes=": str(job.nodes),
        "#SBATCH --ntasks-per-node=": str(job.ranks),
        "#SBATCH --cpus-per-task=": str(job.cpus),
        "#SBATCH --time=": time,
        **settings(job),
    }
    if job.gpus:
        values["#SBATCH --gpus-per-node="] = str(job.gpus)
    if partition:
        values["#SBATCH --partition="] = named("--partition", partition)
    if account:
        values["#SBATCH --account="] = named("--account", account)
    if array:
        values["#SBATCH --array="] = f"0-{array - 1}"
    write("slurm-array.sbatch" if array else "slurm.sbatch", values, job, "sbatch", path)


@launch.command()
@options(*COMMON, *SCHEDULED)
def pbs(time: str, partition: str | None, account: str | None, path: str | None, **given: Any) -> None:
    """Write a script for qsub: one run.

    Before its time limit the job writes a checkpoint and stops; submit the script again to continue.
    """
    from fedmpi.cli.launch_scripts import CHECKPOINT_SECONDS, named, seconds, settings

    job, total = checked("run", **given), seconds(time)
    cores = f"ncpus={job.ranks * job.cpus}:mpiprocs={job.ranks}:ompthreads={job.cpus}"
    gpus = f":ngpus={job.gpus}" if job.gpus else ""
    values = {
        "#   qsub ": path or "FILE",
        "#PBS -N ": job.config.run.name,
        "#PBS -l select=": f"{job.nodes}:{cores}{gpus}",
        "#PBS -l walltime=": f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}",
        "STOP_AFTER=": f"${{FEDMPI_STOP_AFTER:-{total - CHECKPOINT_SECONDS}}}",
        **settings(job),
    }
    if partition:
        values["#PBS -q "] = named("--partition", partition)
    if account:
        values["#PBS -A "] = named("--account", account)
    write("pbs.sh", values, job, "qsub", path)


@launch.command()
@options(*COMMON)
@click.option("--hosts", required=True, metavar="A,B,…", help="Hosts to run on; the first has the server.")
def mpirun(hosts: str, path: str | None, **given: Any) -> None:
    """Write a script that starts a run over ssh.

    Every host must be reachable by ssh without a password.
    """
    from fedmpi.cli.launch_scripts import named, settings

    names = [named("--hosts", host) for host in hosts.split(",")]
    job = checked("run", nodes=len(names), **given)
    places = ",".join(f"{name}:{job.ranks}" for name in names)
    values = settings(job, places, str(job.nodes * job.ranks))
    write("mpirun.sh", {**values, "THREADS=": f"${{FEDMPI_THREADS:-{job.cpus}}}"}, job, "bash", path)


def checked(command: str, cpus: int | None, **given: Any) -> ClusterJob:
    """The job that the options describe. Errors in the settings are reported now, not when the job starts."""
    from fedmpi.cli.launch_scripts import ClusterJob
    from fedmpi.cli.source import load
    from fedmpi.errors import ConfigError

    config = load(given["source"], given["overrides"])
    if command == "sweep" and config.sweep == type(config.sweep)():
        raise ConfigError(f"--array is for sweeps, and '{given['source']}' has no [sweep] table: leave --array out")
    return ClusterJob(config=config, cpus=cpus or config.client.threads or 1, command=command, **given)


def write(script: str, values: Mapping[str, str], job: ClusterJob, start: str, path: str | None) -> None:
    """Fill in a script and write it; print on stderr what it does, warnings, and how to start it."""
    from fedmpi.cli.launch_scripts import fill

    text = fill(script, values, ["Written by `fedmpi launch`.", *job.explanation()])
    if path:
        Path(path).write_text(text, encoding="utf-8")
        Path(path).chmod(0o755)
    else:
        click.echo(text, nl=False)
    for line in [*job.explanation(), *(f"warning: {line}" for line in job.warnings())]:
        click.echo(line, err=True)
    click.echo(f"Start it with: {start} {path or 'FILE'}", err=True)
