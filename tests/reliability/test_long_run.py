"""A long run: memory stays flat, the file grows as predicted, rounds do not get slower. Prints what it finds."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from fedmpi import open_record
from fedmpi.record.schema import TABLES
from tests.support.jobs import launch, ranks_in

T = 20_000


def memory(pid: int) -> float:
    """A process's own memory in MB; what it shares with others changes as they come and go."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


@pytest.mark.slow
def test_twenty_thousand_rounds(tmp_path: Path) -> None:
    how = ["-s", f"run.T={T}", "-s", "eval.every=100", "-s", "run.checkpoint_every=1000"]
    job = launch(tmp_path, "run", "quadratic", *how, ranks=3)
    job.wait_for_rounds(1000)  # caches fill and buffers are made in the first rounds
    seen: dict[int, list[tuple[int, float]]] = {0: [], 1: [], 2: []}
    while job.process.poll() is None:
        try:
            done = job.rounds
            for pid, rank in ranks_in(tmp_path):
                seen[rank].append((done, memory(pid)))
        except (OSError, StopIteration):
            break
        time.sleep(1.0)
    job.process.communicate(timeout=60)
    assert job.process.returncode == 0
    for rank, points in seen.items():
        rounds, sizes = np.array(points[:-1]).T
        slope, _ = np.polyfit(rounds, sizes, 1)
        grown = f"{sizes[0]:.1f} MB at first, {sizes[-1]:.1f} MB at last, {slope * 1e4:.3f} MB per 10,000 rounds"
        print(f"\nrank {rank}: {grown}")
        assert abs(slope) * T < 8, "memory grows"
    with open_record(tmp_path / "run.h5") as record:
        per_round = TABLES["/rounds"].dtype.itemsize + 3 * 8 * 3
        predicted = T * per_round + len(record.cohorts) * TABLES["/cohorts"].dtype.itemsize
        size = (tmp_path / "run.h5").stat().st_size
        total = record.rounds["time_total"]
        print(f"file: {size / 1e6:.2f} MB, predicted {predicted / 1e6:.2f} MB of rows")
        first, last = (np.median(part) * 1e3 for part in (total[1000:4000], total[-3000:]))
        print(f"median round: {first:.2f} ms at first, {last:.2f} ms at last")
        assert predicted < size < 1.1 * predicted + 2e6
