"""The theory of the paper as numbers: bounds, the corollary, exact quadratic runs, advice, checks of drawn cohorts.

The laws themselves (Σ, γ, α, Var Σω, N) are in fedmpi.sampling: every scheme's `law()`.
"""

from __future__ import annotations

from fedmpi.theory.bound import Bound, Condition, Problem, bound
from fedmpi.theory.corollary import Corollary, corollary
from fedmpi.theory.plausibility import Check, Plausibility, plausibility
from fedmpi.theory.quadratic import expected_squared_error, local_contraction, plateau
from fedmpi.theory.recommend import Recommendation, Survey, recommend, survey

__all__ = [
    "Bound",
    "Check",
    "Condition",
    "Corollary",
    "Plausibility",
    "Problem",
    "Recommendation",
    "Survey",
    "bound",
    "corollary",
    "expected_squared_error",
    "local_contraction",
    "plateau",
    "plausibility",
    "recommend",
    "survey",
]
