"""Paired runs and sweeps: each run is the one it would have been alone, and none is done twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi import Config, open_record, run
from fedmpi.errors import ConfigError
from fedmpi.job.sweep import cells, missing, pick, shard
from tests.support.commands import BIN, environment, mpirun_command

GRID = ["-s", "sweep.cases=[[10, 3], [12, 4]]", "-s", 'sweep.importances=["uniform", "ratio"]']
SWEEP = ["sweep", "quadratic", *GRID, "-s", 'sweep.schemes=["md", "uniform"]', "-s", "sweep.seeds=1"]


@pytest.mark.parametrize("preset", ["quadratic", "demo"])
def test_each_scheme_of_a_comparison_is_its_own_run_bit_for_bit(
    fedmpi: Callable, fedmpi_here: Callable, tmp_path: Path, preset: str
) -> None:
    settings = ["-s", "run.T=4", "-s", "eval.every=2", "-s", "run.seed=7"]
    if preset == "demo":
        settings = [
            "-s",
            "run.T=2",
            "-s",
            "client.K=1",
            "-s",
            "client.B=4",
            "-s",
            "eval.every=0",
            "-s",
            "data.samples=90",
        ]
    schemes = ["md", "uniform", "clustered", "optimal"]
    done = fedmpi("compare", preset, *settings, "--schemes", ",".join(schemes), "--seeds", "2", "-o", "pairs", ranks=3)
    assert done.returncode == 0, done.stderr
    records = sorted((tmp_path / "pairs").glob("*.h5"))
    assert len(records) == 8
    pair_ids = {}
    for path in records:
        with open_record(path) as together:
            seed = together.config.run.seed
            pair_ids.setdefault(seed, set()).add(together.attributes["pair_id"])
            run(together.config, tmp_path / "alone.h5", force=True)
            with open_record(tmp_path / "alone.h5") as alone:
                assert alone.config == together.config
                assert alone.theta.tobytes() == together.theta.tobytes()
                assert alone.evals.tobytes() == together.evals.tobytes()
    assert [len(ids) for ids in pair_ids.values()] == [1, 1]
    again = fedmpi_here("compare", preset, *settings, "-o", "pairs")
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_sweep_is_the_grid_of_its_table(tmp_path: Path) -> None:
    config = Config.load("fig-shakespeare")
    grid = cells(config, tmp_path)
    assert len(grid) == 4 * 2 * 30
    assert sum(len(cell.configs) for cell in grid) == 720
    assert len({path for cell in grid for path in cell.paths}) == 720
    assert {(c.data.n, c.sampling.m) for cell in grid for c in cell.configs} == {(10, 5), (20, 10), (40, 20), (80, 40)}
    assert all(len({c.run.seed for c in cell.configs}) == 1 for cell in grid)
    parts = [shard(grid, f"{i}/7") for i in range(7)]
    assert sorted(str(c.paths) for part in parts for c in part) == sorted(str(c.paths) for c in grid)
    for wrong in ("7/7", "x", "1", "-1/3", "0/0"):
        with pytest.raises(ConfigError, match="--shard"):
            shard(grid, wrong)


def test_only_missing_runs_are_picked(tmp_path: Path) -> None:
    config = Config.load("quadratic", {"run.T": 2, "sweep.schemes": ["md", "uniform"], "sweep.seeds": 2})
    grid = cells(config, tmp_path)
    first = grid[0]
    run(first.configs[1], first.paths[1])
    left = pick(grid, missing(grid))
    assert [[c.sampling.scheme for c in cell.configs] for cell in left] == [["md"], ["md", "uniform"]]


def test_a_sweep_killed_half_way_goes_on_where_it_was(fedmpi: Callable, tmp_path: Path) -> None:
    command = [*SWEEP, "-s", "run.T=150"]
    whole = fedmpi(*command, "-o", "whole", ranks=3)
    assert whole.returncode == 0, whole.stderr
    hints = [line.split() for line in whole.stdout.splitlines() if line.startswith("  fedmpi report ")]
    assert len(hints) == 4
    drawn = [path for hint in hints for path in tmp_path.glob(hint[2])]
    assert sorted(drawn) == sorted((tmp_path / "whole").glob("*.h5"))
    full = [*mpirun_command(3), str(BIN / "fedmpi"), *command, "-o", "broken"]
    quiet = subprocess.DEVNULL
    job = subprocess.Popen(full, cwd=tmp_path, env=environment(), stdout=quiet, stderr=quiet, start_new_session=True)
    while len(list((tmp_path / "broken").glob("*.h5"))) < 5:
        assert job.poll() is None
        time.sleep(0.02)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    while processes_in(tmp_path):  # mpirun is gone; its ranks notice a moment later
        time.sleep(0.05)
    finished = {p: p.stat().st_mtime_ns for p in (tmp_path / "broken").glob("*.h5") if is_done(p)}
    assert 0 < len(finished) < 8
    assert f"8 runs, {len(finished)} of them finished" in fedmpi(*command, "-o", "broken", "--list").stdout
    assert fedmpi(*command, "-o", "broken", ranks=3).returncode == 0
    for path in (tmp_path / "whole").glob("*.h5"):
        other = tmp_path / "broken" / path.name
        assert other.stat().st_mtime_ns == finished.get(other, other.stat().st_mtime_ns)
        with open_record(path) as a, open_record(other) as b:
            assert a.config == b.config
            assert a.theta.tobytes() == b.theta.tobytes()
            assert a.evals.tobytes() == b.evals.tobytes()


def processes_in(folder: Path) -> list[str]:
    """The processes that work in that directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "cwd") == str(folder):
                found.append(process.name)
    return found


def is_done(path: Path) -> bool:
    with open_record(path) as record:
        return record.status == "done"
