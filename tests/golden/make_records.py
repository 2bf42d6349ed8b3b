"""Make the records of this version that later versions must read: `python -m tests.golden.make_records`, once, as root.

To be run at each release, from the top of the tree, with the release's own code. It refuses to replace a folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fedmpi
from fedmpi import open_record
from tests.golden.records import BROKEN, HERE, pack, summary
from tests.support.commands import BIN, environment

# Host names in the records are this one: each command runs in a UTS namespace of its own.
HOST = "localhost"
PAIRS = (
    "bin/fedmpi compare quadratic --schemes md,uniform --seeds 2 -s run.T=12 -s eval.every=3 "
    "-s record.theta_every=4 -s record.per_client=true -o pairs"
)
NETWORK = (
    "bin/mpirun --oversubscribe -n 3 bin/fedmpi run quadratic -s run.T=8 -s sampling.scheme=clustered "
    "-s comm.compression=int8 -s network.enabled=true -s network.up_spread=1.0 -s eval.every=2 -o network.h5"
)
# Steps so small that θ still depends on the first rounds in the last, and so many that there is time to send a signal.
SLOW = "-s run.T=24 -s client.K=3000 -s client.eta_l=0.0001 -s run.checkpoint_every=4 -s eval.every=4"
SETTINGS = {
    "killed": f"{SLOW} -s record.theta_every=6",
    "stopped": f"{SLOW} -s sampling.scheme=clustered-similarity -s sampling.recluster_every=2",
    "topk": f"{SLOW} -s comm.compression=topk -s comm.topk=0.2",
}
ENDED_BY = {"killed": signal.SIGKILL, "stopped": signal.SIGTERM, "topk": signal.SIGTERM}
EXIT_CODES = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 3}
# Rounds in the record when the signal is sent: past a checkpoint, and not at one.
ROUNDS = 10


def main() -> None:
    folder = HERE / f"v{fedmpi.__version__}"
    if (folder / "expected.json").exists():
        sys.exit(f"{folder.name} exists: records of a released version are never replaced")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fedmpi-records-") as scratch:
        here = Path(scratch)
        # Records keep the command's own words: a relative path leaves this machine's folders out of them.
        (here / "bin").symlink_to(BIN)
        found = {}
        for command in (PAIRS, NETWORK):
            assert start(command, here).wait() == 0
        for name in BROKEN:
            assert start(f"bin/fedmpi run quadratic {SETTINGS[name]} -o whole.h5 --force", here).wait() == 0
            break_off(name, here)
            found[name] = {**summary(here / f"{name}.h5"), "unbroken": summary(here / "whole.h5")}
        for path in [*sorted((here / "pairs").glob("*.h5")), here / "network.h5"]:
            found[path.stem] = summary(path)
        for path in [*here.glob("*.h5"), *here.glob("*.checkpoint"), *here.glob("pairs/*.h5")]:
            if not path.name.startswith("whole"):
                pack(path, folder)
    (folder / "expected.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def start(command: str, folder: Path) -> subprocess.Popen[bytes]:
    """A command in `folder`, on a host that is called HOST."""
    print(command)
    script = f"hostname {HOST} && exec {command}"
    return subprocess.Popen(["unshare", "--uts", "sh", "-c", script], cwd=folder, env=environment())


def break_off(name: str, folder: Path) -> None:
    """Start a run and end it by its signal after so many rounds."""
    process = start(f"bin/fedmpi run quadratic {SETTINGS[name]} -o {name}.h5", folder)
    while rounds_in(folder / f"{name}.h5") < ROUNDS:
        assert process.poll() is None, f"{name}: ended by itself"
        time.sleep(0.005)
    os.kill(process.pid, ENDED_BY[name])
    code = process.wait()
    assert code == EXIT_CODES[ENDED_BY[name]], f"{name}: exit code {code}"
    assert ROUNDS <= rounds_in(folder / f"{name}.h5") < 24
    assert (folder / f"{name}.h5.checkpoint").exists()


def rounds_in(path: Path) -> int:
    if not path.exists():
        return 0
    with open_record(path) as record:
        return len(record.rounds)


if __name__ == "__main__":
    main()
