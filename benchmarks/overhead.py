"""What a round costs besides training: rounds whose clients only perturb θ, and raw MPI beside them.

    python benchmarks/overhead.py              rounds of job J, m = 10 and 100
    python benchmarks/overhead.py --large      |θ| = 100 MB, m = 50: the server's memory, and collecting against raw MPI

Nothing here is a test: it measures and prints. Job J: θ of the paper's LSTM (135,700 parameters), m = 10 of n = 20
clients, one server and two workers. The raw limit is measured in the same job: a broadcast of θ and the same messages
into preallocated memory (or one Reduce of the sums), by blocking calls of mpi4py, with nothing drawn, added or
recorded. Training against bare PyTorch: benchmarks/training.py, and benchmarks/peers for whole rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from shared import environment, mpirun_command

D, LARGE_D = 135_700, 25_000_000
CASES = (("per-client", 10), ("reduced", 10), ("per-client", 100))
WARM_UP = 50


def mpirun(ranks: int, *command: str | Path) -> None:
    words = [*mpirun_command(ranks), sys.executable, __file__, *command]
    subprocess.run(list(map(str, words)), check=True, env=environment())


def rounds(exchange: str, d: int, m: int, T: int, folder: Path) -> None:
    """On every rank: no-op rounds, and the server's peak memory after them."""
    from fedmpi import Config
    from fedmpi.comm.world import connect
    from fedmpi.job.noop_rounds import NoOpComponents
    from fedmpi.job.start import run_job

    settings = {"data.dim": d, "data.n": 2 * m, "sampling.scheme": "uniform", "sampling.m": m, "eval.every": 0}
    config = Config.load("quadratic", {**settings, "run.T": T, "comm.exchange": exchange})
    world = connect()
    run_job([config], [folder / "rounds.h5"], world, components=NoOpComponents(), force=True)
    if world.is_server:
        status = Path("/proc/self/status").read_text().splitlines()
        (folder / "peak").write_text(next(line.split()[1] for line in status if line.startswith("VmHWM")))


def race(d: int, m: int, turns: int, folder: Path) -> None:
    """On every rank: the same vectors through raw MPI and fedmpi's links, in turns."""
    from dataclasses import asdict

    from fedmpi.comm import bench
    from fedmpi.comm.world import connect

    world = connect()
    found = list(bench.race(world, [4 * d], m // (world.size - 1), turns))
    if world.is_server:
        (folder / "race.json").write_text(json.dumps([asdict(result) for result in found]))


def raw_paths(folder: Path, d: int, m: int, turns: int) -> dict[str, dict[str, float]]:
    mpirun(3, "--race", str(d), str(m), str(turns), folder)
    return {one["path"]: one for one in json.loads((folder / "race.json").read_text())}


def small(folder: Path, count: int) -> None:
    import numpy as np

    from fedmpi import open_record
    from fedmpi.report.format import seconds
    from fedmpi.report.tables import text_table

    rows, turns = [], min(count, 40)
    for exchange, m in CASES:
        raw = raw_paths(folder, D, m, turns)["raw Reduce" if exchange == "reduced" else "raw buffers"]
        mpirun(3, "--rounds", exchange, str(D), str(m), str(WARM_UP + count), folder)
        with open_record(folder / "rounds.h5") as record:
            phases = {name: float(np.median(values[WARM_UP:])) for name, values in record.phases.items()}
        rows.append([f"{exchange}, m = {m}", *map(seconds, phases.values()), seconds(raw["down"] + raw["up"])])
    print(f"No-op rounds, 3 ranks, |θ| = {D:,} parameters (medians of {count} rounds; raw: of {turns}):\n")
    print(text_table(["exchange", *phases, "raw MPI"], rows))


def large(folder: Path) -> None:
    import numpy as np

    from fedmpi import open_record

    m = 50
    mpirun(3, "--rounds", "per-client", str(LARGE_D), str(m), "5", folder)
    with open_record(folder / "rounds.h5") as record:
        collecting = float(np.median((record.rounds["time_up"] + record.rounds["time_aggregate"])[1:]))
    peak = int((folder / "peak").read_text()) * 1024
    paths = raw_paths(folder, LARGE_D, m, 9)
    moved = 4 * LARGE_D * m
    print(f"|θ| = {4 * LARGE_D / 1e6:.0f} MB, m = {m}, 3 ranks, no-op: the server's peak memory {peak / 1e9:.2f} GB")
    print(f"up and aggregate of a round: {collecting:.2f} s, {moved / collecting / 1e9:.2f} GB/s")
    print(f"collecting {m} updates, in turns with raw MPI:")
    for name in ("raw buffers", "per-client, not added", "per-client"):
        share = paths["raw buffers"]["up"] / paths[name]["up"]
        print(f"    {name:<22} {moved / paths[name]['up'] / 1e9:5.2f} GB/s   {share:4.0%}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--count", type=int, default=350, help="rounds of each case, after those to warm up")
    parser.add_argument("--rounds", nargs=5, metavar=("EXCHANGE", "D", "M", "T", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--race", nargs=4, metavar=("D", "M", "TURNS", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds:
        exchange, d, m, T, folder = options.rounds
        return rounds(exchange, int(d), int(m), int(T), Path(folder))
    if options.race:
        d, m, turns, folder = options.race
        return race(int(d), int(m), int(turns), Path(folder))
    with tempfile.TemporaryDirectory() as name:
        large(Path(name)) if options.large else small(Path(name), options.count)


if __name__ == "__main__":
    main()
