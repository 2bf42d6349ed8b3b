"""docs/cluster.md is true: its commands, in its order, on two nodes with Slurm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedmpi import open_record
from tests.support.commands import BIN
from tests.support.slurm import Cluster

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_s_commands_run_in_order(cluster: Cluster, folder: Path) -> None:
    for name, target in {"launch": ROOT / "launch", "hostfiles": ROOT / "hostfiles", ".venv": BIN.parent}.items():
        (folder / name).symlink_to(target)
    commands = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.S))
    assert commands.count("sbatch") >= 4
    # The tests run in what it has installed.
    script = commands.replace("make install\n", f"cd {folder}\n")
    (folder / "page.sh").write_text(script)
    agent = str(cluster.folder / "agent")
    done = cluster.on("bash", "-ex", folder / "page.sh", time_limit=500, FEDMPI_SSH=agent)
    assert done.returncode == 0, done.stderr
    assert "12 runs, 12 of them finished" in done.stdout
    thetas = set()
    for name in ("alone", "three", "hosts", "slurm", "job"):
        with open_record(folder / f"{name}.h5") as record:
            assert record.status == "done"
            thetas.add(record.theta.tobytes())
    assert len(thetas) == 1


def test_the_page_s_files_and_targets_exist() -> None:
    for path in re.findall(r"(?:launch|hostfiles)/[\w.-]+", TEXT):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.M), target
