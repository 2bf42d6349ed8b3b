"""The paper's next-character model: embedding 8, two LSTM layers of 100, linear to 100 characters."""

from __future__ import annotations

import torch
from torch import nn

from fedmpi.data.text import VOCABULARY


class CharLSTM(nn.Module):
    """Scores of the character that follows a window; 135,700 parameters at its defaults   [FVKL, sec. 4]."""

    def __init__(self, embedding: int = 8, hidden: int = 100, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (B, 80) int64 characters -> (B, 100) scores, from the last step only."""
        states, _ = self.lstm(self.embedding(x))
        scores: torch.Tensor = self.output(states[:, -1])
        return scores
