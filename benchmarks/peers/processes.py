"""The processes of a job: who they are, what memory they hold, and how they are stopped between their turns."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

INTERVAL = 0.2


class Processes:
    """All processes that descend from a job's first ones. One that was seen once is remembered, so that it still
    counts if its parent ends before it."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}

    def add(self, pid: int) -> None:
        self.known[pid] = born(pid)

    def alive(self) -> list[int]:
        parents = {int(entry): stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
        self.known = {pid: birth for pid, birth in self.known.items() if (now := parents.get(pid)) and now[1] == birth}
        grew = True
        while grew:
            young = {pid: birth for pid, (parent, birth) in parents.items() if parent in self.known}
            grew = not young.keys() <= self.known.keys()
            self.known |= young
        return list(self.known)

    def send(self, which: signal.Signals) -> None:
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)

    def end(self) -> None:
        """Kill them all; while they are stopped none can start another."""
        self.send(signal.SIGSTOP)
        self.send(signal.SIGKILL)

    def cpu(self) -> float:
        """Seconds of CPU that those alive have used so far, all threads and both modes."""
        return sum(cpu_ticks(pid) for pid in self.alive()) / os.sysconf("SC_CLK_TCK")

    def pss(self) -> int:
        """Bytes of memory they hold together, shared pages counted once."""
        total = 0
        for pid in self.alive():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        total += 1024 * int(line.split()[1])
        return total


def cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def stat(pid: int) -> tuple[int, str]:
    """(parent, time of birth) of a process; (0, "") if it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return (0, "") if fields[0] == "Z" else (int(fields[1]), fields[19])


def born(pid: int) -> str:
    return stat(pid)[1]


class PeakMemory:
    """Samples a job's PSS until it is left; `.bytes` is the largest seen."""

    def __init__(self, processes: Processes) -> None:
        self.processes, self.bytes, self.over = processes, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.over.wait(INTERVAL):
            self.bytes = max(self.bytes, self.processes.pss())

    def __enter__(self) -> PeakMemory:
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.over.set()
        self.thread.join()
