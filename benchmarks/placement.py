"""What it brings that a free worker takes the next client: rounds with clients of unlike cost, both placements.

    python benchmarks/placement.py [--rounds 6] [--turns 3]

The paper's LSTM on clients whose sizes are log-normal, with batches as large as a client's data, so that a local step
costs what the client is large: no made-up delays. One server and two workers. The jobs take turns, so that a busy
moment of the machine falls on both. Prints seconds per round over the ideal (all training of the round ÷ workers), and
whether θ is the same.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from shared import BIN, environment, mpirun_command

from fedmpi import open_record
from fedmpi.report.format import seconds
from fedmpi.report.tables import text_table

SETTINGS = {
    "data.name": "synthetic-text",
    "data.n": 24,
    "data.samples": 40,
    "data.spread": 1.2,
    "model.name": "lstm",
    "client.K": 3,
    "client.B": 4096,
    "sampling.scheme": "uniform",
    "sampling.m": 12,
    "eval.every": 0,
}
WORKERS = 2


def run(placement: str, rounds: int, path: Path) -> None:
    given = {**SETTINGS, "run.T": rounds, "comm.placement": placement}
    words = [word for key, value in given.items() for word in ("-s", f"{key}={value}")]
    launch = [*mpirun_command(WORKERS + 1), BIN / "fedmpi", "run", *words]
    subprocess.run([*launch, "-o", path, "--force"], check=True, env=environment(), capture_output=True)


def rounds_of(path: Path) -> tuple[list[float], list[float], bytes]:
    """Seconds of each round after the first, the ideal ones, and θ."""
    with open_record(path) as record:
        trained = np.bincount(record.cohorts["t"], record.cohorts["compute_time"])
        return record.rounds["time_total"][1:].tolist(), (trained[1:] / WORKERS).tolist(), record.theta.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {"static": [], "dynamic": []}
    thetas = set()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.turns):
            for placement, pairs in taken.items():
                path = Path(folder) / f"{placement}.h5"
                run(placement, options.rounds, path)
                total, ideal, theta = rounds_of(path)
                pairs += zip(total, ideal, strict=True)
                thetas.add(theta)
    rows = []
    for placement, pairs in taken.items():
        total, ideal = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios = sorted(a / b for a, b in pairs)
        rows.append(
            [placement, seconds(total), seconds(ideal), f"{statistics.median(ratios):.3f}", f"{ratios[-1]:.3f}"]
        )
    count = len(taken["static"])
    print(f"{count} rounds of each, {WORKERS} workers, m = {SETTINGS['sampling.m']} of {SETTINGS['data.n']} clients:\n")
    print(text_table(["placement", "s/round", "ideal", "÷ ideal, median", "÷ ideal, worst"], rows))
    print(f"\nθ is {'the same bits in all jobs' if len(thetas) == 1 else 'NOT the same'}")
    sys.exit(len(thetas) != 1)


if __name__ == "__main__":
    main()
