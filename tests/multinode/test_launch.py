"""launch/mpirun.sh, launch/pbs.sh and hostfiles/ on hosts of their own: θ is that of the single process."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedmpi import Config, open_record, run
from fedmpi.errors import RecordError
from tests.support.bed import Bed
from tests.support.commands import BIN, Finished, is_open_mpi, sentences

ROOT = Path(__file__).parents[2]
SETTINGS = {"run.T": 12, "eval.every": 4}


def arguments(settings: dict[str, int], output: str) -> list[str]:
    return ["quadratic", *(word for key, value in settings.items() for word in ("-s", f"{key}={value}")), "-o", output]


def hostfile(name: str, folder: Path, hosts: int) -> Path:
    """One of hostfiles/, of the installed MPI's kind, cut to the first hosts: its names are those of the bed."""
    kind = "" if is_open_mpi() else ".mpich"
    lines = (ROOT / "hostfiles" / f"{name}{kind}").read_text().splitlines(keepends=True)
    path = folder / "hosts"
    path.write_text("".join(line for line in lines if line.startswith(("#", *(f"node{k + 1}" for k in range(hosts))))))
    return path


def launch(bed: Bed, script: str | Path, *words: str | Path, **env: str) -> Finished:
    return bed.on(1, script, *words, FEDMPI_PREFIX=str(BIN.parent), FEDMPI_SSH=str(bed.folder / "agent"), **env)


def rounds_done(path: Path) -> int:
    """How far a run is; 0 while it has no record."""
    try:
        with open_record(path) as record:
            return record.rounds_done
    except RecordError:
        return 0


def check(path: Path, settings: dict[str, int], hosts: list[str]) -> None:
    """The record's θ is that of the single process, and its ranks were on these hosts."""
    with open_record(run(Config.load("quadratic", settings), path.parent / "alone.h5")) as single:
        theta = single.theta.tobytes()
    with open_record(path) as record:
        assert record.status == "done"
        assert record.theta.tobytes() == theta
        assert [host.decode() for host in record.file["/ranks/host"][:]] == hosts


def test_two_hosts_of_a_hostfile(two_hosts: Bed, tmp_path: Path) -> None:
    hosts = hostfile("two-nodes", tmp_path, 2)
    done = launch(two_hosts, ROOT / "launch/mpirun.sh", hosts, "4", "run", *arguments(SETTINGS, "two.h5"))
    assert done.returncode == 0, done.stderr
    check(tmp_path / "two.h5", SETTINGS, ["node1", "node1", "node2", "node2"])


def test_three_hosts_of_a_hostfile_with_as_many_ranks_as_asked_for_on_each(three_hosts: Bed, tmp_path: Path) -> None:
    hosts = hostfile("four-nodes", tmp_path, 3)
    words = [hosts, "3", "run", *arguments(SETTINGS, "three.h5")]
    done = launch(three_hosts, ROOT / "launch/mpirun.sh", *words, FEDMPI_PER_HOST="1", FEDMPI_BIND="core")
    assert done.returncode == 0, done.stderr
    check(tmp_path / "three.h5", SETTINGS, ["node1", "node2", "node3"])


def test_a_script_that_fedmpi_launch_wrote(two_hosts: Bed, tmp_path: Path, fedmpi: Callable[..., Finished]) -> None:
    written = fedmpi(
        "launch", "mpirun", "--hosts", "node1,node2", *arguments(SETTINGS, "two.h5"), "--write", "job.sh"
    )  # fmt: skip
    assert written.returncode == 0, written.stderr
    done = launch(two_hosts, tmp_path / "job.sh")
    assert done.returncode == 0, done.stderr
    check(tmp_path / "two.h5", SETTINGS, ["node1", "node1", "node2", "node2"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(
            {},
            ["fedmpi: mpirun ended the job before rank 0 was done; resume it with the same command and --resume"],
            marks=pytest.mark.skipif(not is_open_mpi(), reason="only Open MPI's daemons notice that a host is cut off"),
            id="the daemons notice",
        ),
        pytest.param(
            {"comm.timeout": 4},
            [
                "has sent no heartbeat for 4 s",
                "fedmpi: killing mpirun, which waits for a host that does not answer",
            ],
            id="the server notices",
        ),
    ],
)
def test_a_host_that_is_cut_off_ends_the_job_on_all_of_them_and_the_run_goes_on_later(
    three_hosts: Bed, tmp_path: Path, fedmpi: Callable[..., Finished], settings: dict[str, object], told: list[str]
) -> None:
    long = {"run.T": 4000, "eval.every": 0, **settings}
    words = [hostfile("four-nodes", tmp_path, 3), "6", "run", *arguments(long, "three.h5")]
    with ThreadPoolExecutor() as pool:
        job = pool.submit(launch, three_hosts, ROOT / "launch/mpirun.sh", *words, FEDMPI_PER_HOST="2")
        while rounds_done(tmp_path / "three.h5") < 20:
            assert not job.done(), job.result().stderr
            time.sleep(0.05)
        three_hosts.cut(3)
        done = job.result()
    assert done.returncode == 1
    assert len(sentences(done)) == len(told), done.stderr
    assert all(part in sentence for part, sentence in zip(told, sentences(done), strict=True)), done.stderr
    if not is_open_mpi():
        # Nothing there tells MPICH's ranks; TCP does when the host is back, or after a quarter of an hour.
        three_hosts.restore(3)
    deadline = time.monotonic() + 60
    while any(b"fedmpi" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in three_hosts.processes()):
        assert time.monotonic() < deadline, "ranks are left on a host"
        time.sleep(0.2)
    assert 20 <= rounds_done(tmp_path / "three.h5") < 4000
    with open_record(tmp_path / "three.h5") as record:
        hosts = [host.decode() for host in record.file["/ranks/host"][:]]
    assert hosts == ["node1", "node1", "node2", "node2", "node3", "node3"]
    assert fedmpi("run", "three.h5", "--resume").returncode == 0
    with open_record(tmp_path / "three.h5") as record:
        theta = record.theta.tobytes()
    with open_record(run(Config.load("quadratic", long), tmp_path / "alone.h5")) as single:
        assert theta == single.theta.tobytes()


@pytest.mark.slow
def test_the_script_for_pbs_stops_in_time_and_goes_on(
    two_hosts: Bed, tmp_path: Path, fedmpi: Callable[..., Finished]
) -> None:
    """Without a PBS: what PBS would do, give it the file with the nodes of its ranks, is done here."""
    endless = {"run.T": 1_000_000, "eval.every": 0}
    assert fedmpi("launch", "pbs", *arguments(endless, "two.h5"), "--write", "job.pbs").returncode == 0
    nodes = tmp_path / "nodes"
    nodes.write_text("node1\nnode1\nnode2\nnode2\n")
    rounds = [0]
    for _ in range(2):
        given = {"PBS_NODEFILE": str(nodes), "PBS_O_WORKDIR": str(tmp_path), "FEDMPI_STOP_AFTER": "25"}
        done = launch(two_hosts, tmp_path / "job.pbs", **given)
        assert done.returncode == 3, done.stderr
        with open_record(tmp_path / "two.h5") as record:
            rounds.append(len(record.rounds))
            assert [host.decode() for host in record.file["/ranks/host"][:]] == ["node1", "node1", "node2", "node2"]
    assert rounds[0] < rounds[1] < rounds[2]
