"""Job J, the same for every framework: its numbers, its data, the paper's LSTM and a client's local steps in plain
PyTorch. Imported inside every environment, so it needs nothing but numpy and torch.
"""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

n, m, SAMPLES = 20, 10, 400
K, B, ETA_L = 5, 64, 0.5
WORKERS = 2
VOCABULARY, WINDOW = 100, 80

# More rounds than any benchmark asks for: the driver ends a job when it has seen enough.
ENDLESS = 100_000
# A no-op round: every client only perturbs θ and returns it.
NO_OP = os.environ.get("PEERS_MODE") == "no-op"

torch.set_num_threads(1)


class CharLSTM(nn.Module):
    """Scores of the character that follows a window of 80: 135,700 parameters in stock modules."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.lstm = nn.LSTM(8, 100, 2, batch_first=True)
        self.output = nn.Linear(100, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(self.embedding(x))[0][:, -1])


@functools.cache
def windows() -> tuple[torch.Tensor, torch.Tensor]:
    """Every client's windows, x: (n, 400, 80) int64, and what follows them, y: (n, 400) int64."""
    with np.load(os.environ["PEERS_WINDOWS"]) as file:
        return torch.from_numpy(file["x"]).long(), torch.from_numpy(file["y"]).long()


def local_steps(model: nn.Module, i: int, rng: np.random.Generator) -> None:
    """Client i's work: K steps of SGD, each on B of its windows without replacement; or the perturbation alone."""
    if NO_OP:
        first_step()
        perturb(model)
        return
    x, y = (part[i] for part in windows())
    sgd = torch.optim.SGD(model.parameters(), lr=ETA_L)
    for _ in range(K):
        chosen = torch.from_numpy(rng.choice(SAMPLES, B, replace=False, shuffle=False))
        inputs, targets = x[chosen], y[chosen]
        first_step()
        sgd.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        sgd.step()


@torch.no_grad()
def perturb(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.add_(1e-3)


@functools.cache
def first_step() -> None:
    """Tell the driver, once per process, when the first client's first step begins."""
    Path(os.environ["PEERS_FIRST_STEP"], str(os.getpid())).write_text(str(time.monotonic()))
