"""Algorithm 1 of [FVKL]: draw S_t, send θᵗ, collect the updates Δ_i, step to θᵗ⁺¹.

How vectors travel is in `comm/`; what surrounds a round (clocks, logs, checkpoints, lost ranks) is in `job/`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.traffic import RoundTraffic
from fedmpi.config import Config
from fedmpi.rng import stream
from fedmpi.sampling import Cohort, Scheme
from fedmpi.server import ExactSum, count_rejected, magnitude

NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Step:
    """A round's result, before the federation adopts it."""

    t: int
    theta: NDArray[np.float32]  # θᵗ⁺¹
    cohort: Cohort
    probed: NDArray[np.int64]  # clients that were asked before the draw
    traffic: RoundTraffic
    rejected: int  # updates that were left out
    update_norm: float  # ‖θᵗ⁺¹ − θᵗ‖
    updates: dict[int, NDArray[np.float32]]  # Δ_i, if the scheme observes them


class Federation:
    """The server: θᵗ and the scheme that draws S_t."""

    def __init__(self, config: Config, scheme: Scheme, theta: NDArray[np.float32], link: ServerLink) -> None:
        self.config, self.scheme, self.link = config, scheme, link
        self.theta, self.t = theta, 0
        self.next_theta = np.empty_like(theta)
        self.total = ExactSum(len(theta))

    def round(
        self,
        t: int,
        during: Callable[[str], AbstractContextManager[object]] = nullcontext,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Step:
        """θᵗ⁺¹ = θᵗ + η_g Σ ω_i(S_t) Δ_i   [FVKL, Algorithm 1]

        Nothing of the federation changes before `adopt`, so that an interrupted round can be repeated. `during(phase)`
        surrounds what the server does itself; `meanwhile` is called while the clients train.
        """
        rng = stream(self.config.run.seed, "sampling", t)
        probed, answers = self.probe(rng) if self.scheme.probe else (NOBODY, {})
        with during("sample"):
            self.scheme.begin_round(t)
            cohort = self.scheme.draw(rng, **answers)

        self.total.reset(magnitude(self.theta))
        self.link.call(cohort, self.total.exponent)
        if not answers:
            self.link.send_theta(self.theta)
        meanwhile()
        updates: dict[int, NDArray[np.float32]] = {}
        keep = (lambda i, delta: updates.update({i: delta.copy()})) if self.scheme.observes else None
        traffic = self.link.collect(self.total, keep)

        with during("aggregate"):
            server = self.config.server
            rejected = count_rejected(self.total, cohort, traffic.arrivals, t, server.on_nonfinite)
            update_norm = self.total.apply(self.theta, server.eta_g, out=self.next_theta)
        return Step(t, self.next_theta, cohort, probed, traffic, rejected, update_norm, updates)

    def probe(self, rng: Generator) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """The clients that are asked before the draw, and what the draw is to know of them at θᵗ."""
        candidates = self.scheme.candidates(rng)
        if self.scheme.probe == "loss":
            return candidates, {"candidates": candidates, "losses": self.link.probe_losses(candidates, self.theta)}
        norms = np.zeros(self.scheme.n)
        norms[candidates] = self.scheme.p[candidates] * self.link.probe_norms(candidates, self.theta)
        if self.config.server.on_nonfinite == "skip":
            norms[~np.isfinite(norms)] = 0.0
        return candidates, {"norms": norms}

    def adopt(self, step: Step) -> None:
        """Make θᵗ⁺¹ the federation's θ, and show the updates to a scheme that observes them, in the clients' order."""
        if step.updates:
            clients = step.cohort.clients
            self.scheme.observe(clients, np.stack([step.updates[i] for i in clients.tolist()]))
        self.theta, self.next_theta, self.t = step.theta, self.theta, step.t + 1
