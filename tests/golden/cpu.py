"""What decides the last bits of torch's arithmetic on this machine."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch

FUSED, SEPARATE = "fused multiply-add", "separate multiply and add"


@cache
def rounding_kind() -> str:
    """Whether torch's elementwise a − s·b rounds once or twice here: once where the CPU has an instruction for it.

    1 − (1 + 2⁻¹²)² is −2⁻¹¹ − 2⁻²⁴; where the product is rounded first, the last term is lost.
    """
    a, s = 1.0, 1 + 2.0**-12
    found = torch.full((64,), a).sub_(torch.full((64,), s), alpha=s)
    return FUSED if (found == a - s * s).all() else SEPARATE


@cache
def cpu_kind() -> str:
    """The CPU as far as it may decide which kernels torch, MKL and oneDNN choose, and the version of torch."""
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {processor()}, {capability}, torch {torch.__version__.partition('+')[0]}"


def processor() -> str:
    """Vendor, family and model of the first core, or what Python calls the processor where Linux does not say."""
    try:
        first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    except OSError:
        return platform.processor()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    if "vendor_id" in facts:
        return f"{facts['vendor_id']} family {facts.get('cpu family')} model {facts.get('model')}"
    return f"{facts.get('CPU implementer')} part {facts.get('CPU part')}"
