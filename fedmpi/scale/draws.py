"""The cost of a draw as n grows: set-up, time and memory of the schemes, beside numpy's own choice."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from fedmpi.errors import ConfigError
from fedmpi.sampling import Scheme, make_scheme

SCHEMES = ("md", "uniform", "binomial", "poisson", "clustered")
RIVALS = ("Generator.choice(p=p)", "RandomState.choice(p=p)")
SMALLEST = 1000
MIB = 2**20


@dataclass(frozen=True)
class DrawCost:
    """Set-up in s, median draw in ms, memory kept and at its peak in MiB; None where m is not feasible."""

    n: int
    name: str
    setup: float | None
    draw: float | None
    kept: float | None
    peak: float | None


def numbers_of_clients(most: int, doubling: bool) -> list[int]:
    """10³, 10⁴, … up to `most`; with `doubling`, each followed by twice as many."""
    found = []
    n = SMALLEST
    while n <= most:
        found += [n, 2 * n] if doubling else [n]
        n *= 10
    return found


def measure_draws(n: int, m: int, repeats: int, seed: int) -> list[DrawCost]:
    """The costs of all schemes and rivals at this n, for importances n_i/M with log-normal sizes.

    Draws of all of them are interleaved, so that a busy moment of the machine affects all alike.
    """
    rng = np.random.default_rng(seed)
    legacy = np.random.RandomState(seed)
    sizes = np.ceil(rng.lognormal(5, 1, n)).astype(np.int64)
    p = sizes / sizes.sum()
    set_up: dict[str, tuple[float, float, float]] = {}
    draws: dict[str, Callable[[], object]] = {}

    def drawing(scheme: Scheme) -> Callable[[], object]:
        return lambda: scheme.draw(rng)

    for name in SCHEMES:
        try:
            start = time.perf_counter()
            make_scheme(name, p=p, m=m, sizes=sizes).draw(rng)
            seconds = time.perf_counter() - start
        except ConfigError:
            continue
        tracemalloc.start()
        scheme = make_scheme(name, p=p, m=m, sizes=sizes)
        scheme.draw(rng)
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        set_up[name] = seconds, kept / MIB, peak / MIB
        draws[name] = drawing(scheme)
    draws[RIVALS[0]] = lambda: rng.choice(n, m, p=p)
    draws[RIVALS[1]] = lambda: legacy.choice(n, m, p=p)
    times: dict[str, list[float]] = {name: [] for name in draws}
    for _ in range(repeats):
        for name, one_draw in draws.items():
            start = time.perf_counter()
            one_draw()
            times[name].append(time.perf_counter() - start)
    costs = []
    for name in (*SCHEMES, *RIVALS):
        setup, kept_mib, peak_mib = set_up.get(name, (None, None, None))
        milliseconds = median(times[name]) * 1e3 if name in times else None
        costs.append(DrawCost(n, name, setup, milliseconds, kept_mib, peak_mib))
    return costs
