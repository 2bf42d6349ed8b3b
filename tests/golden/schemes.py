"""What the schemes draw by themselves, as `make_scheme(name, p=p, m=m).draw(rng)` in a notebook does."""

from __future__ import annotations

import hashlib

import numpy as np

from fedmpi.sampling import SCHEMES, make_scheme

N, M, DRAWS = 40, 6, 25
# `power-of-choice` draws from clients' losses, which only a run has.
ALONE = [name for name in SCHEMES if name != "power-of-choice"]


def drawn(name: str) -> str:
    """The hash of a scheme's first draws, with their weights where these do not depend on a sum's order."""
    sizes = 20 + np.arange(N) * 7 % 23
    p = sizes / sizes.sum()
    rng = np.random.default_rng(5)
    by_norm = name.startswith("optimal")
    answers = {"norms": p * (1 + np.arange(N) % 5)} if by_norm else {}
    scheme, digest = make_scheme(name, p=p, m=M), hashlib.sha256()
    for _ in range(DRAWS):
        cohort = scheme.draw(rng, **answers)
        digest.update(np.int64(len(cohort.clients)).tobytes() + cohort.clients.astype("<i8").tobytes())
        if not by_norm:
            digest.update(cohort.omega.astype("<f8").tobytes())
    return digest.hexdigest()
