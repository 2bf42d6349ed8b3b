"""A sampling scheme that the user brings: its class behind our methods, with every cohort checked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Ints
from fedmpi.sampling.scheme import Cohort, Scheme


class OwnScheme(Scheme):
    """Wraps an object of the user's class, so that it has every method and attribute of Scheme.

    The class needs `__init__(self, p, m, **options)` and `draw(rng)`, which returns a Cohort or any pair
    (clients, omega). Everything else is optional: `law`, `inclusion`, `biased`, `summary`, `probe`,
    `observes`, and the methods that go with these, as Scheme describes them.

    spec: the "package.module:Class" of sampling.scheme. cls: the class it names.
    """

    name = "own"
    summary = "a class of your own"

    def __init__(self, spec: str, cls: type[Any], p: ArrayLike, m: int, options: dict[str, Any]) -> None:
        super().__init__(p, m)
        self.name = spec  # type: ignore[misc]  # the registry's names are per class, this one is per config
        if not isinstance(cls, type) or not callable(getattr(cls, "draw", None)):
            raise ConfigError(f"sampling.scheme = {spec!r}: must name a class with a draw method")
        _check_options(spec, cls, options)
        self._own = cls(self.p, self.m, **options)
        self.summary = str(getattr(cls, "summary", OwnScheme.summary))  # type: ignore[misc]
        if hasattr(self._own, "law"):
            self.law = self._own.law
        self.biased = bool(getattr(self._own, "biased", False))
        self.probe = getattr(self._own, "probe", None)
        self.observes = bool(getattr(self._own, "observes", False))
        self.draws_change_state = hasattr(self._own, "state")
        self.scalars_per_client = int(getattr(self._own, "scalars_per_client", self.probe is not None))

    def draw(self, rng: Generator, **seen: Any) -> Cohort:
        """The cohort that the user's `draw` returns, sorted; an invalid one raises a ConfigError."""
        return checked(self.name, self._own.draw(rng, **seen), self.n)

    def inclusion(self) -> Floats:
        """P(i ∈ S_t) from the user's `inclusion`, else from their law, else estimated as min(m p_i, 1)."""
        if hasattr(self._own, "inclusion"):
            return np.asarray(self._own.inclusion(), dtype=np.float64)
        if hasattr(self._own, "law") and self.probe is None:
            return np.asarray(self._own.law().inclusion, dtype=np.float64)
        return np.minimum(self.m * self.p, 1.0)

    def candidates(self, rng: Generator) -> Ints:
        """The clients that the user's `candidates` returns, else all n."""
        if not hasattr(self._own, "candidates"):
            return super().candidates(rng)
        return np.asarray(self._own.candidates(rng), dtype=np.int64)

    def begin_round(self, t: int) -> None:
        """Calls the user's method if there is one."""
        if hasattr(self._own, "begin_round"):
            self._own.begin_round(t)

    def observe(self, clients: Ints, deltas: NDArray[np.float32]) -> None:
        """Calls the user's method; a class that sets `observes` must have it."""
        self._own.observe(clients, deltas)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What the user's `state` returns, else empty."""
        return dict(self._own.state()) if hasattr(self._own, "state") else {}

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Calls the user's method if there is one."""
        if hasattr(self._own, "restore"):
            self._own.restore(state)


def _check_options(spec: str, cls: type[Any], options: dict[str, Any]) -> None:
    signature = inspect.signature(cls)
    for key, value in options.items():
        try:
            signature.bind_partial(**{key: value})
        except TypeError as error:
            raise ConfigError(f"sampling.{key} = {value!r}: {spec} has no such option") from error
    try:
        signature.bind(None, None, **options)
    except TypeError as error:
        raise ConfigError(f"sampling.scheme = {spec!r}: __init__ must take (p, m, **options): {error}") from error


def checked(spec: str, drawn: Any, n: int) -> Cohort:
    """`drawn` as a Cohort sorted by client, or a ConfigError that says what is wrong."""

    def refuse(problem: str) -> ConfigError:
        return ConfigError(f"sampling.scheme = {spec!r}: draw {problem}")

    if isinstance(drawn, Cohort):
        drawn = (drawn.clients, drawn.omega)
    if not isinstance(drawn, tuple) or len(drawn) != 2:
        raise refuse(f"returned a {type(drawn).__name__}; it must return Cohort(clients, omega)")
    clients, omega = np.asarray(drawn[0]), np.asarray(drawn[1])
    if clients.ndim != 1 or clients.shape != omega.shape:
        raise refuse(f"returned clients of shape {clients.shape} and omega of shape {omega.shape}; both must be (N,)")
    if clients.size == 0:
        return Cohort(np.empty(0, dtype=np.int64), np.empty(0))
    if not np.issubdtype(clients.dtype, np.integer):
        raise refuse(f"returned clients of type {clients.dtype}; they must be integers")
    if clients.min() < 0 or clients.max() >= n:
        outside = clients[(clients < 0) | (clients >= n)][0]
        raise refuse(f"returned client {outside}; clients are 0 … {n - 1}")
    order = np.argsort(clients, kind="stable")
    clients = clients[order].astype(np.int64)
    if (twice := np.flatnonzero(np.diff(clients) == 0)).size:
        raise refuse(f"returned client {clients[twice[0]]} twice; add its weights up and return it once")
    if omega.dtype.kind not in "biuf":
        raise refuse(f"returned omega of type {omega.dtype}; weights must be real numbers")
    omega = omega[order].astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(omega) | (omega < 0))
    if wrong.size:
        i = wrong[0]
        raise refuse(f"returned omega = {omega[i]} for client {clients[i]}; weights must be finite and at least 0")
    return Cohort(clients, omega)
