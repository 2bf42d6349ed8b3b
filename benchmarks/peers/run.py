"""The same job on fedmpi, on its peers and on bare PyTorch: seconds per round, no-op rounds, start-up, memory.

    python benchmarks/peers/run.py                         all of it, as a Markdown table
    python benchmarks/peers/run.py --only fedmpi,pfl       some; bare always runs too
    python benchmarks/peers/run.py --passes shipped        training rounds only, the allocator as it comes

Nothing here is a test: it measures and prints. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environments import NotInstalled
from jobs import Failed, Framework, Job, environment_of, frameworks
from processes import PeakMemory
from results import against_pfl, draw, table

PASSES = ("alone", "shipped", "tuned", "no-op")
WARM_UP = 2
# A no-op turn is many short rounds on end, as a run would have them.
NO_OP_ROUNDS, NO_OP_TURNS = 20, 5
ALONE_ROUNDS = 4
START_UPS = 3

Results = dict[str, dict[str, Any]]


class Bench:
    """Starts jobs and gives them turns. A framework that fails is left out from then on, with its reason."""

    def __init__(self, chosen: dict[str, Framework], environments: Path, folder: Path) -> None:
        self.chosen, self.folder, self.windows = chosen, folder, folder / "windows.npz"
        self.results: Results = {name: {"framework": framework.name} for name, framework in chosen.items()}
        self.pythons: dict[str, Path] = {}
        self.count = 0
        for name, framework in chosen.items():
            self.surely(name, lambda name=name, framework=framework: self.find(name, framework, environments))

    def find(self, name: str, framework: Framework, environments: Path) -> None:
        self.pythons[name] = framework.interpreter(environments)

    def surely(self, name: str, action: Callable[[], object]) -> None:
        """Do something for a framework that has not failed yet; say so if it does."""
        if "failed" in self.results[name]:
            return
        try:
            action()
        except (NotInstalled, Failed) as error:
            print(f"{name} FAILED: {error}", file=sys.stderr, flush=True)
            self.results[name]["failed"] = str(error)

    def start(self, name: str, mode: str) -> Job:
        self.count += 1
        folder = self.folder / f"{self.count}-{name}"
        return Job(self.chosen[name], self.pythons[name], folder, environment_of(mode, self.windows))

    def alone(self) -> None:
        """Each job with the machine to itself, in turn: its peak memory first, which also brings its files into the
        page cache, then its start-up several times, while nobody looks."""
        for name in self.chosen:
            self.surely(name, lambda name=name: self.measure_memory(name))
        for _ in range(START_UPS):
            for name in self.chosen:
                self.surely(name, lambda name=name: self.measure_startup(name))

    def measure_memory(self, name: str) -> None:
        print(f"alone: memory of {name}", file=sys.stderr, flush=True)
        with self.start(name, "shipped") as job, PeakMemory(job.processes) as peak:
            job.meet()
            job.turn(ALONE_ROUNDS)
        self.results[name]["pss"] = peak.bytes

    def measure_startup(self, name: str) -> None:
        print(f"alone: start-up of {name}", file=sys.stderr, flush=True)
        with self.start(name, "shipped") as job:
            job.meet()
            self.results[name].setdefault("startup", []).append(job.startup())

    def interleaved(self, mode: str, turns: int, rounds: int) -> None:
        """All jobs are up, and each in turn does its rounds while the others are stopped."""
        jobs: dict[str, Job] = {}

        def begin(name: str) -> None:
            print(f"{mode}: starting {name}", file=sys.stderr, flush=True)
            jobs[name] = self.start(name, mode)
            jobs[name].meet()
            jobs[name].pause()

        def take_turn(name: str) -> None:
            done = jobs[name].turn(rounds)
            self.results[name].setdefault(mode, []).append(done)

        try:
            for name in self.chosen:
                self.surely(name, lambda name=name: begin(name))
            for turn in range(turns):
                for name in jobs:
                    self.surely(name, lambda name=name: take_turn(name))
                print(f"{mode}: turn {turn + 1} of {turns}", end="\r", file=sys.stderr, flush=True)
            print(file=sys.stderr)
        finally:
            for job in jobs.values():
                job.end()


def write_windows(path: Path) -> None:
    """The training windows of fedmpi's own clients, for everyone: x (n, 400, 80) and y (n, 400), uint8."""
    import numpy as np
    from job import SAMPLES, WINDOW, n

    from fedmpi import Config
    from fedmpi.data import load_dataset

    data = load_dataset(
        Config.load(None, {"data.name": "synthetic-text", "data.n": n, "data.samples": SAMPLES, "sampling.m": 1})
    )
    texts = [data.client(i).train.numpy() for i in range(n)]
    rows = np.stack([np.lib.stride_tricks.sliding_window_view(text, WINDOW + 1) for text in texts])
    np.savez(path, x=rows[:, :, :WINDOW], y=rows[:, :, WINDOW])


def summary(results: Results) -> Results:
    """Per framework: medians, and medians over turns of the ratio to others' rounds of the same turn."""
    return {name: {"framework": one["framework"], **medians(one, results)} for name, one in results.items()}


def medians(one: dict[str, Any], results: Results) -> dict[str, Any]:
    if "failed" in one:
        return {"failed": one["failed"]}
    found: dict[str, Any] = {}
    for mode in ("shipped", "tuned"):
        if mode in one:
            rounds = [turn[0] for turn in one[mode]][WARM_UP:]
            found[mode] = {"rounds": len(rounds)}
            found[mode] |= {fact: statistics.median(done[fact] for done in rounds) for fact in ("seconds", "cpu")}
            for other in ("bare", "pfl"):
                if "failed" not in results.get(other, {"failed": ""}):
                    theirs = [turn[0]["seconds"] for turn in results[other][mode]][WARM_UP:]
                    pairs = zip(rounds, theirs, strict=True)
                    found[mode][f"÷ {other}"] = statistics.median(done["seconds"] / their for done, their in pairs)
    if "no-op" in one:
        found["no-op ms"] = 1e3 * statistics.median(done["seconds"] for turn in one["no-op"][1:] for done in turn)
    if "startup" in one:
        found["startup"], found["pss MB"] = statistics.median(one["startup"]), one["pss"] / 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAMES", help="which frameworks, with commas: " + ", ".join(frameworks([])))
    parser.add_argument("--passes", default=",".join(PASSES), help="with commas (default: all): " + ", ".join(PASSES))
    parser.add_argument("--rounds", type=int, default=17, help=f"training rounds, the first {WARM_UP} not counted")
    parser.add_argument("--fedmpi", action="append", default=[], metavar="KEY=VALUE", help="a config key of fedmpi")
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"), metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measured round")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the table")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no job is left behind

    every = frameworks(options.fedmpi)
    names = ["bare", *options.only.split(",")] if options.only else list(every)
    if unknown := {*names} - {*every} | {*options.passes.split(",")} - {*PASSES}:
        parser.error(f"unknown: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="peers-") as temporary:
        chosen = {name: framework for name, framework in every.items() if name in names}
        bench = Bench(chosen, options.environments.absolute(), Path(temporary))
        write_windows(bench.windows)
        for which in options.passes.split(","):
            if which == "alone":
                bench.alone()
            elif which == "no-op":
                bench.interleaved("no-op", 1 + NO_OP_TURNS, NO_OP_ROUNDS)
            else:
                bench.interleaved(which, options.rounds, 1)
            if options.json:  # after every pass, so that a run that is broken off leaves something
                write_json(options.json, bench.results)
    found = summary(bench.results)
    print(table(found))
    print(against_pfl(found))
    if options.figure:
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        draw(found, options.figure)


def write_json(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"summary": summary(results), "measured": results}, indent=1))


if __name__ == "__main__":
    main()
