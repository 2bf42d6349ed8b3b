"""fedmpi launch writes scripts that shellcheck accepts, does the arithmetic, and answers mistakes at once."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi.cli.launch_scripts import ClusterJob, seconds
from fedmpi.config import Config
from fedmpi.errors import ConfigError
from tests.support.commands import BIN, Finished

ROOT = Path(__file__).parents[2]
Fedmpi = Callable[..., Finished]
COMMANDS = {
    "slurm": ["slurm", "--nodes", "4", "--ranks-per-node", "5", "--gpus-per-node", "4", "--cpus-per-rank", "2"],
    "array": ["slurm", "--array", "7", "--partition", "long", "--account", "me", "--time", "2-00:00:00"],
    "pbs": [
        "pbs",
        "--nodes",
        "3",
        "--gpus-per-node",
        "1",
        "--time",
        "1-01:02:03",
        "--partition",
        "q",
        "--account",
        "me",
    ],
    "mpirun": ["mpirun", "--hosts", "node1,node2.site", "--ranks-per-node", "3", "--cpus-per-rank", "4"],
}
# Spaces and both quotes, and as the shell has to read them.
OPTION = 'sampling.options={"a b" = "c\'d"}'
QUOTED = """'sampling.options={"a b" = "c'"'"'d"}'"""
LINES = {
    "slurm": [
        "#SBATCH --nodes=4",
        "#SBATCH --ntasks-per-node=5",
        "#SBATCH --cpus-per-task=2",
        "#SBATCH --gpus-per-node=4",
        "##SBATCH --partition=batch",
        f"DEFAULT=(run quadratic-run -s {QUOTED} -s client.device=auto -s client.threads=2 -o 'a b.h5')",
    ],
    "array": [
        "#SBATCH --array=0-6",
        "#SBATCH --partition=long",
        "#SBATCH --account=me",
        "#SBATCH --time=2-00:00:00",
        "##SBATCH --gpus-per-node=1",
        f"DEFAULT=(sweep quadratic-run -s {QUOTED} -o 'a b.h5')",
    ],
    "pbs": [
        "#PBS -l select=3:ncpus=2:mpiprocs=2:ompthreads=1:ngpus=1",
        "#PBS -l walltime=25:02:03",
        "#PBS -q q",
        "#PBS -A me",
        "STOP_AFTER=${FEDMPI_STOP_AFTER:-90003}",
        f"DEFAULT=(run quadratic-run -s {QUOTED} -s client.device=auto -o 'a b.h5')",
    ],
    "mpirun": [
        "THREADS=${FEDMPI_THREADS:-4}",
        f"DEFAULT=('node1:3,node2.site:3' 6 run quadratic-run -s {QUOTED} -s client.threads=4 -o 'a b.h5')",
    ],
}


@pytest.mark.parametrize("which", COMMANDS)
def test_the_scripts_say_what_was_asked_and_shellcheck_accepts_them(fedmpi: Fedmpi, tmp_path: Path, which: str) -> None:
    done = fedmpi("launch", *COMMANDS[which], "quadratic-run", "-s", OPTION, "-o", "a b.h5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in LINES[which] if line not in lines] == []
    script = tmp_path / "job.sh"
    script.write_text(done.stdout)
    checked = subprocess.run([BIN / "shellcheck", script], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_settings_that_survive_dead_workers_ask_mpi_to(fedmpi: Fedmpi) -> None:
    for words, line in (
        ((), "ULFM=${FEDMPI_ULFM:-}"),
        (("-s", "run.on_rank_failure=continue"), "ULFM=${FEDMPI_ULFM:-yes}"),
    ):
        for command in (("slurm",), ("pbs",), ("mpirun", "--hosts", "a,b")):
            assert line in fedmpi("launch", *command, "demo", *words).stdout.splitlines()


def test_the_words_reach_fedmpi_as_they_were_given(fedmpi: Fedmpi, tmp_path: Path) -> None:
    """Through the shell's quoting: the script that was written, run, leaves the record with the name that was given."""
    given = ["quadratic", "-s", "run.T=1", "-s", "run.name=it", "-o", "it's $HOME.h5"]
    done = fedmpi("launch", "mpirun", "--hosts", "localhost", *given, "--write", "job.sh")
    assert "Start it with: bash job.sh" in done.stderr
    assert done.stdout == ""
    text = (tmp_path / "job.sh").read_text()
    (words,) = re.findall(r"^DEFAULT=.*$", text, re.M)
    shown = subprocess.run(
        ["bash", "-c", f'{words}; printf "%s\\n" "${{DEFAULT[@]}}"'], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines() == ["localhost:2", "2", "run", *given]


def job(*, nodes: int = 1, ranks: int = 2, gpus: int = 0, **settings: object) -> ClusterJob:
    changes = {name.replace("__", "."): value for name, value in settings.items()}
    overrides = tuple(f"{key}={value}" for key, value in changes.items())
    return ClusterJob(Config.load("quadratic", changes), "quadratic", overrides, None, nodes, ranks, 1, gpus)


# n = 20 clients, of which m = 5 are drawn.
WARNINGS = [
    ({"nodes": 1, "ranks": 6}, []),
    ({"nodes": 1, "ranks": 7}, ["--ranks-per-node 6 is enough"]),
    ({"nodes": 3, "ranks": 3}, ["--nodes 2 is enough"]),
    ({"nodes": 2, "ranks": 4}, ["--ranks-per-node 3 is enough"]),
    ({"nodes": 2, "ranks": 10, "sampling__scheme": "full"}, []),
    ({"nodes": 1, "ranks": 5, "gpus": 4}, []),
    ({"nodes": 1, "ranks": 4, "gpus": 4}, ["--ranks-per-node 5 uses them all"]),
    ({"nodes": 1, "ranks": 4, "gpus": 4, "server__hosts_clients": True}, []),
    ({"nodes": 1, "ranks": 1, "gpus": 1}, []),
    ({"nodes": 1, "ranks": 2, "gpus": 1, "client__device": "cpu"}, ["leave it or --gpus-per-node out"]),
    ({"nodes": 1, "ranks": 2, "sweep__seeds": 3}, ["--array N runs them all"]),
]


@pytest.mark.parametrize(("given", "ends"), WARNINGS, ids=[str(given) for given, _ in WARNINGS])
def test_warnings_say_the_fix(given: dict[str, int], ends: list[str]) -> None:
    found = job(**given).warnings()
    assert len(found) == len(ends)
    assert all(line.endswith(end) for line, end in zip(found, ends, strict=True)), found


def test_the_server_is_one_of_the_ranks() -> None:
    assert job(nodes=4, ranks=5).workers == 19
    assert job(nodes=4, ranks=5, server__hosts_clients=True).workers == 20
    assert job(nodes=1, ranks=1).workers == 1
    assert job(nodes=4, ranks=5).explanation()[0].startswith("20 ranks, 5 on each of 4 nodes: 1 server, 19 workers.")


MISTAKES = {
    ("slurm", "demmo"): "'demmo' is neither a preset nor a file; did you mean 'demo'?",
    ("slurm", "demo", "-s", "run.t=5"): "unknown key 'run.t'; did you mean 'run.T'?",
    ("slurm", "demo", "--array", "4"): "--array is for sweeps, and 'demo' has no [sweep] table: leave --array out",
    ("slurm", "demo", "--time", "90"): "--time 90: must be HH:MM:SS or D-HH:MM:SS, such as 01:30:00",
    ("pbs", "demo", "--time", "00:03:59"): "--time 00:03:59: must be at least 00:04:00, as two minutes are kept",
    ("slurm", "demo", "--partition", "a\nrm"): "--partition a\nrm: must be a name",
    ("mpirun", "demo", "--hosts", "a,,b"): "--hosts : must be a name",
}


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes_are_answered_in_one_sentence(fedmpi: Fedmpi, words: tuple[str, ...]) -> None:
    done = fedmpi("launch", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fedmpi: {MISTAKES[words]}"), done.stderr
    assert done.stdout == ""


def test_times() -> None:
    assert seconds("01:02:03") == 3723
    assert seconds("3-00:00:10") == 3 * 86400 + 10
    for bad in ("1:60:00", "1-2", "-1:00:00", "00:00:00", "1:00:00 "):
        with pytest.raises(ConfigError):
            seconds(bad)


def test_writing_a_script_needs_neither_mpi_nor_torch() -> None:
    code = (
        "import sys; sys.argv = ['fedmpi', 'launch', 'slurm', 'demo']\nimport fedmpi.cli\n"
        "try: fedmpi.cli.main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "fedmpi.cli.launch_scripts" in loaded
    assert not {"torch", "mpi4py"} & loaded


def test_a_wheel_has_the_scripts_of_launch(tmp_path: Path) -> None:
    """Of one source: launch/ itself, through the package's link to it."""
    for name in ("fedmpi", "launch", "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True)
    if "No module named 'setuptools'" in done.stderr:
        pytest.skip("needs setuptools, to build a wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        for script in (ROOT / "launch").iterdir():
            assert files.read(f"fedmpi/launch/{script.name}") == script.read_bytes()
