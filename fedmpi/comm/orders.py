"""What the server tells a worker: one small message per worker and step of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Kind(IntEnum):
    """What to do. θ follows every order but STOP."""

    STOP = 0
    TRAIN = 1
    EVALUATE = 2


HEAD = 4


@dataclass(frozen=True)
class Order:
    """Train these clients in round t and weigh them so; on the wire: int64 [kind, t, exponent, N, clients…, ω…]."""

    kind: Kind
    t: int = 0
    exponent: int = 0
    clients: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    omega: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def encode(self) -> NDArray[np.int64]:
        head = np.array([self.kind, self.t, self.exponent, len(self.clients)], np.int64)
        return np.concatenate([head, self.clients, self.omega.view(np.int64)])

    @staticmethod
    def decode(message: NDArray[np.int64]) -> Order:
        kind, t, exponent, N = (int(value) for value in message[:HEAD])
        clients, omega = message[HEAD : HEAD + N], message[HEAD + N :].view(np.float64)
        return Order(Kind(kind), t, exponent, clients, omega)
