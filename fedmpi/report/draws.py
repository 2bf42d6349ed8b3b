"""What was drawn against what the scheme's law says should be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedmpi.errors import ConfigError
from fedmpi.report.statistics import Floats
from fedmpi.report.study import Group, Run
from fedmpi.sampling import SCHEMES, Law, make_scheme
from fedmpi.theory.plausibility import Plausibility, plausibility


@dataclass(frozen=True, eq=False)
class Draws:
    """All cohorts of a group, its seeds together.

    N, sum_omega: (rounds,). counts: (n,), in how many of those rounds each client took part.
    law: None where there is none to compare with, and `reason` says why.
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
        """The verdict in words."""
        name = self.group.label
        if self.verdict is None:
            return [f"{name}: {self.reason}."]
        if self.verdict.plausible:
            return [
                f"{name}: N, Σω and every client's share agree with the law over {self.rounds} rounds "
                f"(mean N {self.N.mean():.4g}, law {self.verdict.checks[2].expected:.4g})."
            ]
        return [f"{name}: {sentence}" for sentence in self.verdict.sentences]


def draws(group: Group) -> Draws:
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

    A record is data: the module of a scheme of the user's own, which it may name, is never imported.
    """
    sampling = run.config.sampling
    if run.scheme not in SCHEMES:
        return None, "a scheme of one's own, whose law a report does not know"
    kind = SCHEMES[run.scheme]
    if kind.biased:
        return None, "biased, so there is no law to compare with"
    if kind.probe is not None:
        return None, "its law depends on every round's updates, which a record does not keep"
    if kind.observes:
        return None, "its clusters, and so its law, change as it learns; only the first ones are known"
    sizes = run.clients["n_samples"] if sampling.importance == "ratio" else None
    try:
        scheme = make_scheme(run.scheme, p=run.clients["p"], m=sampling.m, sizes=sizes, **sampling.options)
    except ConfigError as error:
        return None, f"its law cannot be worked out from the record ({error})"
    return scheme.law(), ""
