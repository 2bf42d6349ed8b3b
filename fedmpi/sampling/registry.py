"""From the name in sampling.scheme to a scheme that can draw."""

from __future__ import annotations

import difflib
from typing import Any

from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.sampling.biased import FedAvg, PowerOfChoice
from fedmpi.sampling.clustered import Clustered
from fedmpi.sampling.md import MD
from fedmpi.sampling.optimal import Optimal, OptimalApprox
from fedmpi.sampling.own import OwnScheme
from fedmpi.sampling.poisson import Poisson
from fedmpi.sampling.scheme import Scheme
from fedmpi.sampling.similarity import ClusteredSimilarity
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
"""Every scheme that can be named in sampling.scheme, besides "package.module:Class" of the user's own."""


def make_scheme(name: str, *, p: ArrayLike, m: int, sizes: ArrayLike | None = None, **options: Any) -> Scheme:
    """The scheme of that name, ready to draw: one of SCHEMES, or the user's own as "package.module:Class".

    p: (n,) importances. sizes: (n,) sample counts if p_i = n_i/M exactly; clustered then works in these.
    options: the scheme's own keys of [sampling], such as `d` or `iterations`; others are refused.
    """
    if ":" in name:
        return OwnScheme(name, p, m, options)
    if name not in SCHEMES:
        raise ConfigError(f"sampling.scheme = {name!r}: {_did_you_mean(name)}")
    cls = SCHEMES[name]
    for key, value in options.items():
        if key not in cls.options:
            takes = f"it takes {', '.join(cls.options)}" if cls.options else "it takes no options"
            raise ConfigError(f"sampling.{key} = {value!r}: scheme {name!r} has no such option; {takes}")
    return cls(p, m, sizes=sizes, **options)


def _did_you_mean(name: str) -> str:
    near = difflib.get_close_matches(name, SCHEMES, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"no such scheme; {guess}known are {', '.join(SCHEMES)}, or your own as 'package.module:Class'"
