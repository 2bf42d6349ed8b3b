"""The quadratic loss L_i(θ) = ½‖θ − θ_i*‖², for which theory gives exact expectations."""

from __future__ import annotations

import torch

from fedmpi.config import Config
from fedmpi.models.model import TrainableModel, learns_from


@learns_from("points")
def make_quadratic(config: Config, device: torch.device) -> TrainableModel:
    """The quadratic model of data.dim dimensions."""
    return Quadratic(config.data.dim, device)


class Quadratic:
    """θ itself, from θ⁰ = 0. K gradient steps give Δ_i = φ(θ_i* − θᵗ), φ = 1 − (1−η_l)^K   [FVKL, app. D]."""

    def __init__(self, dim: int, device: torch.device) -> None:
        self.theta = torch.zeros(dim, device=device)
        self.grad = torch.zeros_like(self.theta)

    def reseed(self, seed: int) -> None:
        """Does nothing: this model has no random numbers."""

    def gradient(self, batch: torch.Tensor) -> torch.Tensor:
        """½‖θ − θ_i*‖², with ∇ = θ − θ_i* left in `grad`; batch is θ_i*: (dim,) float32."""
        torch.sub(self.theta, batch.to(self.theta.device), out=self.grad)
        return 0.5 * self.grad.dot(self.grad)

    def evaluate(self, batch: torch.Tensor) -> tuple[float, float]:
        """The loss; NaN in place of correct predictions, of which there are none."""
        gap = self.theta.double() - batch.to(self.theta.device).double()
        return float(0.5 * gap.dot(gap)), float("nan")
