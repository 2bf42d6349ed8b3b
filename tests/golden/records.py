"""Records of released versions: where they are, and how a test unpacks them and says what is in them.

They are kept compressed: a record reserves 64 KiB for each of its tables, most of which a short run leaves empty.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from fedmpi import open_record
from tests.golden.measure import sha256

HERE = Path(__file__).parent
TABLES = ("rounds", "cohorts", "evals")
# Runs that were broken off, each with a checkpoint beside it.
BROKEN = ("killed", "stopped", "topk")


def versions() -> list[str]:
    """The folders that hold records, one for each released version."""
    return sorted(path.parent.name for path in HERE.glob("v*/expected.json"))


def expected(version: str) -> dict[str, Any]:
    """What the version itself read from its records when they were made, by the records' names."""
    content: dict[str, Any] = json.loads((HERE / version / "expected.json").read_text(encoding="utf-8"))
    return content


def unpack(version: str, folder: Path, *names: str) -> list[Path]:
    """The records of these names as files of their own in `folder`, with their checkpoints."""
    made = []
    for name in names:
        for packed in sorted((HERE / version).glob(f"{name}.h5*.gz")):
            path = folder / packed.name.removesuffix(".gz")
            path.write_bytes(gzip.decompress(packed.read_bytes()))
        made.append(folder / f"{name}.h5")
        assert made[-1].exists(), f"{version} has no record {name!r}"
    return made


def pack(path: Path, folder: Path) -> None:
    """Keep a file in `folder`, compressed, the same bytes for the same content."""
    (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


def summary(path: Path) -> dict[str, Any]:
    """What a record holds: the settings that matter, θ, and each column's type and hash."""
    with open_record(path) as record:
        config = record.config
        found = {
            "settings": {
                "run.T": config.run.T,
                "run.seed": config.run.seed,
                "sampling.scheme": config.sampling.scheme,
                "comm.compression": config.comm.compression,
                "network.enabled": config.network.enabled,
            },
            "theta": record.theta.tolist(),
            "theta_dtype": record.theta.dtype.str,
            "phases": list(record.phases),
            **{table: columns(getattr(record, table)) for table in TABLES},
        }
    with h5py.File(path, "r", swmr=True) as file:
        found["status"] = file["status"][()].decode()
        found["rounds_done"] = int(file["rounds_done"][()])
        found["history"] = [file["model/history_t"][:].tolist(), short_hash(file["model/history"][:])]
    return found


def columns(rows: NDArray[Any]) -> dict[str, Any]:
    """The number of rows and, of each column, its type and the start of its hash."""
    names = rows.dtype.names or ()
    return {"rows": len(rows), "columns": {name: [rows.dtype[name].str, short_hash(rows[name])] for name in names}}


def short_hash(column: NDArray[Any]) -> str:
    return sha256(column)[:16]


def theta_of(values: list[float]) -> NDArray[np.float32]:
    """θ as it was written to JSON, which keeps every bit of a float32."""
    return np.array(values, np.float32)
