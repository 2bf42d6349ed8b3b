"""The whole campaign: `python -m tests.fuzz.campaign [--scale 0.1] [--seed 1] [config|records|datasets …]`.

Prints a line per kind, and every input that escaped with what happened. Exit code 1 if one did.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

from tests.fuzz import configs, datasets, records
from tests.support.guard import Tally, explain, try_all

INPUTS = {"config": 200_000, "records": 20_000, "datasets": 20_000}


def campaign(kind: str, inputs: int, seed: int) -> Tally:
    """Try so many inputs of a kind. All that is imported late is imported before children are forked."""
    import fedmpi.cli.run
    import fedmpi.job.replay
    import fedmpi.report.write  # noqa: F401

    folder = records.home()
    attempts: dict[str, Callable[[int], None]] = {
        "config": partial(configs.attempt, seed=seed),
        "records": partial(records.attempt, seed=seed, folder=folder),
        "datasets": partial(datasets.attempt, seed=seed, folder=folder),
    }
    {"config": configs, "records": records, "datasets": datasets}[kind].seeds()
    try:
        return try_all(attempts[kind], range(inputs))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(INPUTS), metavar="config|records|datasets")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of the whole campaign")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    escaped = 0
    for kind in given.kinds:
        began = time.monotonic()
        tally = campaign(kind, round(INPUTS[kind] * given.scale), given.seed)
        print(f"{explain(kind, tally)}\n  in {time.monotonic() - began:.0f} s", flush=True)
        escaped += len(tally.failures)
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
