"""fedmpi: every rank of `mpirun -n 3`. Arguments: the record's path, then config overrides as KEY=VALUE.

The gate stands before `ServerRun.round`: between rounds the workers wait for commands, asleep.
"""

import sys

from gate import Gate
from job import ENDLESS, ETA_L, NO_OP, SAMPLES, B, K, first_step, m, n

from fedmpi import Config, client, run
from fedmpi.client import LocalClients, Training
from fedmpi.job.server_run import ServerRun

JOB = {
    "data.name": "synthetic-text", "data.n": n, "data.samples": SAMPLES, "model.name": "lstm", "client.K": K,
    "client.B": B, "client.eta_l": ETA_L, "sampling.scheme": "uniform", "sampling.m": m, "eval.every": 0,
    "comm.placement": "dynamic",  # any worker may train any client, as with every peer
    "run.T": ENDLESS,
    "comm.timeout": 3600.0,  # ranks that were stopped while others had their turn are not dead
}  # fmt: skip


def gated_round(self: ServerRun, t: int, round=ServerRun.round) -> None:
    if not hasattr(self, "gate"):
        self.gate = Gate()
    self.gate.wait()
    round(self, t)


def noted_steps(*arguments, steps=client.local_steps):
    first_step()
    return steps(*arguments)


def perturb(self: LocalClients, i: int, t: int, delta, between_steps=None) -> Training:
    first_step()
    delta[:] = 1e-3
    return Training(i, 0.0, 1e-3 * len(delta) ** 0.5, 0.0)


ServerRun.round, client.local_steps = gated_round, noted_steps
if NO_OP:
    LocalClients.train = perturb
overrides = dict(argument.split("=", 1) for argument in sys.argv[2:])
run(Config.load(None, JOB | overrides), sys.argv[1], force=True)
