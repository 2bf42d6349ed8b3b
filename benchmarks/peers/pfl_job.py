"""pfl: two processes under torchrun's variables, no server: each trains its part of the cohort, Gloo adds them up.

At its best: tensors made once, no evaluation after round 0, no callbacks but the gate.
"""

import numpy as np
import torch
from gate import Gate
from job import ENDLESS, ETA_L, NO_OP, B, CharLSTM, K, first_step, m, n, perturb, windows
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel


class Module(CharLSTM):
    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first_step()
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        return {}


class Perturbed(PyTorchModel):
    def do_multiple_epochs_of(self, *arguments, **named) -> None:
        first_step()
        perturb(self.pytorch_model)


class Pause(TrainingProcessCallback):
    """Both processes wait: either would go on to train."""

    def __init__(self) -> None:
        self.gate = Gate()

    def on_train_begin(self, *, model) -> Metrics:
        self.gate.wait()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.gate.wait()
        return False, Metrics()


np.random.seed(0)  # the same users on both processes
torch.manual_seed(0)
x, y = windows()
users = {i: Dataset((x[i], y[i]), user_id=str(i)) for i in range(n)}
module = Module()
model = (Perturbed if NO_OP else PyTorchModel)(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
backend = SimulatedBackend(
    training_data=FederatedDataset(users.__getitem__, get_user_sampler("random", list(users))), val_data=None
)
FederatedAveraging().run(
    algorithm_params=NNAlgorithmParams(
        central_num_iterations=ENDLESS, evaluation_frequency=ENDLESS, train_cohort_size=m, val_cohort_size=0
    ),
    backend=backend,
    model=model,
    model_train_params=NNTrainHyperParams(
        local_num_epochs=None, local_num_steps=K, local_learning_rate=ETA_L, local_batch_size=B
    ),
    model_eval_params=None,
    callbacks=[Pause()],
    send_metrics_to_platform=False,
)
