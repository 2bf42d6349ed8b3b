"""The registry of models. A new model: one file in this folder, one line here, and its name in config/tables.py."""

from __future__ import annotations

import torch

from fedmpi.config import Config
from fedmpi.data import samples_of
from fedmpi.errors import ConfigError
from fedmpi.models.cnn import make_cnn
from fedmpi.models.device import torch_device
from fedmpi.models.lstm import make_lstm
from fedmpi.models.model import ModelFactory, TrainableModel
from fedmpi.models.quadratic import make_quadratic
from fedmpi.plugin import find
from fedmpi.rng import torch_seed

MODELS: dict[str, ModelFactory] = {
    "quadratic": make_quadratic,
    "lstm": make_lstm,
    "cnn": make_cnn,
}
"""The models by their names in model.name."""


def make_model(config: Config) -> TrainableModel:
    """The configured model on the configured device, holding θ⁰ (keyed by run.seed)."""
    name, data = config.model.name, config.data.name
    factory: ModelFactory = find(MODELS, name, "model.name")
    if factory.samples != samples_of(data):
        raise ConfigError(
            f"model.name = '{name}': cannot learn from data.name = '{data}', which has {samples_of(data)}; it needs "
            f"{factory.samples}"
        )
    device = torch_device(config.client.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(config.run.seed, "init"))
        return factory(config, device)
