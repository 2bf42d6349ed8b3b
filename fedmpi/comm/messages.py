"""What the server tells a worker: one small message per worker and step of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Kind(IntEnum):
    """What to do."""

    STOP = 0
    TRAIN = 1  # train these clients, or take the updates held since a probe, and deliver
    EVALUATE = 2  # loss and accuracy of all clients at home here
    PROBE_NORM = 3  # train these clients, hold the updates, say their norms
    PROBE_LOSS = 4  # say these clients' losses at θᵗ
    CLOCK = 5  # answer the ping-pong that compares clocks
    GIVE_LEFT = 6  # send what compression has left out of your clients' updates
    TAKE_LEFT = 7  # have it back, of these clients
    GIVE_SPANS = 8  # say what you have done when, since you were last asked


HEAD = 8
# Instead of a number of copies: θ comes by a broadcast to all workers.
BROADCAST = -1


@dataclass(frozen=True)
class Order:
    """One order. On the wire: int64 [kind, run, seed, t, exponent, copies of θ that follow, open, N, clients…, ω…]."""

    kind: Kind
    run: int = 0
    seed: int = 0
    t: int = 0
    exponent: int = 0
    theta_copies: int = BROADCAST
    clients: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    omega: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    open: bool = False  # whether there may be more clients than these, for who asks

    def encode(self) -> NDArray[np.int64]:
        key = self.kind, self.run, self.seed, self.t, self.exponent
        head = np.array([*key, self.theta_copies, self.open, len(self.clients)], np.int64)
        return np.concatenate([head, self.clients, self.omega.view(np.int64)])

    @staticmethod
    def decode(message: NDArray[np.int64]) -> Order:
        kind, run, seed, t, exponent, copies, is_open, N = message[:HEAD].tolist()
        clients, omega = message[HEAD : HEAD + N], message[HEAD + N :].view(np.float64)
        return Order(Kind(kind), run, seed, t, exponent, copies, clients, omega, bool(is_open))
