"""The machine that a figure was measured on, in one line: every benchmark prints it."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path


def machine() -> str:
    """CPU model, its vector units, cores, MHz if known, and the date."""
    facts = cpu_facts()
    flags = facts.get("flags", facts.get("Features", "")).split()
    units = [name for name in ("avx512f", "avx2", "fma", "asimd", "sve") if name in flags]
    model = facts.get("model name", platform.processor() or platform.machine())
    family = f", family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    mhz = f", {float(facts['cpu MHz']):.0f} MHz" if "cpu MHz" in facts else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{model}{family} ({', '.join(units) or 'no vector units known'}), {cores} cores{mhz}; {datetime.date.today()}"
    )


def cpu_facts() -> dict[str, str]:
    """What Linux says of the first core; empty elsewhere."""
    try:
        first, *_ = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
