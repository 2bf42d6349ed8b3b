"""Client sampling: schemes that turn importances p and a cohort size m into (S_t, ω), and the law of ω.  [FVKL]

A new scheme is one class here (see `scheme.Scheme`) and its name in `registry`. Users bring their own without touching
this folder: sampling.scheme = "package.module:Class" (see `own.OwnScheme`).

>>> from numpy.random import default_rng
>>> scheme = make_scheme("md", p=[0.5, 0.25, 0.25], m=2)
>>> cohort = scheme.draw(default_rng(0))
>>> float(cohort.omega.sum())
1.0
>>> scheme.law().gamma
0.5
"""

from __future__ import annotations

from fedmpi.sampling.law import Law
from fedmpi.sampling.registry import SCHEMES, make_scheme
from fedmpi.sampling.scheme import Cohort, Scheme, check_importances

__all__ = ["SCHEMES", "Cohort", "Law", "Scheme", "check_importances", "make_scheme"]
