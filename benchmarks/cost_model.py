"""The cost model's predictions against measured rounds, on this machine.

    python benchmarks/cost_model.py            the table and the median error
    python benchmarks/cost_model.py --json F   also as JSON

Nothing here is a test: it measures and prints. First `mpirun -n 9 fedmpi doctor --json` measures the machine, with
rounds of up to 64 MB and few updates; then rounds in which nobody trains are measured for W ∈ {1, 2, 4, 8},
m ∈ {4, 16, 64}, |θ| ∈ {0.5, 10, 100 MB} and both exchanges, and compared with what the model says of them. Medians.
Nine ranks share the cores of one machine: where there are fewer than nine, that is part of what is predicted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import BIN, environment, is_open_mpi, mpirun_command

WORKERS = (1, 2, 4, 8)
CLIENTS = (4, 16, 64)
SIZES = (500_000, 10_000_000, 100_000_000)
EXCHANGES = ("per-client", "reduced")
ROUNDS = 30
# Longer for large θ, where a round takes seconds.
SECONDS_PER_JOB = {500_000: 1.5, 10_000_000: 2.0, 100_000_000: 3.0}


def mpirun(*command: str | Path) -> None:
    unbound = ["--bind-to", "none"] if is_open_mpi() else []
    full = [*mpirun_command(max(WORKERS) + 1), *unbound, *command]
    subprocess.run(full, check=True, env=environment(), stdout=subprocess.DEVNULL)


def measure(out: Path, largest: int) -> None:
    """On every rank: the median seconds of every case's rounds, written by rank 0."""
    import numpy as np

    from fedmpi.comm.bandwidth import first_ranks
    from fedmpi.comm.world import connect
    from fedmpi.job.noop_rounds import measure_rounds
    from fedmpi.scale import JobShape

    world, found = connect(), []
    for W in WORKERS:
        with first_ranks(world, W + 1) as part:
            cases = [(b, m, exchange) for b in SIZES if b <= largest for m in CLIENTS for exchange in EXCHANGES]
            for b, m, exchange in cases if part else ():
                job = JobShape(W, m, b, exchange, ranks_per_node=world.size)
                seconds = measure_rounds(part, job, ROUNDS, SECONDS_PER_JOB[b])
                found.append({"W": W, "m": m, "b": b, "exchange": exchange})
                if world.is_server:
                    found[-1] |= {"seconds": float(np.median(seconds)), "rounds": len(seconds)}
    if world.is_server:
        out.write_text(json.dumps(found))


def markdown(found: list[dict]) -> list[str]:
    """One row per exchange, size and W; in each cell measured, predicted and the error."""
    from fedmpi.report.format import byte_size, seconds

    heads = " | ".join(f"m = {m}" for m in CLIENTS)
    out = [f"| exchange | \\|θ\\| | W | {heads} |", "|---" * (3 + len(CLIENTS)) + "|"]
    for exchange in EXCHANGES:
        for b, W in dict.fromkeys((case["b"], case["W"]) for case in sorted(found, key=lambda c: (c["b"], c["W"]))):
            cases = [case for case in found if (case["exchange"], case["b"], case["W"]) == (exchange, b, W)]
            cells = [
                f"{seconds(case['seconds'])}, {seconds(case['predicted'])}, {case['error']:+.0%}".replace("-", "−")
                for case in cases
            ]
            out.append(f"| {exchange} | {byte_size(b)} | {W} | {' | '.join(cells)} |")
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", type=Path, metavar="FILE", help="one rank's part; used by the benchmark itself")
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="leave out larger θ")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", action="store_true", help="the table as it stands in docs/scale.md")
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, options.largest)

    from fedmpi.report.format import byte_size, seconds
    from fedmpi.report.tables import text_table
    from fedmpi.scale import JobShape, Machine, predict

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        doctors, cases = Path(name) / "doctor.json", Path(name) / "cases.json"
        mpirun(BIN / "fedmpi", "doctor", "--json", doctors)
        mpirun(sys.executable, __file__, "--measure", cases, "--largest", str(options.largest))
        doctor, found = json.loads(doctors.read_text()), json.loads(cases.read_text())
    machine = Machine.from_dict(doctor["machine"])
    rows, errors = [], {exchange: [] for exchange in EXCHANGES}
    for case in found:
        job = JobShape(case["W"], case["m"], case["b"], case["exchange"], ranks_per_node=max(WORKERS) + 1)
        case["predicted"] = predict(machine, job).total
        case["error"] = case["predicted"] / case["seconds"] - 1
        errors[case["exchange"]].append(abs(case["error"]))
        times = seconds(case["seconds"]), seconds(case["predicted"]), f"{case['error']:+.0%}".replace("-", "−")
        rows.append([case["exchange"], str(case["W"]), str(case["m"]), byte_size(case["b"]), *times])
    print(f"{max(WORKERS) + 1} ranks on {machine.cores} cores; medians of at least five rounds\n")
    if options.markdown:
        print("\n".join(markdown(found)))
    else:
        print(text_table(["exchange", "W", "m", "|θ|", "measured", "predicted", "error"], rows))
    every = [error for each in errors.values() for error in each]
    each = ", ".join(f"{exchange} {statistics.median(values):.1%}" for exchange, values in errors.items())
    print(f"\nmedian error {statistics.median(every):.1%} over {len(every)} cases ({each})")
    print(f"took {time.monotonic() - began:.0f} s")
    if options.json:
        result = {"median_error": statistics.median(every), "machine": doctor["machine"], "cases": found}
        options.json.write_text(json.dumps(result | {"rounds": doctor["rounds"]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
