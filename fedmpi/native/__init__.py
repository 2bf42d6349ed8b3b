"""Loops in C, for what torch and numpy have no single pass for.

Optional: without a compiler at installation, or with FEDMPI_NATIVE=0, there is no library, and its callers compute the
same with torch (equal up to rounding) or with numpy (equal bit for bit).
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

# What fedmpi_native_version() must return. It is raised with every change of a function's arguments, so that a library
# of another installation is not called with the wrong ones.
VERSION = 2

SIZE, ADDRESS, REAL = ctypes.c_long, ctypes.c_void_p, ctypes.c_double
ARGUMENTS = {
    "fedmpi_lstm_forward": [SIZE] * 2 + [ADDRESS] * 6 + [SIZE, ADDRESS, SIZE],
    "fedmpi_lstm_backward": [SIZE] * 2 + [ADDRESS] * 3 + [SIZE, ADDRESS, SIZE] + [ADDRESS] * 4,
    "fedmpi_fixed_add": [SIZE, ADDRESS, REAL, ADDRESS],
    "fedmpi_fixed_apply": [SIZE, ADDRESS, REAL, ADDRESS, ADDRESS, ADDRESS],
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
    for name, arguments in ARGUMENTS.items():
        function = getattr(loops, name)
        function.argtypes, function.restype = arguments, None
    return loops
