"""The cohorts that were drawn, compared with the scheme's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmpi.errors import ConfigError
from fedmpi.report.format import printable
from fedmpi.report.statistics import Floats
from fedmpi.report.study import Group, Run
from fedmpi.sampling import SCHEMES, Law, Scheme, make_scheme
from fedmpi.theory.plausibility import Plausibility, plausibility


@dataclass(frozen=True, eq=False)
class Draws:
    """All cohorts of a group, over all its seeds.

    N, sum_omega: (rounds,). counts: (n,), the number of those rounds in which each client took part.
    law: None if there is none to compare with; `reason` then says why. verdict: the comparison, if there is one.
    """

    group: Group
    N: Floats
    sum_omega: Floats
    counts: Floats
    law: Law | None
    reason: str
    verdict: Plausibility | None

    @property
    def rounds(self) -> int:
        return len(self.N)

    @property
    def sentences(self) -> list[str]:
        """The verdict as sentences."""
        name = self.group.label
        if self.verdict is None:
            return [f"{name}: {self.reason}."]
        if self.verdict.plausible:
            return [
                f"{name}: N, Σω and every client's share agree with the law over {self.rounds} rounds "
                f"(mean N {self.N.mean():.4g}, law {self.verdict.checks[2].expected:.4g})."
            ]
        return [f"{name}: {sentence}" for sentence in self.verdict.sentences]


def draws_of(group: Group) -> Draws:
    """The cohorts of a group's runs and their plausibility under its scheme's law."""
    first = (group.runs or group.left_out)[0]
    rounds = np.concatenate([run.rounds for run in group.runs] or [first.rounds[:0]])
    clients = np.concatenate([run.cohorts["client"] for run in group.runs] or [first.cohorts["client"][:0]])
    N, sum_omega = rounds["N"].astype(np.float64), rounds["sum_omega"].astype(np.float64)
    counts = np.bincount(clients, minlength=len(first.clients["p"])).astype(np.float64)
    law, reason = law_of(first)
    if not len(rounds):
        reason = "no rounds yet"
    verdict = plausibility(law, N, sum_omega, counts) if law is not None and len(rounds) else None
    return Draws(group, N, sum_omega, counts, law, reason, verdict)


def law_of(run: Run) -> tuple[Law | None, str]:
    """The law of the run's scheme, or None and the reason, as the end of a sentence.

    An own scheme ("module:Class") is imported again to ask for its law, as `fedmpi run RECORD` imports it to draw.
    """
    own = run.scheme not in SCHEMES
    try:
        scheme = scheme_of(run)
        reason = why_no_law(scheme)
        if reason:
            return None, reason
        law = scheme.law()
        if own:
            check_own_law(law, scheme.n)
        return law, ""
    except ConfigError as error:
        return None, no_comparison(str(error))
    # The code of an own scheme can raise anything, and may even exit; the report needs only its law.
    except (Exception, SystemExit) as error:
        if not own:
            raise
        return None, no_comparison(f"its code raised {type(error).__name__}: {error}")


def scheme_of(run: Run) -> Scheme:
    """The scheme that drew the run's cohorts, made again from the config and the clients in the record."""
    sampling = run.config.sampling
    sizes = run.clients["n_samples"] if sampling.importance == "ratio" else None
    return make_scheme(run.scheme, p=run.clients["p"], m=sampling.m, sizes=sizes, **sampling.options)


def why_no_law(scheme: Scheme) -> str:
    """Why a record alone does not give the scheme's law, as the end of a sentence; "" if it does."""
    if scheme.biased:
        return "biased, so there is no law to compare with"
    if scheme.probe is not None:
        return "its law depends on every round's updates, which a record does not keep"
    if scheme.observes:
        return "its clusters, and so its law, change as it learns; only the first ones are known"
    return "" if hasattr(scheme, "law") else "not compared with its theory, because its class has no law()"


def no_comparison(reason: str) -> str:
    """The end of a sentence about a scheme whose law is not available. The reason may come from the user's code."""
    return printable(f"not compared with its theory ({' '.join(reason.split())})")


def check_own_law(law: Law, n: int) -> None:
    """Raise a ConfigError if what an own scheme's law() returned cannot be compared with draws of n clients."""
    if not isinstance(law, Law):
        raise ConfigError(f"its law() returned a {type(law).__name__}; it must return a fedmpi.sampling.Law")
    for name in ("p", "inclusion"):
        values = getattr(law, name)
        if not isinstance(values, np.ndarray) or values.shape != (n,) or not np.isfinite(values).all():
            raise ConfigError(f"its law() has a {name} that is not an array of {n} finite numbers, one per client")
    numbers = {"var_sum": law.var_sum, "mean_N": law.mean_N, "var_N": 0.0 if law.var_N is None else law.var_N}
    for name, value in numbers.items():
        if not np.isfinite(value):
            raise ConfigError(f"its law() has {name} = {value}")
