"""One fact about memory: glibc gives large blocks back to the kernel at once, and a training step asks for them again.

The temporaries of an LSTM step are megabytes each. By default glibc maps them anew for every step and unmaps them
after it, so that a quarter to a third of a step on a CPU is page faults. Told to keep what was freed, it does not.
Linux with glibc only; FEDMPI_MALLOPT=0 leaves the allocator as it is.
"""

from __future__ import annotations

import ctypes
import os
import platform

# From <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
KEEP = 2**30


def keep_freed_memory() -> bool:
    """Whether the allocator was told to keep freed memory up to 1 GiB instead of returning it."""
    if os.environ.get("FEDMPI_MALLOPT") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(M_MMAP_THRESHOLD, KEEP) and mallopt(M_TRIM_THRESHOLD, KEEP))
