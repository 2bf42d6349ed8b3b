"""Scale on paper: how long a round takes on a machine that is described by a few measured numbers."""

from fedmpi.scale.machine import CLUSTER, Machine, Rates
from fedmpi.scale.model import Job, Phases, predict

__all__ = ["CLUSTER", "Job", "Machine", "Phases", "Rates", "predict"]
