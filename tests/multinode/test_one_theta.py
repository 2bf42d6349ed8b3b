"""θ of a run on several hosts is that of the single process, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedmpi import Config, open_record, run
from tests.support.bed import Bed
from tests.support.commands import BIN

ROOT = Path(__file__).parents[2]
SETTINGS = {"run.T": 12, "eval.every": 4}


def arguments(**more: object) -> list[str]:
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in more.items()}}
    return ["run", "quadratic", *(word for key, value in settings.items() for word in ("-s", f"{key}={value}"))]


@pytest.fixture
def alone(tmp_path: Path) -> bytes:
    """θ of the same run in one process."""
    with open_record(run(Config.load("quadratic", SETTINGS), tmp_path / "alone.h5")) as record:
        assert record.theta.any()
        return record.theta.tobytes()


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_two_hosts_with_two_ranks_each(two_hosts: Bed, tmp_path: Path, alone: bytes, exchange: str) -> None:
    two_hosts.fedmpi([2, 2], *arguments(comm__exchange=exchange), "-o", "together.h5")
    with open_record(tmp_path / "together.h5") as record:
        assert record.theta.tobytes() == alone
        assert [host.decode() for host in record.file["/ranks/host"][:]] == ["node1", "node1", "node2", "node2"]


def test_three_hosts_through_the_launch_script(three_hosts: Bed, tmp_path: Path, alone: bytes) -> None:
    script = [ROOT / "launch/mpirun.sh", three_hosts.hostfile([1, 2, 1]), "4"]
    how = {"FEDMPI_PREFIX": str(BIN.parent), "FEDMPI_SSH": str(three_hosts.folder / "agent")}
    done = three_hosts.on(1, *script, *arguments(), "-o", "together.h5", **how)
    assert done.returncode == 0, done.stderr
    with open_record(tmp_path / "together.h5") as record:
        assert record.theta.tobytes() == alone
        assert [host.decode() for host in record.file["/ranks/host"][:]] == ["node1", "node2", "node2", "node3"]
