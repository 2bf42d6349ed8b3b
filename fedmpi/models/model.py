"""What a model is to a client, and how the registry makes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fedmpi.config import Config


class TrainableModel(Protocol):
    """A model with all its parameters in `theta`, (d,) float32, and their gradient in `grad`."""

    theta: torch.Tensor
    grad: torch.Tensor

    def reseed(self, seed: int) -> None:
        """Seed the model's own random numbers, such as dropout masks; called before a client's steps."""

    def gradient(self, batch: Any) -> torch.Tensor:
        """The mean loss of a batch at θ (a scalar tensor), with its gradient written into `grad`."""

    def evaluate(self, batch: Any) -> tuple[float, float]:
        """The loss and the number of correct predictions, both summed over a batch, at θ."""


Make = Callable[[Config, torch.device], TrainableModel]


@dataclass(frozen=True)
class ModelFactory:
    """Makes a model that holds its initial parameters, from torch's generator, on a device.

    samples: what it learns from, to be compared with the dataset's `samples`: "points", "text" or "images".
    """

    make: Make
    samples: str

    def __call__(self, config: Config, device: torch.device) -> TrainableModel:
        return self.make(config, device)


def learns_from(samples: str) -> Callable[[Make], ModelFactory]:
    """Decorates the function that makes a model: says which samples the model learns from."""
    return lambda make: ModelFactory(make, samples)
