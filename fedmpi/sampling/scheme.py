"""What a sampling scheme is: the cohort it draws, the methods a federation calls, the checks on p and m."""

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
    """The clients of one round, S_t, and their weights ω(S_t). Either may be empty: that is still a round.

    clients: (N,) int64, sorted and distinct. omega: (N,) float64, never renormalised.
    """

    clients: Ints
    omega: Floats

    def __len__(self) -> int:
        return self.clients.size


class Scheme:
    """A rule that turns importances p and a cohort size m into (S_t, ω); parent of all in the registry.

    A subclass has `draw(rng) -> Cohort` and, if it is unbiased, `law() -> Law`; a biased one has no `law`.
    Two kinds look before they draw:
    probe = "norm" has `draw(rng, norms=u)` and `law(norms=u)`, u_i = ‖p_i Δ_i‖ of all n clients;
    probe = "loss" has `draw(rng, candidates=c, losses=l)`, l the local losses at θᵗ of the clients in c.

    draws_change_state: `state` may be another one after a draw, so that a draw to be done over needs it back.

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
        """P(i ∈ S_t), shape (n,): what placement needs. An estimate where there is no law."""
        return self.law().inclusion

    def candidates(self, rng: Generator) -> Ints:
        """The clients probed this round, sorted: all n, unless a scheme says less. Only with a probe."""
        return np.arange(self.n, dtype=np.int64)

    def begin_round(self, t: int) -> None:
        """Called before round t's draw, if `observes`."""

    def observe(self, clients: Ints, deltas: NDArray[np.float32]) -> None:
        """Called after a round with the drawn clients (N,) and their updates (N, d), if `observes`."""

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint must keep; empty for a scheme that remembers nothing between rounds."""
        return {}

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Takes back what `state` returned."""


def check_importances(p: ArrayLike) -> Floats:
    """p as (n,) float64, once it is known to be 1-D, finite, non-negative and to sum to 1 within 1e-9.

    Makes no array of size n unless p is not float64 yet. A client may have p_i = 0.
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
    """The clients' sample counts as (n,) int64, once known to be non-negative integers, one per client."""
    given = np.asarray(sizes)
    if given.shape != (n,) or not np.issubdtype(given.dtype, np.integer) or given.min() < 0:
        raise ConfigError(f"sizes: must be {n} non-negative integers, one per client, as p is")
    return given.astype(np.int64, copy=False)


def check_m(m: int, largest: int | None, scheme: str) -> int:
    """m as int, once it is known to be at least 1 and, if `largest` is given, at most that."""
    if isinstance(m, bool) or not isinstance(m, (int, np.integer)) or m < 1:
        raise ConfigError(f"sampling.m = {m!r}: must be an integer of at least 1")
    if largest is not None and m > largest:
        raise ConfigError(f"sampling.m = {m}: must be at most n = {largest} for scheme {scheme!r}")
    return int(m)
