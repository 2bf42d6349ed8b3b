"""What a sampling scheme is: the cohort it draws, the methods that a federation calls, the checks of p and m."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Ints, Law


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients of one round, S_t, and their weights ω(S_t). Both may be empty: that is still a round.

    clients: (N,) int64, sorted and distinct. omega: (N,) float64, never renormalised.
    """

    clients: Ints
    omega: Floats

    def __len__(self) -> int:
        return self.clients.size


class Scheme:
    """Turns importances p and a cohort size m into (S_t, ω); the base class of all schemes in the registry.

    A subclass has `draw(rng) -> Cohort` and, if it is unbiased, `law() -> Law`; a biased one has no `law`.

    probe: what the clients report before the draw, if anything.
        "norm": `draw(rng, norms=u)` and `law(norms=u)`, u_i = ‖p_i Δ_i‖ of all n clients.
        "loss": `draw(rng, candidates=c, losses=l)`, l the local losses at θᵗ of the clients in c.
    observes: `begin_round` is called before each draw, and `observe` with the updates after each round.
    draws_change_state: a draw changes `state`, so it must be restored before a round is repeated.
    scalars_per_client: float64 numbers that each probed client uploads, for the ledger of logical bytes.
    options: the keys of [sampling] that the constructor takes by name.

    p: (n,) float64, kept by reference, not copied. sizes: (n,) int64 with p_i = n_i / M exactly, or None.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    biased: bool = False
    probe: Literal["norm", "loss"] | None = None
    observes: bool = False
    draws_change_state: bool = False
    scalars_per_client: int = 0
    options: ClassVar[tuple[str, ...]] = ()
    largest_m_is_n: ClassVar[bool] = False

    draw: Callable[..., Cohort]
    law: Callable[..., Law]

    def __init__(self, p: ArrayLike, m: int, *, sizes: ArrayLike | None = None) -> None:
        self.p = check_importances(p)
        self.n = self.p.size
        self.m = check_m(m, self.n if self.largest_m_is_n else None, self.name)
        self.sizes = None if sizes is None else check_sizes(sizes, self.n)

    def inclusion(self) -> Floats:
        """P(i ∈ S_t), shape (n,), for placement; exact where there is a law, else an estimate."""
        return self.law().inclusion

    def candidates(self, rng: Generator) -> Ints:
        """The clients to probe this round, sorted: all n by default. Called only if the scheme has a probe."""
        return np.arange(self.n, dtype=np.int64)

    def begin_round(self, t: int) -> None:
        """Called before the draw of round t, if `observes`."""

    def observe(self, clients: Ints, deltas: NDArray[np.float32]) -> None:
        """Called after a round with the drawn clients (N,) and their updates (N, d), if `observes`."""

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The state between rounds, for checkpoints; empty for a scheme that has none."""
        return {}

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Restore what `state` returned."""


def check_importances(p: ArrayLike) -> Floats:
    """p as (n,) float64, after checking that it is 1-D, finite, non-negative and sums to 1 within 1e-9.

    Allocates an array of size n only if p is not float64 yet. A client may have p_i = 0.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1 or p.size == 0:
        raise ConfigError(f"sampling.importance: p has shape {p.shape}; give one number per client, n ≥ 1 of them")
    # NaN fails both comparisons below, and an infinity fails the second.
    if not p.min() >= 0:
        i = int(np.argmin(p))
        raise ConfigError(f"sampling.importance: p[{i}] = {p[i]}; importances must be finite and at least 0")
    total = float(p.sum())
    if not abs(total - 1) <= 1e-9:
        raise ConfigError(f"sampling.importance: p sums to {total!r}; importances must sum to 1, so divide them by it")
    return p


def check_sizes(sizes: ArrayLike, n: int) -> Ints:
    """The clients' sample counts as (n,) int64, after checking that they are n non-negative integers."""
    given = np.asarray(sizes)
    if given.shape != (n,) or not np.issubdtype(given.dtype, np.integer) or given.min() < 0:
        raise ConfigError(f"sizes: must be {n} non-negative integers, one per client, as p is")
    return given.astype(np.int64, copy=False)


def check_m(m: int, largest: int | None, scheme: str) -> int:
    """m as int, after checking that it is at least 1 and, if `largest` is given, at most that."""
    if isinstance(m, bool) or not isinstance(m, (int, np.integer)) or m < 1:
        raise ConfigError(f"sampling.m = {m!r}: must be an integer of at least 1")
    if largest is not None and m > largest:
        raise ConfigError(f"sampling.m = {m}: must be at most n = {largest} for scheme {scheme!r}")
    return int(m)
