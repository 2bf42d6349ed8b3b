"""Generated text: each client's is a Markov chain of its own, generated when the client is first trained."""

from __future__ import annotations

import numpy as np

from fedmpi.config import DataSettings
from fedmpi.data.partition import check_natural
from fedmpi.data.sizes import client_sizes
from fedmpi.data.text import VOCABULARY, WINDOW, TextClient
from fedmpi.rng import stream

SUCCESSORS = 8
# Probabilities of a character's eight successors: a few are common, as in real text.
LIKELIHOOD = np.array([0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02])


class SyntheticText:
    """n texts over 100 characters. A character is followed by one of eight successors from the table that all
    clients share or, with probability data.heterogeneity, from the client's own."""

    samples = "text"

    def __init__(self, data: DataSettings) -> None:
        check_natural(data)
        self.data = data
        self.n_samples = client_sizes(data)
        self.shared = stream(data.seed, "data", t=2).integers(VOCABULARY, size=(VOCABULARY, SUCCESSORS))

    def client(self, i: int) -> TextClient:
        """Client i's text, from its own stream: n_i training windows and about a quarter as many for test."""
        rng = stream(self.data.seed, "data", t=1, client=i)
        own = rng.integers(VOCABULARY, size=(VOCABULARY, SUCCESSORS))
        table = np.concatenate([self.shared, own], axis=1).tolist()
        train_length = int(self.n_samples[i]) + WINDOW
        length = train_length + max(1, int(self.n_samples[i]) // 4) + WINDOW
        choice = rng.choice(SUCCESSORS, size=length, p=LIKELIHOOD)
        choice += SUCCESSORS * (rng.random(length) < self.data.heterogeneity)
        text = np.empty(length, np.uint8)
        character = int(rng.integers(VOCABULARY))
        for position, successor in enumerate(choice.tolist()):
            character = table[character][successor]
            text[position] = character
        return TextClient(text[:train_length], text[train_length:])

    def name(self, i: int) -> str:
        return f"speaker-{i}"
