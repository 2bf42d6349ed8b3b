"""How updates travel back to the server. A new exchange is one file here and one line in EXCHANGES.

`protocols` says what an exchange has to do. `ServerLink` and `WorkerLink` are the callers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fedmpi.comm.exchanges.per_client import PerClientInbox, PerClientOutbox
from fedmpi.comm.exchanges.protocols import Inbox, Outbox
from fedmpi.comm.exchanges.reduced import ReducedInbox, ReducedOutbox
from fedmpi.comm.world import cuda_aware
from fedmpi.config import CommSettings


@dataclass(frozen=True)
class Exchange:
    """Both ends of an exchange."""

    inbox: Callable[..., Inbox]
    outbox: Callable[..., Outbox]
    individual: bool  # whether each update reaches the server by itself, so that a scheme can look at it


EXCHANGES = {
    "per-client": Exchange(PerClientInbox, PerClientOutbox, individual=True),
    "reduced": Exchange(ReducedInbox, ReducedOutbox, individual=False),
}


def device_of_messages(device: torch.device, settings: CommSettings) -> torch.device | None:
    """The GPU from which MPI takes a worker's updates and into which it puts θ; None for host memory.

    It is the device that the worker trains on, if this MPI takes GPU buffers and updates travel as they are.
    """
    as_they_are = EXCHANGES[settings.exchange].individual and settings.compression == "none"
    return device if device.type == "cuda" and as_they_are and cuda_aware() else None
