"""A file in which the first rank says that it runs, and at its end its exit code. The launch scripts name one.

Open MPI's mpirun exits with 0 when it has lost a host, and any mpirun may wait for ever for one that it cannot reach.
"""

from __future__ import annotations

import os
from contextlib import suppress

MARK = "FEDMPI_MARK"
# Launchers tell each process its rank here: known before MPI is, and without it.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def mark(text: str) -> None:
    if (path := os.environ.get(MARK)) and is_first_rank():
        with suppress(OSError), open(path, "w", encoding="utf-8") as file:
            file.write(text)


def is_first_rank() -> bool:
    ranks = [os.environ[name] for name in RANK_VARIABLES if name in os.environ]
    return not ranks or ranks[0] == "0"
