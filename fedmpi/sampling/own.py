"""A scheme of the user's own, "package.module:Class" in the config: imported, and every cohort checked."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedmpi.errors import ConfigError
from fedmpi.sampling.law import Floats, Ints
from fedmpi.sampling.scheme import Cohort, Scheme


class OwnScheme(Scheme):
    """The user's scheme behind the same methods as ours.

    Their class needs `__init__(self, p, m, **options)` and `draw(rng)`, which returns a Cohort or any pair
    (clients, omega). Everything else is optional: `law`, `inclusion`, `biased`, `summary`, `probe`,
    `observes`, and the methods that go with these, as Scheme describes them. The directory fedmpi was started
    in is importable.
    """

    name = "own"
    summary = "a class of your own"

    def __init__(self, spec: str, p: ArrayLike, m: int, options: dict[str, Any]) -> None:
        super().__init__(p, m)
        cls = import_class(spec)
        self.name = spec  # type: ignore[misc]  # the registry's names are per class, this one is per config
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
        """The cohort their `draw` returns, sorted; one that is wrong is refused with a sentence."""
        return checked(self.name, self._own.draw(rng, **seen), self.n)

    def inclusion(self) -> Floats:
        """Theirs, else their law's, else m p_i cut at 1: placement needs an estimate, not the truth."""
        if hasattr(self._own, "inclusion"):
            return np.asarray(self._own.inclusion(), dtype=np.float64)
        if hasattr(self._own, "law") and self.probe is None:
            return np.asarray(self._own.law().inclusion, dtype=np.float64)
        return np.minimum(self.m * self.p, 1.0)

    def candidates(self, rng: Generator) -> Ints:
        """Theirs, else all n."""
        if not hasattr(self._own, "candidates"):
            return super().candidates(rng)
        return np.asarray(self._own.candidates(rng), dtype=np.int64)

    def begin_round(self, t: int) -> None:
        """Passed on if they have it."""
        if hasattr(self._own, "begin_round"):
            self._own.begin_round(t)

    def observe(self, clients: Ints, deltas: NDArray[np.float32]) -> None:
        """Passed on; a class that sets `observes` must have it."""
        self._own.observe(clients, deltas)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Theirs, else empty."""
        return dict(self._own.state()) if hasattr(self._own, "state") else {}

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Passed on if they have it."""
        if hasattr(self._own, "restore"):
            self._own.restore(state)


def import_class(spec: str) -> type[Any]:
    """The class named "package.module:Class"; the current directory goes on the path, as `python -m` does."""
    module_name, _, class_name = spec.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"sampling.scheme = {spec!r}: no module {error.name!r}; start fedmpi in the directory that holds "
            "it, or put that directory on PYTHONPATH"
        ) from error
    except (ImportError, SyntaxError, ValueError) as error:
        raise ConfigError(f"sampling.scheme = {spec!r}: cannot be imported ({error})") from error
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type) or not callable(getattr(cls, "draw", None)):
        raise ConfigError(f"sampling.scheme = {spec!r}: {module_name} has no class {class_name!r} with a draw method")
    return cls


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
    """`drawn` as a Cohort sorted by client, or a ConfigError that says what is wrong with it."""

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
