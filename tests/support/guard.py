"""Trying many inputs in a child process: escapes, hangs, crashes and too much memory are counted, not fatal."""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import resource
import struct
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedmpi.errors import FedmpiError

SECONDS = 60.0
"""An input that takes longer is a hang; the longest, whose figures are drawn, take seconds on a busy machine."""
MEMORY = 768 << 20
"""Bytes that the child may take on top of what it has when it begins."""
MOST_FAILURES = 20


@dataclass
class Tally:
    """What became of the inputs: accepted, refused in one sentence, or one of `failures` (number -> what happened)."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    peak: int = 0
    """The most memory a child took, in bytes."""

    def __str__(self) -> str:
        well = f"{self.accepted:,} accepted, {self.refused:,} refused"
        return f"{self.inputs:,} inputs: {well}, {len(self.failures)} escaped"


def try_all(attempt: Callable[[int], object], numbers: range) -> Tally:
    """Call attempt(k) for every number, in a child process that is replaced when an input takes it down.

    An attempt ends well by returning or by raising a FedmpiError of one line; anything else is a failure.
    """
    tally = Tally()
    first = numbers.start
    while first < numbers.stop and len(tally.failures) < MOST_FAILURES:
        first = run_child(attempt, range(first, numbers.stop), tally)
    return tally


def run_child(attempt: Callable[[int], object], numbers: range, tally: Tally) -> int:
    """Fork a child for these numbers; returns the first one that was not tried."""
    shared = mmap.mmap(-1, 24)
    with tempfile.TemporaryFile("w+") as words:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                in_child(attempt, numbers, shared, words.fileno())
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status, usage = os.wait4(child, 0)
        reached, accepted, refused = struct.unpack("qqq", shared[:24])
        words.seek(0)
        said = words.read()
    tally.accepted += accepted
    tally.refused += refused
    tally.peak = max(tally.peak, usage.ru_maxrss * 1024)
    tried = reached - numbers.start if os.waitstatus_to_exitcode(status) == 0 else reached - numbers.start + 1
    tally.inputs += tried
    lines = [line for line in said.splitlines() if line.startswith("{")]
    for line in lines:
        found = json.loads(line)
        tally.failures[found["number"]] = found["what"]
    if os.waitstatus_to_exitcode(status) != 0:
        other = "\n".join(line for line in said.splitlines() if not line.startswith("{"))
        tally.failures[reached] = f"the process ended with {os.waitstatus_to_exitcode(status)}:\n{other}"
    return numbers.start + tried


def in_child(attempt: Callable[[int], object], numbers: range, shared: mmap.mmap, words: int) -> None:
    limit_memory(MEMORY)
    faulthandler.enable(file=words)
    accepted = refused = failed = 0
    for number in numbers:
        shared[:24] = struct.pack("qqq", number, accepted, refused)
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=words)
        try:
            attempt(number)
            accepted += 1
        except FedmpiError as error:
            refused += 1
            if "\n" in str(error) or not str(error):
                failed += say(words, number, f"not one sentence: {error!r}")
        except BaseException:
            failed += say(words, number, traceback.format_exc())
        if failed >= MOST_FAILURES:
            break
    faulthandler.cancel_dump_traceback_later()
    shared[:24] = struct.pack("qqq", number + 1, accepted, refused)


def say(words: int, number: int, what: str) -> int:
    os.write(words, (json.dumps({"number": number, "what": what}) + "\n").encode())
    return 1


def limit_memory(more: int) -> None:
    """Let this process take so many bytes of address space on top of what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more,) * 2)


def kinds(tally: Tally) -> Counter[str]:
    """The failures by their last line."""
    return Counter((what.strip().splitlines() or [""])[-1] for what in tally.failures.values())


def explain(name: str, tally: Tally) -> str:
    """A tally in words; every failure whole."""
    lines = [f"{name}: {tally}; peak memory {tally.peak >> 20} MiB"]
    lines += [f"--- {name} {number}\n{what}" for number, what in sorted(tally.failures.items())]
    return "\n".join(lines)
