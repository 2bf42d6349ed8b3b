"""Optimal sampling: all clients train and report a norm, then the server draws the clients that upload.

Chen, Horváth, Richtárik: Optimal Client Sampling for Federated Learning.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError, Diverged
from fedmpi.sampling.law import Floats, Law, independent
from fedmpi.sampling.scheme import Cohort, Scheme


class Optimal(Scheme):
    """Each client on its own with probability q_i, ω_i = p_i/q_i if drawn.  [FVKL, Appendix A, "Optimal"]

    q minimises Σ_i ((1 − q_i)/q_i) u_i², the noise of the round; u_i = ‖p_i Δ_i‖ is what client i reports.

    Zero norms: u_i = 0 gives q_i = 0. Such a client would upload nothing but zeros, so Σ ω_i Δ_i is
    still unbiased and no upload is spent on it, though E[ω_i] is 0, not p_i. If at most m norms are not zero,
    those clients get q_i = 1. If all are zero, nobody is drawn and θ does not change, as with full participation.
    """

    name = "optimal"
    summary = "all train and report ‖p_i Δ_i‖; each uploads with the best probability q_i, weight p_i/q_i"
    probe = "norm"
    scalars_per_client = 1
    largest_m_is_n = True

    def probabilities(self, norms: Floats) -> Floats:
        """q of `optimal_q`, shape (n,)."""
        return optimal_q(norms, self.m)

    def draw(self, rng: Generator, *, norms: ArrayLike) -> Cohort:
        """The clients with rng.random(n) < q. norms: (n,), u_i = ‖p_i Δ_i‖."""
        q = self.probabilities(check_norms(norms, self.n))
        clients = np.flatnonzero(rng.random(self.n) < q)
        return Cohort(clients, self.p[clients] / q[clients])

    def law(self, *, norms: ArrayLike) -> Law:
        """The law of optimal given this round's norms. Where q_i = 0, ω_i is always 0 and `law.p` says so.

        Var ω_i = ((1 − q_i)/q_i) p_i²,  α = 0,  E N = Σq,  Var N = Σ q_i (1 − q_i)   [FVKL, Appendix A]
        """
        q = self.probabilities(check_norms(norms, self.n))
        reached = q > 0
        weight = np.divide(self.p, q, out=np.zeros(self.n), where=reached)
        return independent(np.where(reached, self.p, 0.0), q, weight)

    def inclusion(self) -> Floats:
        """Ones: every client trains in every round, also if it does not upload."""
        return np.ones(self.n)


class OptimalApprox(Optimal):
    """Optimal sampling with q reached by sums only, so that a secure aggregator could run it (AOCS).

    Client i reports u_i, then in each iteration whether its q_i is below 1, and q_i if so; the server only
    ever needs the sums. `sampling.iterations` (default 4) is the most iterations; enough of them give the q
    of `optimal`.
    """

    name = "optimal-approx"
    summary = "as optimal, with q from a few rounds of two scalars that a secure aggregator could sum (AOCS)"
    options = ("iterations",)

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None, iterations: int = 4) -> None:
        super().__init__(p, m, sizes=sizes)
        if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 0:
            raise ConfigError(f"sampling.iterations = {iterations!r}: must be an integer of at least 0")
        self.iterations = iterations
        self.scalars_per_client = 1 + 2 * iterations

    def probabilities(self, norms: Floats) -> Floats:
        """q of `approximate_q`, shape (n,)."""
        return approximate_q(norms, self.m, self.iterations)


def check_norms(norms: ArrayLike, n: int) -> Floats:
    """The norms over their maximum, (n,) float64: q does not depend on the scale, sums cannot overflow."""
    u = np.asarray(norms, dtype=np.float64)
    if u.shape != (n,):
        raise ValueError(f"norms have shape {u.shape}; all n = {n} clients must report one")
    wrong = np.flatnonzero(~(np.isfinite(u) & (u >= 0)))
    if wrong.size:
        raise Diverged(f"client {wrong[0]} reported the norm {u[wrong[0]]}; lower client.eta_l")
    largest = u.max()
    return u / largest if largest > 0 else u


def optimal_q(u: Floats, m: int) -> Floats:
    """The q in [0, 1]ⁿ with Σq ≤ m that minimises Σ_i ((1 − q_i)/q_i) u_i², shape (n,).

    With the n₊ norms above zero in ascending order, U_l = Σ_{j≤l} u_(j), and l the largest integer with
    0 < m + l − n₊ ≤ U_l/u_(l), the n₊ − l largest get q = 1, the others q_i = (m + l − n₊) u_i/U_l.
    """
    q = np.zeros(u.size)
    order = np.argsort(u, kind="stable")[np.count_nonzero(u == 0) :]
    if order.size <= m:
        q[order] = 1.0
        return q
    ascending = u[order]
    sums = np.cumsum(ascending)
    shared = m - order.size + np.arange(1, order.size + 1)
    last = int(np.flatnonzero((shared > 0) & (shared * ascending <= sums))[-1])
    q[order[: last + 1]] = np.minimum(shared[last] * ascending[: last + 1] / sums[last], 1.0)
    q[order[last + 1 :]] = 1.0
    return q


def approximate_q(u: Floats, m: int, iterations: int) -> Floats:
    """q after at most `iterations` rounds of the two sums of AOCS, shape (n,).

    q_i = min(m u_i/Σu, 1); then, with I = #{q_i < 1} and P = Σ_{q_i<1} q_i, those below 1 become
    min(C q_i, 1), C = (m − n + I)/P, until C ≤ 1.
    """
    total = u.sum()
    if total == 0:
        return np.zeros(u.size)
    q: Floats = np.minimum(m * u / total, 1.0)
    for _ in range(iterations):
        below = q < 1
        room = m - u.size + np.count_nonzero(below)
        mass = q[below].sum()
        # Without mass below 1, only clients with zero norm could share the room, and these get none.
        if mass == 0 or room <= mass:
            break
        q[below] = np.minimum(room / mass * q[below], 1.0)
    return q
