"""Biased baselines: E[ω_i] ≠ p_i, so they minimise another loss than Σ p_i L_i."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Ints
from fedmpi.sampling.scheme import Cohort, Scheme
from fedmpi.sampling.uniform import distinct


class FedAvg(Scheme):
    """m of n clients without replacement, p renormalised over them: ω_i = p_i / Σ_{j ∈ S_t} p_j.

    What most frameworks do. E[ω_i] ≠ p_i unless all p are equal, in which case this is `uniform`.
    """

    name = "fedavg"
    summary = "biased: m of n without replacement, weights p_i renormalised over the cohort"
    biased = True
    largest_m_is_n = True

    def draw(self, rng: Generator) -> Cohort:
        """The clients `uniform` draws from the same rng; all weights are 0 if all of them have p_i = 0."""
        clients = distinct(rng, self.n, self.m)
        drawn = self.p[clients]
        total = drawn.sum()
        return Cohort(clients, drawn / total if total > 0 else drawn)

    def inclusion(self) -> Floats:
        """m/n for everyone."""
        return np.full(self.n, self.m / self.n)


class PowerOfChoice(Scheme):
    """The m of d candidates with the largest local loss at θᵗ, ω_i = 1/m.

    Candidates are drawn without replacement with probability p. Cho, Wang, Joshi: Client Selection in
    Federated Learning: Convergence Analysis and Power-of-Choice Selection Strategies. `sampling.d` defaults
    to 2m, or to the number of clients with p_i > 0 if that is less.
    """

    name = "power-of-choice"
    summary = "biased: the m of d candidates with the largest loss, weight 1/m"
    biased = True
    probe = "loss"
    scalars_per_client = 1
    options = ("d",)
    largest_m_is_n = True

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None, d: int | None = None) -> None:
        super().__init__(p, m, sizes=sizes)
        eligible = int(np.count_nonzero(self.p))
        if self.m > eligible:
            raise ConfigError(f"sampling.m = {self.m}: only {eligible} clients have p_i > 0 and can be candidates")
        self.d = min(2 * self.m, eligible) if d is None else d
        if isinstance(self.d, bool) or not isinstance(self.d, int) or not self.m <= self.d <= eligible:
            raise ConfigError(
                f"sampling.d = {d!r}: must be an integer from m = {self.m} to {eligible}, "
                "the number of clients with p_i > 0"
            )

    def candidates(self, rng: Generator) -> Ints:
        """d clients, sorted: rng.choice(n, d, replace=False, p=p), which is O(n)."""
        return np.sort(rng.choice(self.n, self.d, replace=False, p=self.p / self.p.sum()))

    def draw(self, rng: Generator, *, candidates: Ints, losses: Floats) -> Cohort:
        """The m candidates with the largest losses, the lower client first among equals. Uses no randomness.

        candidates: (d,) int64. losses: (d,) float64; a loss that is not a number counts as the smallest.
        """
        rank = np.nan_to_num(np.asarray(losses, dtype=np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        clients = np.sort(candidates[np.argsort(-rank, kind="stable")[: self.m]])
        return Cohort(clients, np.full(clients.size, 1 / self.m))

    def inclusion(self) -> Floats:
        """m p_i cut at 1: an estimate, as the losses decide."""
        return np.minimum(self.m * self.p, 1.0)
