"""Write the hashes of cases, or of a kind of CPU, that are not in golden.json yet: `python -m tests.golden.regenerate`.

A hash that is there is never changed without --force. That is for a change of θ that is meant, and CHANGES.md says so;
the hashes of other CPUs are then dropped. `ATEN_CPU_CAPABILITY=default` and `=avx2` choose torch's code for older CPUs:
run it again with each of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.golden import hashes
from tests.golden.cases import CASES, Case
from tests.golden.images import write_miniature
from tests.golden.measure import measure
from tests.golden.schemes import ALONE, drawn


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.regenerate", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these cases")
    parser.add_argument("--force", action="store_true", help="replace hashes that differ")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    runs, schemes = hashes.load()
    refused = 0
    with tempfile.TemporaryDirectory(prefix="fedmpi-golden-") as cache:
        write_miniature(Path(cache))
        os.environ["FEDMPI_CACHE"] = cache
        for name in options.cases or CASES:
            said, changed = update(runs, name, CASES[name], options.force)
            refused += changed and not options.force
            print(f"{name}: {said}")
    for name in [] if options.cases else ALONE:
        before, after = schemes.get(name), drawn(name)
        if before in (None, after) or options.force:
            schemes[name] = after
        else:
            refused += 1
            print(f"draws of {name}: NOT CHANGED; expected {before}, found {after}")
    hashes.save({name: runs[name] for name in CASES if name in runs}, {name: schemes[name] for name in ALONE})
    if refused:
        print(f"{refused} hashes are not what they were, and were left alone; see --help.", file=sys.stderr)
    return 1 if refused else 0


def update(runs: dict[str, hashes.Entry], name: str, case: Case, force: bool) -> tuple[str, bool]:
    """What was done about a case, and whether it gives something else than before."""
    found = measure(case)
    if case.compiled and not found.compiled:
        return "left alone: there are no compiled loops here", False
    new, old = hashes.entry_of(case, found), runs.get(name)
    if old is None:
        runs[name] = new
        return "added", False
    wrong = hashes.differences(old, new)
    apart = hashes.distance(old["values"], found.theta) if "values" in old else 0.0
    if apart > hashes.TOLERANCE:
        wrong.append(f"values: apart by {apart:.2g}, at most {hashes.TOLERANCE} is allowed")
    if wrong and force:
        runs[name] = new
        return f"replaced; {'; '.join(wrong)}", True
    if wrong:
        return f"NOT CHANGED; {'; '.join(wrong)}", True
    if old["theta"].keys() >= new["theta"].keys():
        return "as it was", False
    old["theta"] |= new["theta"]
    return f"hash added for {hashes.kind_of(case, found)}", False


if __name__ == "__main__":
    sys.exit(main())
