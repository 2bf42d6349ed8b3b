"""Clustered sampling with clusters of clients whose latest updates are similar."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedmpi.errors import ConfigError
from fedmpi.sampling.cluster_table import ClusterTable, Whole, narrowed
from fedmpi.sampling.clustered import ClusteredLaw, included, law_of_table, shares_of
from fedmpi.sampling.law import Floats, Ints
from fedmpi.sampling.md import counted
from fedmpi.sampling.scheme import Cohort, Scheme
from fedmpi.sampling.ward import DISTANCES, cut_by_weight, distances, ward_tree

LARGEST_N = 4096
"""Largest n: the distance matrix has n² entries, and the latest update of every client is kept."""


class ClusteredSimilarity(Scheme):
    """One draw from each of m clusters of clients with similar updates; ω_i = (count of i)/m.

    Ward clustering of the clients' latest updates (zero for a client not seen yet), cut so that no group
    weighs more than 1/m; the m heaviest groups start the m clusters, and the clients of the others are poured
    into the room left. All arithmetic is in whole numbers, so E[ω_i] = p_i in every round. Fraboni, Vidal, Kameni,
    Lorenzi: Clustered Sampling, Algorithm 2. `sampling.distance` is "l2" (default), "l1" or "cosine";
    `sampling.recluster_every` (default 1) is the number of rounds between two clusterings.
    """

    name = "clustered-similarity"
    summary = "one draw from each of m clusters of similar latest updates, weight count/m"
    observes = True
    options = ("distance", "recluster_every")

    def __init__(
        self,
        p: ArrayLike,
        m: int,
        *,
        sizes: ArrayLike | None = None,
        distance: str = "l2",
        recluster_every: int = 1,
    ) -> None:
        super().__init__(p, m, sizes=sizes)
        if self.n > LARGEST_N:
            raise ConfigError(
                f"data.n = {self.n}: scheme {self.name!r} compares all pairs of clients and takes at most "
                f"{LARGEST_N}; use 'clustered', which does not"
            )
        if distance not in DISTANCES:
            raise ConfigError(f"sampling.distance = {distance!r}: must be one of {', '.join(DISTANCES)}")
        if isinstance(recluster_every, bool) or not isinstance(recluster_every, int) or recluster_every < 1:
            raise ConfigError(f"sampling.recluster_every = {recluster_every!r}: must be an integer of at least 1")
        self.distance = distance
        self.recluster_every = recluster_every
        self._shares, self._M = shares_of(self)
        self._latest: dict[int, NDArray[np.float32]] = {}
        self._recluster()

    def draw(self, rng: Generator) -> Cohort:
        """One client per cluster, as ClusterTable.draw says."""
        return counted(self.table.draw(rng), self.m)

    def law(self) -> ClusteredLaw:
        """The law of the present clusters; see `law_of_table`."""
        return law_of_table(self.p, self.table)

    def inclusion(self) -> Floats:
        """P(i ∈ S_t) under the present clusters, shape (n,)."""
        return included(self.table, self.n)

    def tables(self) -> Whole:
        """The (m, n) whole numbers M r_ki of the present clusters: rows sum to M, column i to m n_i."""
        return self.table.dense(self.n)

    def observe(self, clients: Ints, deltas: NDArray[np.float32]) -> None:
        """Keep the update of each drawn client as its latest. clients: (N,), deltas: (N, d)."""
        for client, delta in zip(clients.tolist(), deltas, strict=True):
            self._latest[client] = np.array(delta, dtype=np.float32)

    def begin_round(self, t: int) -> None:
        """Recompute the clusters if t is a multiple of recluster_every and there is an update."""
        if t % self.recluster_every == 0 and self._latest:
            self._recluster()

    def _recluster(self) -> None:
        seen = sorted(self._latest)
        # Clients without an update share one row of zeros, so that distances are computed only for the others.
        rows = [self._latest[i] for i in seen] or [np.zeros(1, dtype=np.float32)]
        between = distances(np.stack([*rows, np.zeros_like(rows[0])]), self.distance)
        row = np.full(self.n, len(rows))
        row[seen] = np.arange(len(seen))
        tree = ward_tree(between[np.ix_(row, row)])
        self._use_groups(cut_by_weight(tree, self.m * self._wide_shares() % self._M, self._M))

    def _use_groups(self, group: Ints) -> None:
        self._group = group
        self.table = pour_groups(self._wide_shares(), self._M, self.m, group)

    def _wide_shares(self) -> Whole:
        return self._shares.astype(object)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The latest updates and the present groups, which may be older than the updates."""
        seen = sorted(self._latest)
        deltas = np.stack([self._latest[i] for i in seen]) if seen else np.empty((0, 0), dtype=np.float32)
        return {"clients": np.array(seen, dtype=np.int64), "deltas": deltas, "group": self._group}

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Restore what `state` returned."""
        self._latest = {
            int(i): np.array(delta, dtype=np.float32)
            for i, delta in zip(state["clients"], state["deltas"], strict=True)
        }
        self._use_groups(state["group"].astype(np.int64))


def pour_groups(shares: Whole, M: int, m: int, group: Ints) -> ClusterTable:
    """The table with whole clusters for heavy clients, then the heaviest groups, topped up from the others.

    A client with m p_i ≥ 1 fills ⌊m p_i⌋ clusters; what is left of everyone, less than M units each, is
    grouped. shares: (n,) Python ints with sum M. group: (n,) labels; no group's leftovers exceed M.
    """
    whole, left = (m * shares) // M, (m * shares) % M
    clusters = [[(i, M)] for i in range(shares.size) for _ in range(whole[i])]
    groups = [np.flatnonzero((group == g) & (left > 0)) for g in range(int(group.max()) + 1)]
    groups.sort(key=lambda clients: -left[clients].sum())
    started, rest = groups[: m - len(clusters)], groups[m - len(clusters) :]
    spare = [(int(i), left[i]) for clients in rest for i in clients]
    for clients in started:
        cluster = [(int(i), left[i]) for i in clients]
        room = M - sum(units for _, units in cluster)
        while room:
            i, units = spare.pop(0)
            if units > room:
                spare.insert(0, (i, units - room))
            cluster.append((i, min(units, room)))
            room -= min(units, room)
        clusters.append(cluster)
    segments = [segment for cluster in clusters for segment in cluster]
    end = np.cumsum(np.array([units for _, units in segments], dtype=object))
    return ClusterTable(m, M, np.array([i for i, _ in segments], dtype=np.int64), narrowed(end, m * M))
