"""What the emulator costs over the arithmetic: no-op rounds, and training against bare PyTorch processes.

    python benchmarks/overhead.py            both, as tables
    python benchmarks/overhead.py --json F   also as JSON

Nothing here is a test: it measures and prints. Both sides of a ratio run interleaved, in one run, and medians are
compared. Job: the paper's LSTM, m = 10 of n = 20 clients of 400 windows, K = 5, B = 64, one server and two workers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

JOB = {
    "data.name": "synthetic-text",
    "data.n": 20,
    "data.samples": 400,
    "model.name": "lstm",
    "client.K": 5,
    "client.B": 64,
    "client.eta_l": 0.5,
    "sampling.scheme": "uniform",
    "sampling.m": 10,
    "eval.every": 0,
}
BIN = Path(sys.executable).parent


def mpirun(ranks: int, *command: str) -> list[str]:
    return [str(BIN / "mpirun"), "--oversubscribe", "-n", str(ranks), sys.executable, __file__, *command]


def environment() -> dict[str, str]:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1", **root}


def no_op(exchange: str, m: int, T: int, out: str) -> None:
    """On every rank: a run whose clients only perturb θ."""
    from fedmpi import Config, run
    from fedmpi.client import Host, Training

    def perturb(self: Host, i: int, t: int, delta: np.ndarray, between_steps: object = None) -> Training:
        delta[i] = 1e-3
        return Training(i, 0.0, 1e-3, 0.0)

    Host.train = perturb  # type: ignore[assignment]
    n = max(20, 2 * m)
    run(
        Config.load(None, {**JOB, "run.T": T, "data.n": n, "sampling.m": m, "comm.exchange": exchange}), out, force=True
    )


def measure_no_op(folder: Path, exchange: str, m: int) -> dict[str, float]:
    from fedmpi import open_record

    out = folder / "no-op.h5"
    subprocess.run(mpirun(3, "--no-op", exchange, str(m), "300", str(out)), check=True, env=environment())
    with open_record(out) as record:
        later = {name: values[50:] for name, values in record.phases.items()}
    return {name: float(np.median(values)) for name, values in later.items()}


def bare(job: str) -> None:
    """One plain PyTorch process: each line on stdin is a list of clients to train; answers with the seconds."""
    import torch
    from torch import nn

    from fedmpi import Config
    from fedmpi.data import load_dataset

    torch.set_num_threads(1)
    data = load_dataset(Config.load(None, JOB))
    embedding, lstm, linear = nn.Embedding(100, 8), nn.LSTM(8, 100, 2, batch_first=True), nn.Linear(100, 100)
    model = nn.ModuleList([embedding, lstm, linear])
    start = {name: value.clone() for name, value in model.state_dict().items()}
    sgd = torch.optim.SGD(model.parameters(), lr=JOB["client.eta_l"])
    texts = {i: data.client(i) for i in range(20)}
    rng = np.random.default_rng(0)
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for i in json.loads(line):
            model.load_state_dict(start)
            for _ in range(JOB["client.K"]):
                x, y = texts[i].batch(JOB["client.B"], rng)
                sgd.zero_grad()
                nn.functional.cross_entropy(linear(lstm(embedding(x))[0][:, -1]), y).backward()
                sgd.step()
        print(time.perf_counter() - began, flush=True)


def measure_training(folder: Path, rounds: int) -> dict[str, float]:
    """fedmpi rounds and bare rounds of the same clients on the same two cores, one after the other."""
    fed = subprocess.Popen(
        mpirun(3, "--train", str(rounds), str(folder / "train.h5")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    plain = [
        subprocess.Popen(
            [sys.executable, __file__, "--bare"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in plain:
        process.stdout.readline()
    seconds: dict[str, list[float]] = {"fedmpi": [], "bare": []}
    for line in fed.stdout:
        if not line.startswith("{"):
            continue
        done = json.loads(line)
        seconds["fedmpi"].append(done["seconds"])
        for process, clients in zip(plain, done["clients"], strict=True):
            process.stdin.write(json.dumps(clients) + "\n")
            process.stdin.flush()
        seconds["bare"].append(max(float(process.stdout.readline()) for process in plain))
        fed.stdin.write("go\n")
        fed.stdin.flush()
    for process in plain:
        process.stdin.close()
        process.wait()
    fed.wait()
    kept = {name: values[2:] for name, values in seconds.items()}
    ratios = [f / b for f, b in zip(kept["fedmpi"], kept["bare"], strict=True)]
    return {
        "fedmpi": statistics.median(kept["fedmpi"]),
        "bare": statistics.median(kept["bare"]),
        "ratio": statistics.median(ratios),
        "rounds": len(ratios),
    }


def train(T: int, out: str) -> None:
    """On every rank: a real run that stops after each round until it is told to go on."""
    from fedmpi import Config, run

    def pause(outcome) -> None:  # type: ignore[no-untyped-def]
        shares = [[a.client for a in outcome.seen.arrivals if a.rank == rank] for rank in (1, 2)]
        print(json.dumps({"seconds": outcome.end - outcome.line.start, "clients": shares}), flush=True)
        sys.stdin.readline()

    run(Config.load(None, {**JOB, "run.T": T}), out, force=True, on_round=pause)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-op", nargs=4, metavar=("EXCHANGE", "M", "T", "OUT"))
    parser.add_argument("--train", nargs=2, metavar=("T", "OUT"))
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--rounds", type=int, default=22)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.no_op:
        exchange, m, T, out = options.no_op
        return no_op(exchange, int(m), int(T), out)
    if options.train:
        return train(int(options.train[0]), options.train[1])
    if options.bare:
        return bare("")

    from fedmpi.report.tables import seconds, table

    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for exchange, m in (("per-client", 10), ("reduced", 10), ("per-client", 100)):
            phases = measure_no_op(folder, exchange, m)
            results[f"no-op {exchange} m={m}"] = phases
            rows.append([f"{exchange}, m = {m}", *(seconds(value) for value in phases.values())])
        print("No-op rounds, 3 ranks, |θ| = 135,700 (medians of 250 rounds):\n")
        print(table(["exchange", *phases], rows))
        results["training"] = training = measure_training(folder, options.rounds)
    print(f"\nTraining rounds (K = 5, B = 64, 2 workers), medians of {training['rounds']}, interleaved:\n")
    names = ["fedmpi", "bare"]
    print(
        table(["", *names, "ratio"], [["s/round", *(seconds(training[n]) for n in names), f"{training['ratio']:.3f}"]])
    )
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
