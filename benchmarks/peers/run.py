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
from results import draw, table

PASSES = ("alone", "shipped", "tuned", "no-op")
WARM_UP = 2
# A no-op turn is many short rounds on end, as a run would have them.
NO_OP_ROUNDS, NO_OP_TURNS = 20, 3
ALONE_ROUNDS, ALONE_TURNS = 4, 3
# A round's clients on each of two workers, if they are shared evenly, as bare and all peers do.
EVEN_SHARE = 5

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
        """Start-up and peak memory, each job with the machine to itself, in turn, several times."""
        for _ in range(ALONE_TURNS):
            for name in self.chosen:
                self.surely(name, lambda name=name: self.alone_once(name))

    def alone_once(self, name: str) -> None:
        job = self.start(name, "shipped")
        try:
            with PeakMemory(job.processes) as peak:
                job.meet()
                job.turn(ALONE_ROUNDS)
            self.results[name].setdefault("startup", []).append(job.startup())
            self.results[name].setdefault("pss", []).append(peak.bytes)
        finally:
            job.end()

    def interleaved(self, mode: str, turns: int, rounds: int) -> None:
        """All jobs are up, and each in turn does its rounds while the others are stopped."""
        jobs: dict[str, Job] = {}

        def begin(name: str) -> None:
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
    """Per framework: medians, and medians over turns of the ratio to the bare round of the same turn."""
    return {name: {"framework": one["framework"], **medians(one, results["bare"])} for name, one in results.items()}


def medians(one: dict[str, Any], bare: dict[str, Any]) -> dict[str, Any]:
    if "failed" in one:
        return {"failed": one["failed"]}
    found: dict[str, Any] = {}
    for mode in ("shipped", "tuned"):
        if mode not in one or mode not in bare:
            continue
        pairs = [(mine[0], plain[0]["seconds"]) for mine, plain in zip(one[mode], bare[mode], strict=True)][WARM_UP:]
        found[mode] = {
            "seconds": statistics.median(mine["seconds"] for mine, _ in pairs),
            "ratio": statistics.median(mine["seconds"] / plain for mine, plain in pairs),
            "rounds": len(pairs),
        }
        if "busiest" in pairs[0][0]:
            found[mode]["even"] = statistics.median(
                mine["seconds"] * EVEN_SHARE / mine["busiest"] / plain for mine, plain in pairs
            )
    if "no-op" in one:
        found["no-op ms"] = 1e3 * statistics.median(done["seconds"] for turn in one["no-op"][1:] for done in turn)
    if "startup" in one:
        found["startup"], found["pss MB"] = statistics.median(one["startup"]), max(one["pss"]) / 1e6
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
    found = summary(bench.results)
    print(table(found))
    for path in filter(None, (options.json, options.figure)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if options.json:
        options.json.write_text(json.dumps({"summary": found, "measured": bench.results}, indent=1))
    if options.figure:
        draw(found, options.figure)


if __name__ == "__main__":
    main()
