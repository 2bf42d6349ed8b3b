"""Continuing without ranks that were lost: renumber the others, move the lost ones' clients, repeat the round.

Needs an MPI that survives the loss of a process (Open MPI under `mpirun --with-ft ulfm`) and
run.on_rank_failure = "continue".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedmpi.errors import FedmpiError

if TYPE_CHECKING:
    from fedmpi.job.server_loop import ServerLoop


class Recovery:
    """The server's part in it. Workers do theirs in `worker_main`."""

    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.world = loop, loop.world
        # Ranks lost since the last successful recovery: name, and when it was noticed.
        self.lost: dict[int, tuple[str, float]] = {}

    def retry_on_rank_loss(self, step: Callable[[], object], repeat: bool = True) -> None:
        """Take a step of the job; if ranks are lost during it and the others may continue, recover and repeat it."""
        steps = [step]
        while steps:
            try:
                steps[0]()
                del steps[0]
            except Exception as error:
                may_continue = self.loop.config.run.on_rank_failure == "continue"
                if not may_continue or not self.world.detector.is_rank_loss(error):
                    raise
                steps = [self.recover, step] if repeat else [self.recover]

    def recover(self) -> None:
        """**Collective** among the surviving ranks: renumber them and distribute the lost ones' clients.

        If ranks are lost in here, too, it is started again: the losses are recorded at its end.
        """
        noticed, names = self.world.now(), self.world.detector.names()
        self.lost |= {rank: (names[rank], noticed) for rank in self.world.shrink()}
        lost = " and ".join(name for name, _ in self.lost.values())
        if self.world.size == 1:
            raise FedmpiError(f"no worker is left: lost {lost}")
        for run in self.loop.runs:
            run.write_rounds()  # with the ranks' numbers of before
        self.loop.connect_again()
        now = self.world.now()
        for run in self.loop.runs:
            for rank, (name, since) in self.lost.items():
                run.log.write_event(run.t, now, "lost", name, rank, now - since)
        self.lost.clear()
        print(f"fedmpi: lost {lost}; continuing without", file=sys.stderr, flush=True)
