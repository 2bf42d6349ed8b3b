"""What a case gives: its θ, its draws and their weights, found through fedmpi's public surface alone."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedmpi import Config, open_record, run
from tests.golden.cases import Case, Settings
from tests.support.commands import BIN, TIME_LIMIT, environment, mpirun_command


@dataclass(frozen=True)
class Found:
    """θ after the last round; (t, client) and ω of every participation; whether compiled loops took part."""

    theta: NDArray[np.float32]
    draws: NDArray[np.int64]
    omega: NDArray[np.float64]
    compiled: bool


def sha256(array: NDArray[Any]) -> str:
    """The hash of an array's bytes, in the little-endian order of the record."""
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).hexdigest()


def measure(case: Case, more: Settings | None = None, ranks: int = 0) -> Found:
    """The case in this process; under mpirun if ranks are given, and in a process of its own if it needs one."""
    settings = {**case.settings, **(more or {})}
    with tempfile.TemporaryDirectory(prefix="fedmpi-golden-") as folder:
        path = Path(folder) / "run.h5"
        if ranks or case.environment:
            run_command(case, settings, path, ranks)
        else:
            run(Config.load(case.preset, overrides=settings), out=path)
        return read(path)


def run_command(case: Case, settings: Settings, path: Path, ranks: int) -> None:
    """`fedmpi run`, as a user types it."""
    words = [word for key, value in settings.items() for word in ("-s", f"{key}={toml(value)}")]
    command = [*mpirun_command(ranks), str(BIN / "fedmpi"), "run", case.preset, *words, "-o", str(path)]
    how = {"capture_output": True, "text": True, "timeout": TIME_LIMIT, "cwd": path.parent}
    done = subprocess.run(command, **how, env=environment(**case.environment))  # type: ignore[call-overload]
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}"


def toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(path: Path) -> Found:
    with open_record(path) as record:
        cohorts = record.cohorts
        draws = np.stack([cohorts["t"], cohorts["client"]])
        theta, omega = record.theta, cohorts["omega"]
    with h5py.File(path, "r") as file:
        compiled = file.attrs["compiled_loops"] in ("yes", b"yes")
    return Found(theta, draws, omega, compiled)
