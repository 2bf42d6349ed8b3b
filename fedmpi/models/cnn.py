"""The paper's image model: three 3×3 convolutions with dropout, then two linear layers."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from fedmpi.config import Config
from fedmpi.data.sources.cifar10 import CLASSES
from fedmpi.models.flat import FlatModule
from fedmpi.models.model import TrainableModel, learns_from


@learns_from("images")
def make_cnn(config: Config, device: torch.device) -> TrainableModel:
    """The CNN of [model]."""
    return FlatModule(ImageCNN(config.model.dropout), device)


class ImageCNN(nn.Module):
    """Scores of an image's ten classes; 122,570 parameters   [FVKL, app. CIFAR10; the authors' settings].

    Convolutions to 32, 64 and 64 channels, the first two with ReLU and 2×2 max-pooling, dropout after each of the
    three, linear to 64 with ReLU, linear to 10.
    """

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)])
        self.drop = KeyedDropout(dropout)
        self.hidden = nn.Linear(64 * 4 * 4, 64)
        self.output = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (B, 3, 32, 32) float32 in [−1, 1] -> (B, 10) scores."""
        first, second, third = self.convolutions
        x = self.drop(functional.max_pool2d(functional.relu(first(x)), 2))
        x = self.drop(functional.max_pool2d(functional.relu(second(x)), 2))
        x = self.drop(third(x))
        scores: torch.Tensor = self.output(functional.relu(self.hidden(x.flatten(1))))
        return scores


class KeyedDropout(nn.Module):
    """Dropout whose masks come from a generator of its own, so that they depend on its seed alone and are the same on
    every rank. Kept activations are divided by 1 − p; none are dropped in evaluation."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator = torch.Generator()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        # The generator is on the CPU, so that every device gets the same masks.
        mask = torch.empty(x.shape).bernoulli_(1 - self.p, generator=self.generator)
        return x * mask.div_(1 - self.p).to(x.device)
