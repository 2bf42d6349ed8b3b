"""FLGo: one process, two threads train the round's clients; uniform sampling, uniform average.

At its best: threads, because it makes a new pool of processes every round; no evaluation.
"""

import sys
from pathlib import Path

import torchvision_operators  # noqa: F401  before anything imports torchvision

# isort: split
import flgo
from flgo.algorithm import fedavg
from gate import Gate
from job import ENDLESS, ETA_L, NO_OP, WORKERS, B, K, first_step, m, n, perturb


class GatedServer(fedavg.Server):
    def initialize(self, *arguments, **named):
        self.gate = Gate()

    def iterate(self):
        self.gate.wait()
        return super().iterate()


class PerturbingClient(fedavg.Client):
    def train(self, model):
        first_step()
        perturb(model)


class Algorithm:
    Server, Client = GatedServer, PerturbingClient if NO_OP else fedavg.Client


sys.path.append(str(Path.cwd()))  # where FLGo writes the task, as a package
flgo.gen_direct_task_from_file("task", str(Path(__file__).with_name("flgo_task.py")))
option = {
    "num_rounds": ENDLESS, "proportion": m / n, "num_steps": K, "batch_size": B, "learning_rate": ETA_L,
    "lr_scheduler": "constant", "sample": "uniform", "aggregate": "uniform", "train_holdout": 0.0, "test_holdout": 0.0,
    "eval_interval": -1, "parallel_type": "t", "num_parallels": WORKERS, "no_log_console": True, "gpu": [],
}  # fmt: skip
flgo.init("task", Algorithm, option).run()
