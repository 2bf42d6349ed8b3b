"""The layout of the messages between the server and a worker: one numpy dtype each.

Every field has 8 bytes, so that a layout can stand in one buffer with float64 numbers. Vectors (θ, Δ_i, sums) travel as
they are. Text travels as UTF-8. Nothing is pickled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import get_type_hints

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import Training


class Action(IntEnum):
    """What a command tells a worker to do."""

    STOP = 0
    TRAIN = 1  # train these clients, or take the updates kept since a probe, and send the updates
    EVALUATE = 2  # send loss and accuracy of all clients at home here
    PROBE_NORM = 3  # train these clients, keep the updates, send their norms
    PROBE_LOSS = 4  # send these clients' losses at θᵗ
    COMPARE_CLOCKS = 5  # answer the ping-pong that compares clocks
    SEND_RESIDUALS = 6  # send what compression has left out of your clients' updates
    RECEIVE_RESIDUALS = 7  # receive it back, of these clients
    SEND_TIMELINE = 8  # send what you have done when, since you were last asked


COMMAND = np.dtype([(name, "<i8") for name in ("action", "run", "seed", "t", "exponent", "theta_copies", "more", "N")])
HEADER = COMMAND.itemsize // 8
# Instead of a number of copies: θ comes by a broadcast to all workers.
BROADCAST = -1


@dataclass(frozen=True)
class Command:
    """A command to one worker. The message is COMMAND, then the N clients, then their ω if there are any."""

    action: Action
    run: int = 0
    seed: int = 0
    t: int = 0
    exponent: int = 0
    theta_copies: int = BROADCAST  # how many copies of θ follow
    clients: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    omega: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    more: bool = False  # whether a worker that is done may ask for more clients

    def encode(self) -> NDArray[np.int64]:
        fixed = self.action, self.run, self.seed, self.t, self.exponent, self.theta_copies, self.more
        header = np.array([*fixed, len(self.clients)], np.int64)
        return np.concatenate([header, self.clients, self.omega.view(np.int64)])

    @staticmethod
    def decode(message: NDArray[np.int64]) -> Command:
        action, run, seed, t, exponent, copies, more, N = message[:HEADER].tolist()
        clients, omega = message[HEADER : HEADER + N], message[HEADER + N :].view(np.float64)
        return Command(Action(action), run, seed, t, exponent, copies, clients, omega, bool(more))


# The answer to a worker that asks for another client; NO_CLIENT if there is none.
ASSIGNMENT = np.dtype([("client", "<i8"), ("omega", "<f8")])
NO_CLIENT = -1

# What travels with an update: the numbers of its training, the norm of what is added (another one than ‖Δ_i‖ where
# updates are compressed), and when it was handed to MPI. A field of `Training` is a field here, too.
UPDATE_INFO = np.dtype(
    [
        *((name, "<i8" if kind is int else "<f8") for name, kind in get_type_hints(Training).items()),
        ("sent_norm", "<f8"),
        ("post_time", "<f8"),
    ]
)
# The same as the server keeps it, with the rank that it came from and when it was complete.
ARRIVAL = np.dtype([*UPDATE_INFO.descr, ("rank", "<i8"), ("arrive_time", "<f8")])
# Numbers of a worker's round: when it had θ, its seconds of training, of waiting and of sending, and when it was done.
REPORT = np.dtype([(name, "<f8") for name in ("theta_received_at", "compute", "idle", "send", "done")])
