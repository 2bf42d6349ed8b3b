"""The corollary: when uniform sampling has the better guarantee than MD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedmpi.sampling import check_importances
from fedmpi.sampling.law import Floats

ROUNDING = 1e-12
"""Relative error allowed to a Σp² of rounded floats: p_i = 1/n with m = 1 is an equality."""


@dataclass(frozen=True)
class Corollary:
    """Σp² against 1/(n − m + 1), with Σ and γ of both schemes.

    `holds`: Σ_U ≤ Σ_MD and γ_U ≤ γ_MD, that is, uniform has the better guarantee.
    """

    sum_p2: float
    threshold: float
    Sigma_md: float
    Sigma_uniform: float
    gamma_md: float
    gamma_uniform: float

    @property
    def holds(self) -> bool:
        """Σp² ≤ 1/(n − m + 1), up to the rounding of Σp²."""
        return self.sum_p2 <= self.threshold * (1 + ROUNDING)


def corollary(p: ArrayLike, m: int) -> Corollary:
    """Whether uniform beats MD for these importances: iff Σp² ≤ 1/(n − m + 1).  [FVKL, Corollary 1]

    Σ_MD = (1 − Σp²)/m,  γ_MD = 1/m,  Σ_U = (n/m − 1) Σp²,  γ_U = (1 + 1/(n−1)) Σ_U. m ≤ n.
    The statement is right; in its proof both equivalences (Σ_MD ≤ Σ_U, γ_MD ≤ γ_U) stand the wrong way round.
    """
    p = check_importances(p)
    n = p.size
    sum_p2 = float(p @ p)
    Sigma_uniform = (n / m - 1) * sum_p2
    return Corollary(
        sum_p2=sum_p2,
        threshold=1 / (n - m + 1),
        Sigma_md=(1 - sum_p2) / m,
        Sigma_uniform=Sigma_uniform,
        gamma_md=1 / m,
        gamma_uniform=Sigma_uniform * n / (n - 1) if n > 1 else 0.0,
    )


def one_heavy_client(n: int, m: Floats) -> tuple[Floats, Floats]:
    """The two p_1 between which uniform beats MD, for each m, if the others share 1 − p_1 equally; n ≥ 2.

    p_1² + (1 − p_1)²/(n−1) = 1/(n−m+1)  ⇔  p_1 = 1/n ± √((m−1)(n−1)/(n−m+1))/n
    Both have the shape of m and are cut to [0, 1].
    """
    half = np.sqrt((m - 1) * (n - 1) / (n - m + 1)) / n
    return np.clip(1 / n - half, 0, 1), np.clip(1 / n + half, 0, 1)
