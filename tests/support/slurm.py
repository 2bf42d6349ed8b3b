"""A real Slurm of two nodes, from the distribution's packages, on the hosts of tests/support/bed.py.

Each node is a host of a bed, with its own name, address and slurmd; the controller runs on node1. Everything it
writes is in one folder, and everything it starts ends with the bed. The nodes claim more cores than this machine has.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support import bed
from tests.support.bed import Bed, find
from tests.support.commands import BIN, Finished

PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
CPUS = 4
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
# A limit, not a measurement: a job that hangs fails its test.
TIME_LIMIT = 240
# How long Slurm waits between the signal that announces a preemption and the kill.
GRACE = 30
CREDENTIAL = 10


def why_not() -> str:
    """What is missing to build a cluster here; empty if nothing is."""
    if os.geteuid():
        return "needs root, for network namespaces and slurmd"
    needed = {**bed.PACKAGES, **PACKAGES}
    missing = [f"{program} (Debian package {package})" for program, package in needed.items() if not find(program)]
    return "needs " + ", ".join(missing) if missing else ""


class Cluster:
    """Nodes node1 and node2 under Slurm. A context: what it built is gone afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bed = Bed(2, folder)
        self.state = folder / "slurm"
        self.conf = self.state / "slurm.conf"

    def __enter__(self) -> Cluster:
        self.bed.__enter__()
        try:
            self.state.mkdir()
            self._start_munge()
            self._write_conf()
            self._start(1, "slurmctld", "-D", "-f", self.conf)
            for host in self.bed.hosts:
                (self.state / f"tmp-node{host}").mkdir()
                self._start(host, "slurmd", "-D", "-N", f"node{host}", "-f", self.conf)
            self.until(lambda: self.on("sinfo", "-h", "-p", "batch", "-t", "idle", "-o", "%D").stdout.strip() == "2")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *why: object) -> None:
        # The daemons, and what jobs have left, run in the bed's namespaces, which it clears.
        self.bed.__exit__()

    def on(self, *words: str | Path, time_limit: float = TIME_LIMIT, **env: str) -> Finished:
        """Run a command on node1, as a user who is logged in there does."""
        return self.bed.on(1, *words, time_limit=time_limit, SLURM_CONF=str(self.conf), **env)

    def submit(self, folder: Path, *words: str | Path) -> str:
        """The number of the job that sbatch makes of a script and its arguments, run in a folder."""
        given = ["--parsable", f"--chdir={folder}"]
        done = self.on("sbatch", *given, *words, FEDMPI_PREFIX=str(BIN.parent))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, *words: str) -> str:
        """What a command of Slurm prints; it must succeed."""
        done = self.on(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tasks(self, job: str) -> list[dict[str, str]]:
        """What Slurm says of a job: the fields of each of its tasks."""
        shown = self.ask("scontrol", "show", "job", "--oneliner", job).splitlines()
        return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in shown if line]

    def states(self, job: str) -> set[str]:
        return {task["JobState"] for task in self.tasks(job)}

    def finish(self, job: str, folder: Path) -> None:
        """Wait until a job has ended; all its tasks must have ended well."""
        self.until(lambda: self.states(job) <= ENDED)
        assert self.states(job) == {"COMPLETED"}, f"{self.states(job)} {self.logs(folder)}"

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true."""
        deadline = time.monotonic() + TIME_LIMIT
        while not true():
            assert time.monotonic() < deadline, f"waited {TIME_LIMIT} s: {self.logs(self.state)}"
            time.sleep(0.2)

    def logs(self, folder: Path) -> str:
        """The ends of the logs in a folder, for a test that failed."""
        found = [*folder.glob("*.out"), *folder.glob("*.log")]
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found)

    def _start(self, host: int, *words: str | Path) -> None:
        program, *arguments = map(str, words)
        inside = [f"--target={self.bed.sshds[host].pid}", "--net", "--uts", "--mount", f"--wd={self.folder}"]
        full = [find("nsenter"), *inside, find(program), *arguments]
        settings = {**self.bed.environment, "SLURM_CONF": str(self.conf)}
        with (self.state / f"{program}{host}.log").open("wb") as log:
            subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=settings)

    def _start_munge(self) -> None:
        key = self.state / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        options = [f"--{option}={self.state / name}" for option, name in files.items()]
        self._start(1, "munged", "--foreground", "--force", *options)
        self.until(lambda: (self.state / "munge.socket").exists())

    def _write_conf(self) -> None:
        ports = {"SlurmctldPort": 6817, "SlurmdPort": 6818}
        settings = {
            "ClusterName": "bed",
            "SlurmctldHost": "node1",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            **ports,
            "AuthType": "auth/munge",
            # A job that goes back into the queue waits there for as long as a credential lives: two minutes, elsewhere.
            "AuthInfo": f"socket={self.state}/munge.socket,cred_expire={CREDENTIAL}",
            "StateSaveLocation": self.state / "state",
            "SlurmdSpoolDir": self.state / "spool-%n",
            # A node's own: PMIx puts files of the same names there on every node.
            "TmpFS": self.state / "tmp-%n",
            "SlurmctldPidFile": self.state / "slurmctld.pid",
            "SlurmdPidFile": self.state / "slurmd-%n.pid",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "SlurmdParameters": "config_overrides",
            "ReturnToService": 2,
            "MpiDefault": "none",
            "KillWait": 5,
            # A job of the partition "urgent" preempts those of "batch", which go back into the queue.
            "PreemptType": "preempt/partition_prio",
            "PreemptMode": "REQUEUE",
            "SlurmctldParameters": "preempt_send_user_signal",
            "SchedulerParameters": "sched_interval=1,sched_min_interval=100000,bf_interval=1",
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines += [
            f"NodeName=node{host} NodeAddr={bed.NETWORK}.{host} CPUs={CPUS} State=UNKNOWN" for host in self.bed.hosts
        ]
        lines += [
            f"PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 GraceTime={GRACE} MaxTime=60",
            "PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=60",
        ]
        self.conf.write_text("\n".join(lines) + "\n")
        # A plugin has to be named, or slurmd looks for a mounted cgroup to tell it which; it is not used.
        (self.state / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
