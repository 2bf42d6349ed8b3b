"""Cluster tables: exact sums, the one-ulp promise, and Ward's tree against scipy's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmpi.errors import ConfigError
from fedmpi.sampling import block_search, make_scheme
from fedmpi.sampling.cluster_table import EXACT_N, ClusterTable, whole_shares
from fedmpi.sampling.ward import cut_by_weight, distances, ward_tree

scipy_hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
scipy_distance = pytest.importorskip("scipy.spatial.distance")

SIZES = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any)


@settings(max_examples=150, deadline=None)
@given(sizes=SIZES, m=st.integers(1, 40))
def test_sums_hold_exactly_from_sizes(sizes: list[int], m: int) -> None:
    M = sum(sizes)
    scheme = make_scheme("clustered", p=np.array(sizes) / M, m=m, sizes=sizes)
    table = scheme.tables()
    assert table.shape == (m, len(sizes))
    assert (table >= 0).all()
    assert table.sum(axis=1).tolist() == [M] * m
    assert table.sum(axis=0).tolist() == [m * size for size in sizes]
    assert scheme.table.entries[2].size <= len(sizes) + m
    full_clusters = (table == M).sum(axis=0)
    assert all(full_clusters[i] >= m * size // M - 1 for i, size in enumerate(sizes))


@settings(max_examples=150, deadline=None)
@given(
    raw=st.lists(st.floats(0, 1e3) | st.floats(1e-300, 1e-200), min_size=1, max_size=30).filter(lambda x: sum(x) > 1),
    m=st.integers(1, 40),
)
def test_sums_hold_exactly_from_p_within_one_ulp(raw: list[float], m: int) -> None:
    p = np.array(raw) / np.sum(raw)
    shares, M = whole_shares(p, m)
    assert sum(shares.tolist()) == M
    exact = [Fraction(x) for x in p.tolist()]
    ulps = [Fraction(np.spacing(x)) if x else 0 for x in p.tolist()]
    if abs(sum(exact) - 1) <= sum(ulps) or p.min() == p.max():
        assert all(abs(Fraction(s, M) - x) <= u for s, x, u in zip(shares.tolist(), exact, ulps, strict=True))
    else:
        assert [Fraction(s, M) for s in shares.tolist()] == [x / sum(exact) for x in exact]
    table = make_scheme("clustered", p=p, m=m).tables()
    assert all(sum(row) == M for row in table.tolist())
    assert [sum(column) for column in table.T.tolist()] == [m * share for share in shares.tolist()]


def test_p_that_misses_one_by_more_than_its_rounding_is_divided_by_its_sum() -> None:
    p = np.array([0.5, 0.3, 0.2]) * (1 + 5e-10)
    shares, M = whole_shares(p, 2)
    assert sum(shares.tolist()) == M
    assert Fraction(shares[1], M) == Fraction(p[1]) / sum(Fraction(x) for x in p)


def test_a_large_federation_without_sizes_is_still_summed_exactly() -> None:
    n, m = EXACT_N + 1, 1000
    p = np.random.default_rng(0).dirichlet(np.full(n, 0.5))
    scheme = make_scheme("clustered", p=p, m=m)
    cluster, client, units = scheme.table.entries
    assert units.dtype == np.int64
    M = scheme.table.M
    assert (np.bincount(cluster, weights=units.astype(float)) == M).all()
    column = np.zeros(n, dtype=np.int64)
    np.add.at(column, client, units)
    assert (column % m == 0).all()
    assert np.abs(column / m / M - p).max() <= 2 / M


def test_draws_of_a_table_beyond_int64_follow_it() -> None:
    """M of 200 bits: the points are drawn to 1/C of a cluster, and every segment gets its share."""
    M = 1 << 200
    table = ClusterTable(2, M, np.array([0, 1, 2]), np.array([M // 4, M + M // 2, 2 * M], dtype=object))
    rng = np.random.default_rng(0)
    drawn = np.array([table.draw(rng) for _ in range(4000)])
    # P(0), P(1) in cluster 0 are ¼, ¾; P(1), P(2) in cluster 1 are ½: standard errors below 0.008.
    assert np.bincount(drawn[:, 0], minlength=3) / 4000 == pytest.approx([0.25, 0.75, 0], abs=0.035)
    assert np.bincount(drawn[:, 1], minlength=3) / 4000 == pytest.approx([0, 0.5, 0.5], abs=0.04)


def test_equal_importances_sit_in_one_cluster_each() -> None:
    for sizes in (None, np.full(12, 7)):
        table = make_scheme("clustered", p=np.full(12, 1 / 12), m=4, sizes=sizes).tables()
        assert ((table > 0).sum(axis=0) == 1).all()
        assert ((table > 0).sum(axis=1) == 3).all()


def test_a_heavy_client_fills_whole_clusters() -> None:
    table = make_scheme("clustered", p=[0.7, 0.2, 0.1], m=5, sizes=[7, 2, 1]).tables()
    assert table.tolist() == [[10, 0, 0], [10, 0, 0], [10, 0, 0], [5, 5, 0], [0, 5, 5]]


def test_sizes_that_are_not_p_are_refused() -> None:
    with pytest.raises(ConfigError, match="sizes"):
        make_scheme("clustered", p=[0.5, 0.5], m=1, sizes=[1, 2])
    with pytest.raises(ConfigError, match="sizes"):
        make_scheme("clustered", p=[0.5, 0.5], m=1, sizes=[0.5, 0.5])


@settings(max_examples=100, deadline=None)
@given(
    table=st.lists(st.integers(0, 50), min_size=1, max_size=300),
    keys=st.lists(st.integers(-1, 50), min_size=1, max_size=50),
)
def test_block_search_is_searchsorted(table: list[int], keys: list[int]) -> None:
    ascending = np.sort(np.array([*table, 51]))
    for dtype in (np.int64, np.float64, object):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(block_search, "SMALL", 0)
            found = block_search.BlockSearch(ascending.astype(dtype)).first_above(np.array(keys, dtype=dtype))
        assert found.tolist() == np.searchsorted(ascending, keys, side="right").tolist()


@pytest.mark.parametrize("metric", ["l1", "l2", "cosine"])
@pytest.mark.parametrize("n", [2, 3, 10, 60])
def test_ward_tree_is_scipys(metric: str, n: int) -> None:
    x = np.random.default_rng(n).normal(size=(n, 5)).astype(np.float32)
    between = distances(x, metric)
    if metric == "cosine":
        expected = np.arccos(1 - scipy_distance.cdist(x, x, "cosine").clip(0, 2)) / np.pi
    else:
        expected = scipy_distance.cdist(x, x, "cityblock" if metric == "l1" else "euclidean")
    assert np.allclose(between, expected, atol=1e-6)
    oracle = scipy_hierarchy.linkage(scipy_distance.squareform(between, checks=False), "ward")
    tree = ward_tree(between)
    assert np.sort(tree, axis=1).tolist() == np.sort(oracle[:, :2], axis=1).astype(int).tolist()


def test_the_angle_of_a_zero_update_is_defined() -> None:
    between = distances(np.array([[0, 0], [1, 0], [0, 0], [-1, 0]], dtype=np.float32), "cosine")
    assert between.tolist() == [[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 1], [0, 0.5, 0, 0.5], [0.5, 1, 0.5, 0]]


def test_the_cut_keeps_the_largest_subtrees_that_fit() -> None:
    x = np.array([[0.0], [0.1], [10.0], [10.1], [20.0], [20.3]], dtype=np.float32)
    tree = ward_tree(distances(x, "l2"))
    ones = np.ones(6, dtype=object)
    assert cut_by_weight(tree, ones, 1).tolist() == [0, 1, 2, 3, 4, 5]
    assert cut_by_weight(tree, ones, 2).tolist() == [0, 0, 1, 1, 2, 2]
    assert cut_by_weight(tree, ones, 6).tolist() == [0] * 6
    heavy_last = np.array([1, 1, 1, 1, 2, 2], dtype=object)
    assert cut_by_weight(tree, heavy_last, 2).tolist() == [0, 0, 1, 1, 2, 3]


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, m=st.integers(1, 12), seed=st.integers(0, 99), metric=st.sampled_from(["l1", "l2", "cosine"]))
def test_similarity_is_unbiased_at_every_moment(sizes: list[int], m: int, seed: int, metric: str) -> None:
    n, M, rng = len(sizes), sum(sizes), np.random.default_rng(seed)
    scheme = make_scheme("clustered-similarity", p=np.array(sizes) / M, m=m, sizes=sizes, distance=metric)
    for t in range(3):
        table = scheme.tables()
        assert table.sum(axis=1).tolist() == [M] * m
        assert table.sum(axis=0).tolist() == [m * size for size in sizes]
        seen = np.flatnonzero(rng.random(n) < 0.5)
        scheme.observe(seen, rng.integers(-1, 2, size=(seen.size, 4)).astype(np.float32))
        scheme.begin_round(t + 1)


def test_similar_clients_share_a_cluster() -> None:
    """Three kinds of update, m = 3, equal p: each cluster holds one kind, in whatever order."""
    kind = np.array([0, 1, 2, 1, 0, 2, 2, 1, 0])
    noise = 0.01 * np.random.default_rng(0).normal(size=(9, 3))
    updates = (np.eye(3)[kind] + noise).astype(np.float32)
    for metric in ("l1", "l2", "cosine"):
        scheme = make_scheme("clustered-similarity", p=np.full(9, 1 / 9), m=3, distance=metric)
        scheme.observe(np.arange(9), updates)
        scheme.begin_round(1)
        members = {tuple(np.flatnonzero(row)) for row in scheme.tables()}
        assert members == {tuple(np.flatnonzero(kind == k)) for k in range(3)}


def test_the_heaviest_groups_start_the_clusters_and_the_light_ones_are_poured() -> None:
    """Kinds of 4, 4, 2, 2 clients, each pair beside a four it cannot join, three clusters with room for 4 each."""
    kind = np.array([2, 0, 0, 3, 1, 1, 0, 2, 1, 0, 3, 1])
    scheme = make_scheme("clustered-similarity", p=np.full(12, 1 / 12), m=3)
    scheme.observe(np.arange(12), np.array([[0], [100], [1], [101]], dtype=np.float32)[kind])
    scheme.begin_round(1)
    members = {tuple(np.flatnonzero(row)) for row in scheme.tables()}
    assert members == {tuple(np.flatnonzero(kinds)) for kinds in (kind == 0, kind == 1, kind >= 2)}


def test_reclustering_waits_for_its_round() -> None:
    scheme = make_scheme("clustered-similarity", p=np.full(8, 1 / 8), m=2, recluster_every=5)
    before = scheme.tables()
    scheme.observe(np.arange(8), np.array([[i % 2] for i in range(8)], dtype=np.float32))
    scheme.begin_round(4)
    assert (scheme.tables() == before).all()
    scheme.begin_round(5)
    assert {tuple(np.flatnonzero(row)) for row in scheme.tables()} == {(0, 2, 4, 6), (1, 3, 5, 7)}


def test_a_restored_scheme_goes_on_as_if_nothing_had_happened() -> None:
    def scheme():
        return make_scheme("clustered-similarity", p=np.full(9, 1 / 9), m=3, recluster_every=2)

    rng, first = np.random.default_rng(1), scheme()
    first.observe(np.arange(5), rng.normal(size=(5, 4)).astype(np.float32))
    first.begin_round(2)
    first.observe(np.arange(3, 9), rng.normal(size=(6, 4)).astype(np.float32))
    second = scheme()
    second.restore(first.state())
    assert (first.tables() == second.tables()).all()
    for each in (first, second):
        each.begin_round(4)
    assert (first.tables() == second.tables()).all()
    assert not (first.tables() == scheme().tables()).all()
    assert scheme().state()["clients"].size == 0


def test_similarity_says_what_it_cannot_do() -> None:
    with pytest.raises(ConfigError, match=r"data\.n = 5000.*at most 4096"):
        make_scheme("clustered-similarity", p=np.full(5000, 1 / 5000), m=3)
    with pytest.raises(ConfigError, match=r"sampling\.distance = 'l3'.*l1, l2, cosine"):
        make_scheme("clustered-similarity", p=[0.5, 0.5], m=1, distance="l3")
    with pytest.raises(ConfigError, match=r"sampling\.recluster_every = 0"):
        make_scheme("clustered-similarity", p=[0.5, 0.5], m=1, recluster_every=0)
