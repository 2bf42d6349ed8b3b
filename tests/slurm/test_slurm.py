"""The scripts of launch/ under a real Slurm: they run on two nodes, survive being interrupted, and change no result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi import Config, open_record, run
from fedmpi.errors import RecordError
from tests.support.commands import BIN, Finished, is_open_mpi, sentences
from tests.support.slurm import Cluster

pytestmark = pytest.mark.slurm
LAUNCH = Path(__file__).parents[2] / "launch"
NODES = ["node1", "node1", "node2", "node2"]
# Long enough to be interrupted: some ten seconds.
LONG = {"run.T": 3000, "eval.every": 0}

# What runs one process in a batch script, and its record.
STARTS = {(): "batch.h5", ("srun", "-N1", "-n1"): "step.h5"}


def arguments(settings: dict[str, int], output: str, source: str = "quadratic") -> list[str]:
    return [source, *(word for key, value in settings.items() for word in ("-s", f"{key}={value}")), "-o", output]


def alone(folder: Path, settings: dict[str, int]) -> bytes:
    """θ of the same run in one process."""
    with open_record(run(Config.load("quadratic", settings), folder / "alone.h5")) as record:
        assert record.theta.any()
        return record.theta.tobytes()


def check(path: Path, theta: bytes) -> None:
    """The record is finished, has this θ, and its ranks were on both nodes."""
    with open_record(path) as record:
        assert record.status == "done"
        assert record.theta.tobytes() == theta
        assert [host.decode() for host in record.file["/ranks/host"][:]] == NODES


def rounds_done(path: Path) -> int:
    """How far a run is; 0 while it has no record."""
    try:
        with open_record(path) as record:
            return len(record.rounds)
    except RecordError:
        return 0


def test_one_run_on_two_nodes(cluster: Cluster, folder: Path) -> None:
    settings = {"run.T": 12, "eval.every": 4}
    job = cluster.submit(folder, LAUNCH / "slurm.sbatch", "run", *arguments(settings, "two.h5"))
    cluster.finish(job, folder)
    check(folder / "two.h5", alone(folder, settings))


def test_srun_starts_the_ranks_where_slurm_speaks_the_mpi_s_language(cluster: Cluster, folder: Path) -> None:
    plugin = "pmix" if is_open_mpi() else "pmi2"
    if cluster.on("srun", f"--mpi={plugin}", "true").returncode:
        pytest.skip(f"this Slurm has no {plugin} (Debian packages slurm-wlm-basic-plugins and libpmix-dev)")
    settings = {"run.T": 12, "eval.every": 4}
    command = ["run", *arguments(settings, "two.h5")]
    done = cluster.on(
        "srun", f"--mpi={plugin}", f"--chdir={folder}", "-N2", "--ntasks-per-node=2", BIN / "fedmpi", *command
    )
    assert done.returncode == 0, done.stderr
    check(folder / "two.h5", alone(folder, settings))


@pytest.mark.parametrize("plugin", ["none", "pmi2"])
def test_srun_that_does_not_speak_it_is_refused(cluster: Cluster, folder: Path, plugin: str) -> None:
    """Each task would run alone, as a server, and write the same record."""
    if plugin == "pmi2" and not is_open_mpi():
        pytest.skip("MPICH understands srun --mpi=pmi2")
    command = [BIN / "fedmpi", "run", *arguments({"run.T": 2}, "two.h5")]
    done = cluster.on("srun", f"--mpi={plugin}", f"--chdir={folder}", "-N2", "--ntasks-per-node=2", *command)
    assert done.returncode == 2, done.stderr
    assert len(sentences(done)) == 1, done.stderr
    assert "has started 4 processes, and MPI sees each of them alone" in sentences(done)[0]
    assert not list(folder.glob("*.h5"))


def test_alone_in_a_job_of_several_tasks(cluster: Cluster, folder: Path) -> None:
    """In a batch script, in the shell of salloc and as a step of one task, though the job has four tasks."""
    shape = ["-N2", "--ntasks-per-node=2"]
    settings = {"run.T": 2}
    fedmpi = [str(BIN / "fedmpi"), "run"]
    wrapped = [" ".join([*start, *fedmpi, *arguments(settings, output)]) for start, output in STARTS.items()]
    cluster.finish(cluster.submit(folder, *shape, "--output=job.out", f"--wrap={' && '.join(wrapped)}"), folder)
    done = cluster.on("salloc", *shape, f"--chdir={folder}", *fedmpi, *arguments(settings, "salloc.h5"))
    assert done.returncode == 0, done.stderr
    for output in [*STARTS.values(), "salloc.h5"]:
        with open_record(folder / output) as record:
            assert record.status == "done"
            assert record.attributes["mpi_size"] == 1


@pytest.mark.slow
def test_a_script_that_fedmpi_launch_wrote(cluster: Cluster, folder: Path, fedmpi: Callable[..., Finished]) -> None:
    shape = ["--nodes", "2", "--ranks-per-node", "2", "--partition", "batch", "--write", "job.sbatch"]
    settings = {"run.T": 12, "eval.every": 4}
    assert fedmpi("launch", "slurm", *shape, *arguments(settings, "two.h5")).returncode == 0
    cluster.finish(cluster.submit(folder, folder / "job.sbatch"), folder)
    check(folder / "two.h5", alone(folder, settings))


@pytest.mark.slow
def test_a_preempted_run_goes_back_into_the_queue_and_on(cluster: Cluster, folder: Path) -> None:
    job = cluster.submit(folder, LAUNCH / "slurm.sbatch", "run", *arguments(LONG, "two.h5"))
    cluster.until(lambda: rounds_done(folder / "two.h5") > 0)
    urgent = ["--partition=urgent", "--nodes=2", "--exclusive", "--output=urgent.out", "--wrap=hostname"]
    cluster.finish(cluster.submit(folder, *urgent), folder)
    before = rounds_done(folder / "two.h5")
    assert 0 < before < LONG["run.T"]
    cluster.finish(job, folder)
    assert cluster.tasks(job)[0]["Restarts"] == "1"
    check(folder / "two.h5", alone(folder, LONG))


@pytest.mark.slow
def test_usr2_stops_a_run_until_it_is_submitted_again(cluster: Cluster, folder: Path) -> None:
    command = [LAUNCH / "slurm.sbatch", "run", *arguments(LONG, "two.h5")]
    job = cluster.submit(folder, *command)
    cluster.until(lambda: rounds_done(folder / "two.h5") > 0)
    cluster.ask("scancel", "--signal=USR2", "--batch", job)
    cluster.until(lambda: cluster.states(job) == {"FAILED"})
    assert cluster.tasks(job)[0]["ExitCode"] == "3:0"
    assert 0 < rounds_done(folder / "two.h5") < LONG["run.T"]
    cluster.finish(cluster.submit(folder, *command), folder)
    check(folder / "two.h5", alone(folder, LONG))


@pytest.mark.slow
def test_an_interrupted_array_completes_its_sweep_and_touches_no_finished_run(
    cluster: Cluster, folder: Path, fedmpi: Callable[..., Finished]
) -> None:
    settings = {"run.T": 600, "eval.every": 0, "sweep.seeds": 4}
    given = ["-s", 'sweep.schemes=["md","uniform"]']
    script = ["--array=0-1", "--ntasks-per-node=2", LAUNCH / "slurm-array.sbatch"]
    command = [*script, "sweep", *arguments(settings, "runs"), *given]
    job = cluster.submit(folder, *command)
    runs = folder / "runs"
    # The first task has finished its first pair and is in its second.
    cluster.until(lambda: rounds_done(runs / "quadratic-n20-m5-ratio-md-s2.h5") > 0)
    finished = {path: path.stat().st_mtime_ns for path in runs.glob("*-s0.h5")}
    assert len(finished) == 2
    cluster.ask("scancel", "--signal=USR1", "--batch", f"{job}_0")
    cluster.finish(job, folder)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert sorted(task["Restarts"] for task in cluster.tasks(job)) == ["0", "1"]

    assert fedmpi("sweep", *arguments(settings, "alone"), *given).returncode == 0
    expected = sorted((folder / "alone").glob("*.h5"))
    assert len(expected) == 8
    for path in expected:
        with open_record(path) as single, open_record(runs / path.name) as record:
            assert record.status == "done"
            assert record.theta.tobytes() == single.theta.tobytes()

    everything = {path: path.stat().st_mtime_ns for path in runs.glob("*.h5")}
    cluster.finish(cluster.submit(folder, *command), folder)
    assert {path: path.stat().st_mtime_ns for path in runs.glob("*.h5")} == everything
