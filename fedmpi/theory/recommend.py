"""A table of all schemes for given p and m, and a recommendation with its reasons."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from fedmpi.errors import ConfigError
from fedmpi.sampling import SCHEMES, check_importances, make_scheme
from fedmpi.sampling.law import Floats, Law
from fedmpi.sampling.scheme import Scheme
from fedmpi.theory.bound import Bound, Problem, bound
from fedmpi.theory.corollary import Corollary, corollary

SCALAR_BYTES = 8


@dataclass(frozen=True, eq=False)
class Row:
    """One scheme for given p and m: its law, its bound, and the logical bytes of a round, down and up."""

    scheme: str
    law: Law
    bound: Bound
    bytes: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class Survey:
    """The schemes that can be used, and the reason why each of the others cannot."""

    rows: tuple[Row, ...]
    left_out: dict[str, str]

    def row(self, scheme: str) -> Row | None:
        """The row of that scheme, None if it was left out."""
        return next((row for row in self.rows if row.scheme == scheme), None)


@dataclass(frozen=True)
class Recommendation:
    """The scheme to use and the reasons, one sentence each."""

    scheme: str
    reasons: tuple[str, ...]


def survey(
    p: ArrayLike, m: int, problem: Problem, *, sizes: ArrayLike | None = None, theta_bytes: int = 542_800
) -> Survey:
    """Every unbiased scheme of the registry that is feasible for p and m, in the registry's order.

    theta_bytes: |θ|. A round moves N |θ| down and N |θ| up; with a scheme that trains first, n |θ| down,
    and its scalars up as well, and the law is shown for updates of equal norm, u_i = p_i.
    """
    p = check_importances(p)
    rows: list[Row] = []
    left_out: dict[str, str] = {}
    for name, cls in SCHEMES.items():
        if cls.biased:
            left_out[name] = "biased: E[ω_i] is not p_i, so there is no law and no bound"
            continue
        try:
            scheme = make_scheme(name, p=p, m=m, sizes=sizes)
        except ConfigError as error:
            left_out[name] = str(error)
            continue
        rows.append(_row(scheme, problem, theta_bytes))
    return Survey(tuple(rows), left_out)


def _row(scheme: Scheme, problem: Problem, theta_bytes: int) -> Row:
    n, m = scheme.n, scheme.n if scheme.name == "full" else scheme.m
    if scheme.probe == "norm":
        law = scheme.law(norms=scheme.p)
        moved = (n + law.mean_N) * theta_bytes + n * scheme.scalars_per_client * SCALAR_BYTES
        note = "if all updates have one norm"
    else:
        law = scheme.law()
        moved = 2 * law.mean_N * theta_bytes
        note = "before any update is seen" if scheme.observes else ""
    return Row(scheme.name, law, bound(problem, law, m), moved, note)


def recommend(p: ArrayLike, m: int, table: Survey) -> Recommendation:
    """uniform where the corollary holds, else clustered, which is never above md; with the reasons in words.

    The choice flips exactly at Σp² = 1/(n − m + 1).  [FVKL, Corollary 1 and Corollary for Clustered]
    """
    p = check_importances(p)
    n = p.size
    if m > n:
        reason = f"m = {m} exceeds n = {n}, so only schemes that draw with repeats are feasible."
        return Recommendation("clustered", (reason, _CLUSTERED_NEVER_WORSE))
    if m == n:
        return Recommendation("full", ("m = n: everyone can take part, which has no sampling noise at all.",))
    test = corollary(p, m)
    if test.holds:
        return Recommendation("uniform", (_why_uniform(test), *_remarks(p, table, "uniform")))
    return Recommendation(
        "clustered", (_why_not_uniform(test), _CLUSTERED_NEVER_WORSE, *_remarks(p, table, "clustered"))
    )


def _why_uniform(test: Corollary) -> str:
    return (
        f"Σp² = {test.sum_p2:.6g} ≤ 1/(n−m+1) = {test.threshold:.6g}, so by the corollary uniform has "
        f"Σ = {test.Sigma_uniform:.4g} ≤ {test.Sigma_md:.4g} and γ = {test.gamma_uniform:.4g} ≤ "
        f"{test.gamma_md:.4g} of md; and it draws exactly m clients in O(m) without any table."
    )


def _why_not_uniform(test: Corollary) -> str:
    return (
        f"Σp² = {test.sum_p2:.6g} > 1/(n−m+1) = {test.threshold:.6g}, so by the corollary md has the better "
        f"guarantee than uniform (Σ = {test.Sigma_md:.4g} against {test.Sigma_uniform:.4g})."
    )


_CLUSTERED_NEVER_WORSE = (
    "Clustered keeps what makes md good, weights that sum to 1, and its Σ is never above md's; "
    "take md if one distribution for all draws is wanted."
)


def _remarks(p: Floats, table: Survey, choice: str) -> list[str]:
    """Further remarks on the table: a lower Σ of another scheme, misleading bounds, feasibility, cost."""
    remarks = []
    chosen, clustered = table.row(choice), table.row("clustered")
    if chosen and clustered and choice == "uniform":
        if clustered.law.Sigma < chosen.law.Sigma * (1 - 1e-9):
            remarks.append(
                f"Clustered has a still lower Σ = {clustered.law.Sigma:.4g} and weights that sum to 1, "
                "though its proven γ is md's: try both."
            )
        elif chosen.law.var_sum < 1e-12:
            remarks.append("With equal importances clustered does the same as uniform.")
    for row in (table.row("binomial"), table.row("poisson")):
        if chosen and row and row.bound.total < chosen.bound.total:
            remarks.append(
                f"The bound of {row.scheme} is lower only because Theorem 1 drops the gain of α > 0: its Σω "
                f"varies, with variance {row.law.var_sum:.4g}, and so does N."
            )
    if "poisson" in table.left_out:
        remarks.append(f"Poisson cannot be used here: p_max = {p.max():.4g}.")
    if p.size >= 100_000:
        remarks.append("At this n any scheme but optimal draws in about a millisecond: the tables are built once.")
    if chosen and not chosen.bound.holds:
        remarks.append(f"The bound is proved only for η_l ≤ {chosen.bound.largest_eta_l:.3g}; here it is only a guide.")
    return remarks
