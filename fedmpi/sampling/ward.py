"""Ward's hierarchical clustering of a distance matrix, and its cut by weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.sampling.law import Floats, Ints

DISTANCES = ("l1", "l2", "cosine")


def distances(x: NDArray[np.float32], metric: str) -> Floats:
    """The (k, k) distances between the rows of x, (k, d): L1, L2, or the angle over π ("cosine").

    The angle between a zero row and another row counts as 90°, that between two zero rows as 0°.
    """
    x = x.astype(np.float64)
    if metric == "l1":
        return np.array([np.abs(x - row).sum(axis=1) for row in x])
    norm = np.sqrt((x * x).sum(axis=1))
    if metric == "cosine":
        unit = np.divide(x, norm[:, None], out=np.zeros_like(x), where=norm[:, None] > 0)
        between: Floats = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
        between[np.ix_(norm == 0, norm == 0)] = 0
    else:
        squared = norm[:, None] ** 2 + norm**2 - 2 * (x @ x.T)
        between = np.sqrt(np.maximum(squared, 0))
    np.fill_diagonal(between, 0)
    return between


def ward_tree(distance: Floats) -> Ints:
    """The n − 1 merges of Ward's method as rows (a, b), in order of height; merge i makes node n + i.

    Nearest-neighbour chain with the Lance–Williams update, on squared distances D:
    D(a∪b, c) = [(|a|+|c|) D(a,c) + (|b|+|c|) D(b,c) − |c| D(a,b)] / (|a|+|b|+|c|). O(n²). distance: (n, n).
    """
    n = distance.shape[0]
    D = distance.astype(np.float64) ** 2
    np.fill_diagonal(D, np.inf)
    size = np.ones(n)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    for _ in range(n - 1):
        if not chain:
            chain.append(int(np.flatnonzero(size)[0]))
        while True:
            top = chain[-1]
            near = int(np.argmin(D[top]))
            # A tie goes to the previous element of the chain; otherwise equally near neighbours would make it cycle.
            if len(chain) > 1 and D[top, chain[-2]] <= D[top, near]:
                break
            chain.append(near)
        a, b = chain.pop(), chain.pop()
        merges.append((D[a, b], a, b))
        live = size > 0
        live[[a, b]] = False
        c = size[live]
        merged = ((size[a] + c) * D[a, live] + (size[b] + c) * D[b, live] - c * D[a, b]) / (size[a] + size[b] + c)
        D[b, live] = D[live, b] = merged
        D[a, :] = D[:, a] = np.inf
        size[b] += size[a]
        size[a] = 0
    return _named_in_order(merges, n)


def _named_in_order(merges: list[tuple[float, int, int]], n: int) -> Ints:
    """The chain's merges sorted by height, with slots replaced by the nodes that they hold after i merges."""
    node = np.arange(n)
    # A merge names two slots, of which b stands for both afterwards: union-find gives the node of a slot.
    parent = np.arange(n)

    def root(slot: int) -> int:
        while parent[slot] != slot:
            parent[slot] = parent[parent[slot]]
            slot = int(parent[slot])
        return slot

    tree = np.empty((len(merges), 2), dtype=np.int64)
    for i, (_, a, b) in enumerate(sorted(merges, key=lambda merge: merge[0])):
        a, b = root(a), root(b)
        tree[i] = node[a], node[b]
        parent[a] = b
        node[b] = n + i
    return tree


def cut_by_weight(tree: Ints, weight: NDArray[Any], capacity: int) -> Ints:
    """The group of each client, (n,) int64: the largest subtrees whose total weight is at most `capacity`.

    weight: (n,) whole numbers, each at most capacity. Groups are numbered in order of their lowest client.
    """
    n = weight.size
    total = [*weight.tolist(), *([0] * len(tree))]
    members: list[list[int]] = [[i] for i in range(n)] + [[] for _ in tree]
    fits = [True] * (n + len(tree))
    for node, (a, b) in enumerate(tree.tolist(), start=n):
        total[node] = total[a] + total[b]
        fits[node] = fits[a] and fits[b] and total[node] <= capacity
        if fits[node]:
            members[node] = members[a] + members[b]
            members[a], members[b] = [], []
    label = np.empty(n, dtype=np.int64)
    for number, clients in enumerate(sorted((group for group in members if group), key=min)):
        label[clients] = number
    return label
