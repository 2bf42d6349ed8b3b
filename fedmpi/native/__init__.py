"""Loops in C: the LSTM, sums of updates, and vectors, with the same bits on every CPU.

Optional: without a compiler at installation, or with FEDMPI_NATIVE=0, there is no library, and its callers compute the
same with torch (equal up to rounding) or with numpy (equal bit for bit). `kernel` is chosen by what the CPU has; it
changes the speed, not the bits. FEDMPI_KERNEL=avx512, avx2 or plain chooses one.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

# What fedmpi_native_version() must return. It is raised with every change of a function's arguments or results, so that
# a library of another installation is not called with the wrong ones.
VERSION = 3
# In the order of their numbers in lstm.c: each is faster than the one before, where the CPU has it.
KERNELS = ("plain", "avx2", "avx512")

SIZE, ADDRESS, REAL, SINGLE, INT = ctypes.c_long, ctypes.c_void_p, ctypes.c_double, ctypes.c_float, ctypes.c_int
# Each function's arguments and what it returns.
FUNCTIONS: dict[str, tuple[list[type], type | None]] = {
    "fedmpi_use_kernel": ([INT], INT),
    "fedmpi_peak": ([SIZE], REAL),
    "fedmpi_lstm_memory": ([ADDRESS, INT], SIZE),
    "fedmpi_lstm_gradient": ([ADDRESS] * 7, INT),
    "fedmpi_lstm_evaluate": ([ADDRESS] * 7, INT),
    "fedmpi_axpy": ([SIZE, SINGLE, ADDRESS, ADDRESS], None),
    "fedmpi_squares": ([SIZE, ADDRESS], REAL),
    "fedmpi_fixed_add": ([SIZE, ADDRESS, REAL, ADDRESS], None),
    "fedmpi_fixed_apply": ([SIZE, ADDRESS, REAL, ADDRESS, ADDRESS, ADDRESS], None),
}


class Use:
    """Whether this process uses the compiled loops if it has them."""

    allowed = True


def native_installed() -> bool:
    """Whether this process has compiled loops."""
    return load() is not None


def native_available() -> bool:
    """Whether this process has compiled loops and uses them."""
    return library() is not None


def use_native(allowed: bool) -> None:
    """Set whether this process uses the compiled loops, if it has them: not in a job in which some rank has none, or
    that resumes a run which was computed without."""
    Use.allowed = allowed


def library() -> ctypes.CDLL | None:
    """The compiled loops, with their arguments declared; None if there are none or they are not to be used."""
    return load() if Use.allowed else None


def use_kernel(name: str = "avx512") -> str:
    """Use a kernel from here on, or the best one below it if this CPU lacks it; returns the one in use, "" if none."""
    loops = load()
    return KERNELS[loops.fedmpi_use_kernel(KERNELS.index(name))] if loops else ""


@lru_cache(1)
def load() -> ctypes.CDLL | None:
    if os.environ.get("FEDMPI_NATIVE") == "0":
        return None
    for path in (Path(__file__).with_name("loops" + suffix) for suffix in EXTENSION_SUFFIXES):
        try:
            loops = ctypes.CDLL(str(path))
            if loops.fedmpi_native_version() == VERSION:
                return declared(loops)
        except (OSError, AttributeError):
            continue
    return None


def declared(loops: ctypes.CDLL) -> ctypes.CDLL:
    for name, (arguments, result) in FUNCTIONS.items():
        function = getattr(loops, name)
        function.argtypes, function.restype = arguments, result
    wanted = os.environ.get("FEDMPI_KERNEL", KERNELS[-1])
    loops.fedmpi_use_kernel(KERNELS.index(wanted) if wanted in KERNELS else len(KERNELS) - 1)
    return loops
