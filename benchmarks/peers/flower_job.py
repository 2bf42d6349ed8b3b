"""Flower: its simulation engine, a Ray of two workers with one CPU each, FedAvg over half of the clients.

At its best: one actor per core that keeps model and data, no evaluation, logging off, no dashboard.
"""

import logging
from pathlib import Path

from flower_client import app
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from gate import Gate
from job import ENDLESS, WORKERS, CharLSTM, m, n

logging.getLogger("flwr").setLevel(logging.ERROR)
server = ServerApp()


class Gated(FedAvg):
    def configure_train(self, *arguments):
        self.gate.wait()
        return super().configure_train(*arguments)


@server.main()
def main(grid, context) -> None:
    strategy = Gated(fraction_train=m / n, fraction_evaluate=0.0, min_available_nodes=n)
    strategy.gate = Gate()
    strategy.start(grid=grid, initial_arrays=ArrayRecord(CharLSTM().state_dict()), num_rounds=ENDLESS)


run_simulation(
    server_app=server,
    client_app=app,
    num_supernodes=n,
    backend_config={
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        "init_args": {
            "num_cpus": WORKERS,
            "include_dashboard": False,
            "_temp_dir": str(Path("ray").resolve()),
            "logging_level": "error",
        },
    },
)
