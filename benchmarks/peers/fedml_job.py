"""FedML: every rank of `mpirun -n 3`, its FedAvg_seq: a worker trains its clients in sequence and uploads their sum.

`fedml.init()` asks the network; the arguments it would fill in are given here. At its best: no logging, no tests, no
tracking, no scheduler (clients are alike, so that equal parts are the best plan).
"""

import logging
from types import SimpleNamespace

import torchvision_operators  # noqa: F401  before anything imports torchvision

# isort: split
import numpy as np
import torch
from fedml.core import ClientTrainer, ServerAggregator
from fedml.simulation.mpi.fedavg_seq.FedAVGAggregator import FedAVGAggregator
from fedml.simulation.mpi.fedavg_seq.FedAvgSeqAPI import FedML_FedAvgSeq_distributed
from gate import Gate
from job import ENDLESS, SAMPLES, CharLSTM, local_steps, m, n
from mpi4py import MPI

logging.disable(logging.INFO)


class Trainer(ClientTrainer):
    rng = np.random.default_rng()

    def get_model_params(self):
        return self.model.state_dict()

    def set_model_params(self, model_parameters):
        self.model.load_state_dict(model_parameters)

    def train(self, train_data, device, args):
        local_steps(self.model, train_data, self.rng)


class Aggregator(ServerAggregator):
    get_model_params, set_model_params = Trainer.get_model_params, Trainer.set_model_params

    def test(self, test_data, device, args):
        return None


def wait_and_draw(self, *arguments, draw=FedAVGAggregator.client_sampling):
    """A round begins with the draw."""
    if not hasattr(self, "gate"):
        self.gate = Gate()
    self.gate.wait()
    return draw(self, *arguments)


FedAVGAggregator.client_sampling = wait_and_draw
comm, model = MPI.COMM_WORLD, CharLSTM()
args = SimpleNamespace(
    backend="MPI", comm_round=ENDLESS, client_num_in_total=n, client_num_per_round=m, frequency_of_the_test=ENDLESS,
    enable_wandb=False, dataset="windows", ml_engine="torch",
)  # fmt: skip
# A client's data is its number: the trainer above cuts its own batches.
clients, sizes = {i: i for i in range(n)}, dict.fromkeys(range(n), SAMPLES)
dataset = [n * SAMPLES, 0, None, None, sizes, clients, clients, 100]
FedML_FedAvgSeq_distributed(
    args, comm.rank, comm.size, comm, torch.device("cpu"), dataset, model, Trainer(model, args), Aggregator(model, args)
)
