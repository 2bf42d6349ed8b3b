"""A replay moves the recorded bytes of the recorded cohorts, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi import open_record


@pytest.mark.parametrize("scheme", ["md", "optimal"])
def test_a_replay_moves_the_same_bytes(fedmpi: Callable, tmp_path: Path, scheme: str) -> None:
    settings = ["-s", f"sampling.scheme={scheme}", "-s", "run.T=6", "-s", "comm.compression=int8"]
    assert fedmpi("run", "quadratic", *settings, "-o", "first.h5", ranks=3).returncode == 0
    done = fedmpi("replay", "first.h5", "-o", "again.h5", "--compute", "recorded", ranks=3)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(scheme) == 2
    with open_record(tmp_path / "first.h5") as first, open_record(tmp_path / "again.h5") as again:
        assert again.attributes["replay_of"] == "first.h5"
        for name in ("N", "sum_omega", *(n for n in first.rounds.dtype.names if "bytes" in n)):
            assert first.rounds[name].tolist() == again.rounds[name].tolist(), name
        for name in ("t", "client", "omega", "rank"):
            assert first.cohorts[name].tolist() == again.cohorts[name].tolist(), name
        assert (again.cohorts["compute_time"] >= first.cohorts["compute_time"] * 0.99).all()
        assert not again.theta.any()


def test_what_cannot_be_replayed_is_said(fedmpi_here: Callable, tmp_path: Path) -> None:
    assert fedmpi_here("run", "quadratic", "-s", "run.T=0", "-o", "empty.h5").returncode == 0
    done = fedmpi_here("replay", "empty.h5", "-o", "again.h5")
    assert done.returncode == 2
    assert "no committed round" in done.stderr
