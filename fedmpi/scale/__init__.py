"""The cost model: how long a round takes on a machine that a few measured numbers describe.

Entry points: `predict` for one round, `fit` for the numbers, `advice` for what to choose. docs/scale.md explains it.
"""

from fedmpi.scale.machine import CLUSTER, Machine, Rates
from fedmpi.scale.model import JobShape, Phases, predict

__all__ = ["CLUSTER", "JobShape", "Machine", "Phases", "Rates", "predict"]
