"""Any torch classifier as a model with flat parameters: the module's parameters are views of θ."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class FlatModule:
    """A classifier whose parameters are views of `theta` and whose gradients are views of `grad`, both (d,) float32.

    Copying θ in is one memcpy, an SGD step is one axpy, and an update is one subtraction, for any module.
    """

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        self.module = module.to(device)
        parameters = list(self.module.parameters())
        self.theta = torch.cat([p.detach().reshape(-1) for p in parameters]).float()
        self.grad = torch.zeros_like(self.theta)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self.theta[start:end].view_as(parameter)
            parameter.grad = self.grad[start:end].view_as(parameter)
            start = end

    def reseed(self, seed: int) -> None:
        """Seed the module's own generators, such as those of its dropout."""
        for part in self.module.modules():
            if isinstance(generator := getattr(part, "generator", None), torch.Generator):
                generator.manual_seed(seed)

    def gradient(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """The mean cross-entropy of (x, y) at θ; ∇ is left in `grad`."""
        x, y = (part.to(self.theta.device) for part in batch)
        self.module.train()
        self.grad.zero_()
        loss = functional.cross_entropy(self.module(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[float, float]:
        """The cross-entropy and the number of correct predictions, summed over (x, y)."""
        x, y = (part.to(self.theta.device) for part in batch)
        self.module.eval()
        scores = self.module(x)
        loss = functional.cross_entropy(scores, y, reduction="sum")
        return float(loss), float((scores.argmax(dim=1) == y).sum())
