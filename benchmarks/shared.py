"""What benchmarks and tests share, from tests/support: how jobs are started, and hosts on one machine.

`python benchmarks/<name>.py` finds this file beside the benchmark, but not the folder above it, where `tests` is.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.bed import Bed, why_not
from tests.support.commands import BIN, environment, is_open_mpi, mpirun_command

__all__ = ["BIN", "Bed", "environment", "is_open_mpi", "mpirun_command", "why_not"]
