"""The home rank of each client: with static placement its data is read there and only there."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def static_placement(inclusion: NDArray[np.float64], workers: Sequence[int]) -> NDArray[np.int32]:
    """The home rank of each client, (n,) int32, such that every worker expects the same work.

    inclusion: (n,) P(i ∈ S_t), a client's expected work. Greedy: the largest first, each to the worker with the
    least so far (ties to the one with fewer clients, then to the lower rank).
    """
    home = np.empty(len(inclusion), np.int32)
    least = [(0.0, 0, rank) for rank in workers]
    for i in np.argsort(-inclusion, kind="stable").tolist():
        load, count, rank = least[0]
        home[i] = rank
        heapq.heapreplace(least, (load + inclusion[i], count + 1, rank))
    return home
