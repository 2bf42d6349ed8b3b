"""What each sampler costs on a link of known rate: paired runs on two real hosts, and a replay at another rate.

    python benchmarks/two_hosts.py [--seeds 3] [--rounds 20]

Builds the two hosts of tests/support/bed.py (root, openssh-server, iproute2): the server on one, two workers on the
other, 200 Mbit/s between them. Prints bytes and seconds per round and scheme, md's mean N against its law, and how
well a replay of md's record at 100 Mbit/s predicts a run there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from shared import Bed, why_not

from fedmpi import open_record
from fedmpi.report.format import byte_size, seconds
from fedmpi.report.statistics import estimate
from fedmpi.report.tables import text_table

SCHEMES = ("md", "uniform", "clustered", "binomial", "optimal")
# The paper's LSTM size, with clients whose work is quick and exact: the link is what is measured.
SETTINGS = {"data.dim": 135_700, "data.n": 20, "data.spread": 1.0, "sampling.m": 10, "eval.every": 0}
WORKERS = [1, 2]


def settings(**more: object) -> list[str]:
    return [word for key, value in {**SETTINGS, **more}.items() for word in ("-s", f"{key}={value}")]


def band(values: list[float], unit: object) -> str:
    found = estimate(values)
    return f"{unit(found.mean)} ± {unit(found.half or 0.0)}"  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if reason := why_not():
        sys.exit(f"no bed of two hosts: {reason}")
    with tempfile.TemporaryDirectory() as folder, Bed(2, Path(folder)) as bed:
        bed.rate("200mbit")
        paired = ["--schemes", ",".join(SCHEMES), "--seeds", str(options.seeds), "-o", "pairs"]
        run = settings(**{"run.T": options.rounds})
        bed.fedmpi(WORKERS, "compare", "quadratic", *run, *paired, time_limit=550.0)
        print_costs(bed.folder / "pairs")
        print_prediction(bed, run)


def print_costs(folder: Path) -> None:
    rows = []
    for scheme in SCHEMES:
        records = [open_record(path) for path in sorted(folder.glob(f"*-{scheme}-s*.h5"))]
        rounds = [record.rounds for record in records]
        sizes = [
            byte_size(float(np.mean([r[f"{way}_bytes_{ledger}"].mean() for r in rounds])))
            for way in ("down", "up")
            for ledger in ("logical", "wire")
        ]
        times = [band([float(r[f"time_{name}"].mean()) for r in rounds], seconds) for name in ("down", "up", "wait")]
        rows.append([scheme, f"{np.mean([r['N'].mean() for r in rounds]):.2f}", *sizes, *times])
        if scheme == "md":
            p = records[0].clients["p"]
            print(f"md: mean N by its law n − Σ(1−p_i)^m = {len(p) - ((1 - p) ** SETTINGS['sampling.m']).sum():.2f}\n")
    header = ["scheme", "mean N", "down logical", "down wire", "up logical", "up wire", "down", "up", "wait"]
    print(text_table(header, rows))


def print_prediction(bed: Bed, run: list[str]) -> None:
    bed.fedmpi(WORKERS, "run", "quadratic", *run, "-o", "first.h5")
    bed.rate("100mbit")
    bed.fedmpi(WORKERS, "replay", "first.h5", "-o", "replayed.h5", "--compute", "recorded")
    bed.fedmpi(WORKERS, "run", "quadratic", *run, "-o", "real.h5")
    print("\nmd at 100 Mbit/s, median seconds per round:\n")
    rows = []
    for name in ("replayed", "real"):
        with open_record(bed.folder / f"{name}.h5") as record:
            rows.append([name, *(seconds(float(np.median(record.rounds[f"time_{way}"]))) for way in ("down", "up"))])
    print(text_table(["", "down", "up"], rows))


if __name__ == "__main__":
    main()
