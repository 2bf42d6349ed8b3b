"""`fedmpi doctor` and `fedmpi bench comm`, as they are started."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def test_doctor_under_mpirun(fedmpi: Callable, tmp_path: Path) -> None:
    done = fedmpi("doctor", "--max-size", "0.25", "--threads", "1000", "--json", "found.json", ranks=3)
    assert done.returncode == 0, done.stderr
    assert "clock offset" in done.stdout
    assert "256 KB" in done.stdout
    assert "3 ranks × 1000 threads" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1, 2]
    assert [rank["local_rank"] for rank in found["ranks"]] == [0, 1, 2]
    server, *workers = found["ranks"]
    assert server["auto"] == ""
    assert all(rank["auto"] in (rank["devices"] or ["cpu"]) for rank in workers)
    assert "this MPI" in done.stdout
    assert all(rank["clock_error"] > 0 for rank in found["ranks"][1:])
    # All ranks share this host's clock: the truth is zero, and the bound must hold it.
    assert all(abs(rank["clock_offset"]) <= rank["clock_error"] for rank in found["ranks"])
    assert [line["rank"] for line in found["lines"]] == [1, 2]
    assert [echo["size"] for echo in found["lines"][0]["echoes"]] == [8, 64, 512, 4096, 32768, 262144]
    assert len(found["warnings"]) >= 1


def test_doctor_alone(fedmpi: Callable) -> None:
    done = fedmpi("doctor")
    assert done.returncode == 0, done.stderr
    assert "server, worker" in done.stdout
    assert "mpirun -n 3 fedmpi doctor" in done.stdout


def test_bench_comm_prints_a_table_and_draws_it(fedmpi: Callable, tmp_path: Path) -> None:
    done = fedmpi("bench", "comm", "--max-size", "0.125", "--turns", "2", "--markdown", "--plot", "c.png", ranks=3)
    assert done.returncode == 0, done.stderr
    assert "|  64 KB |" in done.stdout
    assert "Collecting 8 updates from 2 workers" in done.stdout
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_bench_comm_as_json(fedmpi: Callable) -> None:
    done = fedmpi("bench", "comm", "--max-size", "0.0625", "--turns", "1", "--json", ranks=2)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert {result["path"] for result in results} == {
        "raw buffers", "raw Reduce", "per-client", "per-client, not added", "reduced", "pickled"
    }  # fmt: skip
    assert all(result["size"] == 65536 and result["updates"] == 4 for result in results)


def test_bench_comm_alone_says_how(fedmpi: Callable) -> None:
    done = fedmpi("bench", "comm")
    assert done.returncode == 2
    assert "mpirun -n 3 fedmpi bench comm" in done.stderr
