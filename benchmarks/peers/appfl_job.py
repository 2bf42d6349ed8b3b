"""APPFL: every rank of `mpirun -n 3`; a worker rank stands for five clients (its "batched" clients).

It has no draw of m out of n under MPI, so that n = m = 10: all ten train in every round. At its best: step mode, no
validation, `optimize_memory` off everywhere (it collects garbage after every message), equal weights.
"""

import torchvision_operators  # noqa: F401  before anything imports torchvision

# isort: split
import numpy as np
from appfl.agent import ClientAgent, ServerAgent
from appfl.algorithm.trainer import VanillaTrainer
from appfl.comm.mpi import MPIClientCommunicator, MPIServerCommunicator
from gate import Gate
from job import ENDLESS, ETA_L, NO_OP, WORKERS, B, CharLSTM, K, first_step, m, perturb, windows
from mpi4py import MPI
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import TensorDataset

FAST = {"optimize_memory": False}


class Server(ServerAgent):
    def _load_model(self):
        self.model = CharLSTM()


class Trainer(VanillaTrainer):
    def _train_batch(self, *arguments):
        first_step()
        return super()._train_batch(*arguments)


class Perturbing(VanillaTrainer):
    def train(self, **named):
        first_step()
        perturb(self.model)
        self.model_state = self.model.state_dict()


class Client(ClientAgent):
    """One client, with what a config file would name given directly."""

    def _load_model(self):
        self.model = CharLSTM()

    def _load_data(self):
        i = int(self.get_id())
        self.train_dataset, self.val_dataset = TensorDataset(*(part[i] for part in windows())), None

    def _load_trainer(self):
        self.trainer = (Perturbing if NO_OP else Trainer)(
            self.model, nn.CrossEntropyLoss(), lambda true, scores: np.mean(scores.argmax(1) == true),
            self.train_dataset, None, self.client_agent_config.train_configs, self.logger,
        )  # fmt: skip


def serve(comm):
    server = Server(
        OmegaConf.create({
            "client_configs": {"train_configs": {}},
            "server_configs": {
                "num_clients": m, "num_global_epochs": ENDLESS, **FAST,
                "scheduler": "SyncScheduler", "scheduler_kwargs": {"num_clients": m, **FAST},
                "aggregator": "FedAvgAggregator", "aggregator_kwargs": {"client_weights_mode": "equal", **FAST},
            },
        })
    )  # fmt: skip
    gate, aggregate = Gate(), server.aggregator.aggregate

    def aggregate_and_wait(*arguments, **named):
        theta = aggregate(*arguments, **named)
        gate.wait()
        return theta

    server.aggregator.aggregate = aggregate_and_wait
    MPIServerCommunicator(comm, server, logger=server.logger, **FAST).serve()


def train(comm):
    ids = [str(i) for i in range(m) if i % WORKERS == comm.rank - 1]
    config = {"mode": "step", "num_local_steps": K, "train_batch_size": B, "optim": "SGD", "optim_args": {"lr": ETA_L}}
    clients = {i: Client(OmegaConf.create({"client_id": i, "train_configs": {**config, **FAST}, **FAST})) for i in ids}
    server = MPIClientCommunicator(comm, server_rank=0, client_ids=ids, **FAST)
    theta = server.get_global_model(init_model=True)
    while True:
        models, facts = {}, {}
        for i, client in clients.items():
            client.load_parameters(theta)
            client.train()
            trained = client.get_parameters()
            models[i], facts[i] = trained if isinstance(trained, tuple) else (trained, {})
        theta, _ = server.update_global_model(models, kwargs=facts)


(serve if MPI.COMM_WORLD.rank == 0 else train)(MPI.COMM_WORLD)
