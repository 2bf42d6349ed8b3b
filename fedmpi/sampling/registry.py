"""The registry of sampling schemes. A new scheme: one class in this folder, and its name in one tuple here."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.plugin import find
from fedmpi.sampling.biased import FedAvg, PowerOfChoice
from fedmpi.sampling.clustered import Clustered
from fedmpi.sampling.clustered_similarity import ClusteredSimilarity
from fedmpi.sampling.md import MD
from fedmpi.sampling.optimal import Optimal, OptimalApprox
from fedmpi.sampling.own import OwnScheme
from fedmpi.sampling.poisson import Poisson
from fedmpi.sampling.scheme import Scheme
from fedmpi.sampling.uniform import Binomial, Full, Uniform

_BEFORE_TRAINING: tuple[type[Scheme], ...] = (
    Full,
    MD,
    Uniform,
    Binomial,
    Poisson,
    Clustered,
    ClusteredSimilarity,
)
_AFTER_TRAINING: tuple[type[Scheme], ...] = (Optimal, OptimalApprox)
_BIASED: tuple[type[Scheme], ...] = (FedAvg, PowerOfChoice)

SCHEMES: dict[str, type[Scheme]] = {cls.name: cls for cls in (*_BEFORE_TRAINING, *_AFTER_TRAINING, *_BIASED)}
"""The built-in schemes by their names in sampling.scheme; users name their own as "package.module:Class"."""


def make_scheme(name: str, *, p: ArrayLike, m: int, sizes: ArrayLike | None = None, **options: Any) -> Scheme:
    """The scheme of that name, ready to draw: one of SCHEMES, or the user's own as "package.module:Class".

    p: (n,) importances. sizes: (n,) sample counts if p_i = n_i/M exactly; clustered then works in these.
    options: the scheme's own keys of [sampling], such as `d` or `iterations`; others are rejected.
    """
    cls = find(SCHEMES, name, "sampling.scheme")
    if name not in SCHEMES:
        return OwnScheme(name, cls, p, m, options)
    for key, value in options.items():
        if key not in cls.options:
            takes = f"it takes {', '.join(cls.options)}" if cls.options else "it takes no options"
            raise ConfigError(f"sampling.{key} = {value!r}: scheme {name!r} has no such option; {takes}")
    scheme: Scheme = cls(p, m, sizes=sizes, **options)
    return scheme
