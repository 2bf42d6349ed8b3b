"""What the clients train: θ is one flat float32 vector, whatever the model."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from fedmpi.config import Config, ModelSettings
from fedmpi.errors import ConfigError
from fedmpi.models.cnn import ImageCNN
from fedmpi.models.device import CPU, torch_device
from fedmpi.models.flat import FlatModule
from fedmpi.models.lstm.compiled import CompiledLSTM
from fedmpi.models.lstm.module import CharLSTM
from fedmpi.models.quadratic import Quadratic
from fedmpi.native import library
from fedmpi.rng import torch_seed


class TrainableModel(Protocol):
    """A model whose parameters live in `theta` and whose gradient lands in `grad`."""

    theta: torch.Tensor
    grad: torch.Tensor

    def reseed(self, seed: int) -> None:
        """Start the model's own random numbers, such as dropout masks, from a seed; called before a client's steps."""

    def gradient(self, batch: Any) -> torch.Tensor:
        """The mean loss of a batch at θ (a scalar tensor), with its gradient written into `grad`."""

    def evaluate(self, batch: Any) -> tuple[float, float]:
        """The loss and the number of correct predictions, both summed over a batch, at θ."""


# Which datasets each model can learn from.
MODELS = {
    "quadratic": ("quadratic",),
    "lstm": ("synthetic-text", "shakespeare", "gutenberg", "leaf"),
    "cnn": ("cifar10",),
}


def make_model(config: Config) -> TrainableModel:
    """The configured model on the configured device, holding θ⁰ (keyed by run.seed)."""
    name = config.model.name
    if config.data.name not in MODELS[name]:
        raise ConfigError(f"model.name = '{name}': cannot learn from data.name = '{config.data.name}'")
    device = torch_device(config.client.device)
    if name == "quadratic":
        return Quadratic(config.data.dim, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(config.run.seed, "init"))
        module = make_module(config.model)
    loops = library()
    if isinstance(module, CharLSTM) and device.type == CPU and loops is not None:
        return CompiledLSTM(module, loops)
    return FlatModule(module, device)


def make_module(model: ModelSettings) -> nn.Module:
    """The torch module of a configuration, with its parameters drawn from torch's generator."""
    if model.name == "cnn":
        return ImageCNN(model.dropout)
    return CharLSTM(model.embedding, model.hidden, model.layers)
