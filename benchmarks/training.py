"""What a local step and an evaluation of the paper's LSTM take, against stock nn.LSTM.

    python benchmarks/training.py            both, as tables
    python benchmarks/training.py --json F   also as JSON

Nothing here is a test: it measures and prints. Each variant is a process of its own (the allocator is set for a whole
process), and they take turns, one piece of work at a time, so that a ratio compares what ran side by side; medians of
the ratios. Wall time, and the CPU time of the process, which says more where the machine is shared. One thread.
A step: 64 windows of 80 characters, cross-entropy, gradient, one axpy. Evaluation: the clients of the preset
`shakespeare` if it is in the cache, else synthetic text, with all their windows or --windows of each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from machine import machine

STEPS = {
    "stock": {"FEDMPI_MALLOPT": "0", "FEDMPI_NATIVE": "0"},
    "stock, memory kept": {"FEDMPI_NATIVE": "0"},
    "fedmpi": {},
    "fedmpi, AVX2 kernel": {"FEDMPI_KERNEL": "avx2"},
    "FMA peak": {},
    "FMA peak, AVX2": {"FEDMPI_KERNEL": "avx2"},
}
STEP_KINDS = ["step"] * 4 + ["peak"] * 2
PEAK_TURNS = 2_000_000
EVALUATIONS = {
    "plain loop": {"FEDMPI_MALLOPT": "0", "FEDMPI_NATIVE": "0"},
    "plain loop, memory kept": {"FEDMPI_NATIVE": "0"},
    "fedmpi without native": {"FEDMPI_NATIVE": "0"},
    "fedmpi": {},
}
PLAIN_BATCH = 5000
# Of the products of one step, forward, backward and by the weights: B = 64, T = 80, an embedding of 8, two layers of
# H = 100, and the output layer.
FLOPS = 3 * 2 * 64 * (80 * 400 * ((8 + 100) + (100 + 100)) + 100 * 100)


def work(kind: str, data: str, windows: int) -> tuple[Callable[[int], object], Callable[[int], int]]:
    """(what a turn does: one local step, or the evaluation of a client; how many windows that is)."""
    import torch

    from fedmpi.client import LocalClients, local_steps
    from fedmpi.config import Config
    from fedmpi.data import load_dataset
    from fedmpi.models import make_model
    from fedmpi.native import library

    if kind == "peak":
        loops = library()
        return (lambda turn: loops.fedmpi_peak(PEAK_TURNS)), (lambda turn: loops.fedmpi_peak(PEAK_TURNS))
    config = Config.load("shakespeare", {"data.name": data, "client.K": 1, "eval.max_samples": windows})
    dataset = load_dataset(config)
    host = LocalClients(config, dataset)
    theta = make_model(config).theta.clone()
    host.receive(theta.numpy())

    def step(turn: int) -> None:
        local_steps(host.model, host.theta, host.data(turn % 80), config.client, (0, turn, 0), lambda: None)

    def evaluate(turn: int) -> None:
        host.evaluate([turn % 80])

    @torch.no_grad()
    def plain(turn: int) -> None:
        client = host.data(turn % 80)
        for part in (client.training(windows), client.testing(windows)):
            pieces = [batch for _, batch in part]
            xs, ys = (torch.cat([piece[k] for piece in pieces]).split(PLAIN_BATCH) for k in (0, 1))
            for x, y in zip(xs, ys, strict=True):
                scores = host.model.module(x)
                torch.nn.functional.cross_entropy(scores, y, reduction="sum").item()
                (scores.argmax(1) == y).sum().item()

    def size(turn: int) -> int:
        client = host.data(turn % 80)
        parts = [] if kind == "step" else [client.training(windows), client.testing(windows)]
        return sum(count for part in parts for count, _ in part) if parts else config.client.B

    return {"step": step, "evaluate": evaluate, "plain": plain}[kind], size


def serve(kind: str, data: str, windows: int) -> None:
    """A variant's process: for each number on stdin, a turn; answers with wall seconds, CPU seconds and windows."""
    act, size = work(kind, data, windows)
    act(0)
    print("ready", flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        act(int(line))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps([wall, cpu, size(int(line))]), flush=True)


def measure(
    variants: dict[str, dict[str, str]], kinds: list[str], turns: int, data: str, windows: int
) -> dict[str, list]:
    """name -> (wall seconds, CPU seconds, windows) of each turn; the variants take turns."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, "--data", data, "--windows", str(windows)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **settings},
        )
        for (name, settings), kind in zip(variants.items(), kinds, strict=True)
    }  # fmt: skip
    for process in processes.values():
        process.stdout.readline()
    results: dict[str, list] = {name: [] for name in variants}
    for turn in range(turns):
        for name, process in processes.items():
            print(turn, file=process.stdin, flush=True)
            results[name].append(json.loads(process.stdout.readline()))
    for process in processes.values():
        process.stdin.close()
        process.wait()
    return results


def table(title: str, results: dict[str, list], against: list[str], per_window: bool) -> dict[str, dict[str, float]]:
    """The medians, printed and returned."""
    print(f"\n{title}\n{'':26}{'ms':>9}{'CPU ms':>9}" + "".join(f"{'÷ ' + name:>28}" for name in against))
    summary = {}
    for name, turns in results.items():
        wall_ms, cpu_ms = (1e3 * statistics.median(turn[k] for turn in turns) for k in (0, 1))
        row = {"wall_ms": wall_ms, "cpu_ms": cpu_ms}
        if per_window:
            row["windows_per_second"] = sum(t[2] for t in turns) / sum(t[0] for t in turns)
        line = f"{name:26}{row['wall_ms']:9.1f}{row['cpu_ms']:9.1f}"
        for other in against:
            wall, cpu = (
                statistics.median(mine[k] / theirs[k] for mine, theirs in zip(turns, results[other], strict=True))
                for k in (0, 1)
            )
            row[f"wall ÷ {other}"], row[f"cpu ÷ {other}"] = wall, cpu
            line += f"{f'{wall:.3f} (CPU {cpu:.3f})':>28}"
        print(line + (f"{row['windows_per_second']:10.0f} windows/s" if per_window else ""))
        summary[name] = row
    return summary


def shares(steps: dict[str, list], peaks: dict[str, list]) -> dict[str, float]:
    """The floating-point operations of a step's products per second, as a share of what the core can do; medians."""
    rates = {name: statistics.median(flops / wall for wall, _, flops in turns) for name, turns in peaks.items()}
    found = {}
    for name, peak in (("fedmpi", "FMA peak"), ("fedmpi, AVX2 kernel", "FMA peak, AVX2")):
        rate = FLOPS / statistics.median(wall for wall, _, _ in steps[name])
        found[name] = rate / rates[peak]
        print(f"{name}: {rate / 1e9:.0f} of {rates[peak] / 1e9:.0f} GFLOP/s, {found[name]:.0%}")
    return found


def main() -> None:
    from fedmpi.data.sources.cache import cached

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--clients", type=int, default=80)
    parser.add_argument("--windows", type=int, default=0, help="evaluated per client, training and test; 0 = all")
    parser.add_argument("--data", default="shakespeare" if cached("shakespeare").is_file() else "synthetic-text")
    parser.add_argument("--serve", choices=["step", "evaluate", "plain", "peak"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.data, arguments.windows)
        return
    print(machine())
    steps = measure(STEPS, STEP_KINDS, arguments.steps, arguments.data, 0)
    peaks = {name: steps.pop(name) for name in list(steps) if "peak" in name}
    kinds = ["plain", "plain", "evaluate", "evaluate"]
    evaluations = measure(EVALUATIONS, kinds, arguments.clients, arguments.data, arguments.windows)
    summary = {
        "data": arguments.data,
        "step": table(f"A local step ({arguments.data})", steps, ["stock", "stock, memory kept"], False),
        "share_of_peak": shares(steps, peaks),
        "evaluation": table(
            f"Evaluation of a client ({arguments.data})", evaluations, ["plain loop", "plain loop, memory kept"], True
        ),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
