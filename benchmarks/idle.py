"""How much of a core a waiting rank uses: the server while a worker trains, and a worker with no drawn client.

    python benchmarks/idle.py [SECONDS]

Starts a real run with one client drawn and very many local steps, and reads the processes' CPU time over 10 seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import BIN, environment, mpirun_command

TICKS = os.sysconf("SC_CLK_TCK")
RUN = ["run", "demo", "-s", "client.K=100000", "-s", "sampling.m=1", "-s", "eval.every=0", "-s", "run.T=1"]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def ranks(launcher: int) -> dict[int, int]:
    """{rank: pid} of the job's processes, from their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ProcessLookupError):
            continue
        rank = [v.partition(b"=")[2] for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK=")]
        if rank and parent == launcher:
            found[int(rank[0])] = int(folder.name)
    return found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with tempfile.TemporaryDirectory() as folder:
        command = [*mpirun_command(3), BIN / "fedmpi", *RUN, "-o", f"{folder}/idle.h5"]
        job = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(15)
            pids = ranks(job.pid)
            before = {rank: cpu_seconds(pid) for rank, pid in pids.items()}
            time.sleep(seconds)
            shares = {rank: (cpu_seconds(pid) - before[rank]) / seconds for rank, pid in sorted(pids.items())}
        finally:
            job.terminate()
            job.wait()
    for rank, share in shares.items():
        role = "server, waiting" if rank == 0 else "worker, training" if share > 0.5 else "worker, no client drawn"
        print(f"rank {rank}  {share:6.1%} of a core  {role}")


if __name__ == "__main__":
    main()
