"""The virtual federation: rounds computed by hand, fair sharing against a naive oracle, links and traces."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmpi.config import Config
from fedmpi.errors import ConfigError
from fedmpi.network import VirtualNetwork, VirtualRound
from fedmpi.network.links import Links
from fedmpi.network.sharing import transfer

# One million bits: a second at 1 Mbit/s.
MBIT = 125_000


def network(n: int = 4, **keys: Any) -> VirtualNetwork:
    """n equal clients with a tenth of a second of latency, 10 Mbit/s down, 1 Mbit/s up and half this machine's
    speed, unless told otherwise."""
    settings = {"latency": 0.1, "down": 10e6, "up": 1e6, "speed": 0.5, **keys}
    return VirtualNetwork(Config().replace({f"network.{k}": v for k, v in settings.items()}).network, n)


def ids(*clients: int) -> Any:
    return np.array(clients, np.int64)


def traced(path: Path, *rows: str) -> str:
    path.write_text("\n".join(("client,latency,down,up,speed", *rows)) + "\n", encoding="utf-8")
    return str(path)


def phases(times: VirtualRound) -> tuple[float, float, float]:
    return times.down, times.compute, times.up


def close(*expected: float) -> Any:
    return pytest.approx(expected, rel=1e-12)


def test_one_client() -> None:
    """0.1 + 10 Mbit at 10 Mbit/s; 3 s of work at half speed; 0.1 + 2 Mbit at 1 Mbit/s."""
    times = network().round(ids(2), 3.0, 10 * MBIT, 2 * MBIT)
    assert phases(times) == close(1.1, 6.0, 2.1)
    assert times.total == pytest.approx(9.2, rel=1e-12)
    assert (times.straggler, times.prober) == (2, -1)


def test_two_equal_clients_halve_the_servers_link() -> None:
    """Down: 5 Mbit/s of the server's 10 each, so 2 s. Up: 0.5 of its 1 each, so 2 s."""
    shared = network(server_down=10e6, server_up=1e6)
    assert phases(shared.round(ids(0, 1), 1.0, 10 * MBIT, MBIT)) == close(2.1, 2.0, 2.1)
    assert phases(shared.round(ids(0), 1.0, 10 * MBIT, MBIT)) == close(1.1, 2.0, 1.1)


def test_a_wide_server_link_is_no_limit() -> None:
    free, wide = network(), network(server_down=20e6, server_up=2e6)
    assert free.round(ids(0, 1), 1.0, 10 * MBIT, MBIT) == wide.round(ids(0, 1), 1.0, 10 * MBIT, MBIT)


def test_a_slow_uplink_leaves_the_rest_of_the_servers_link_to_the_others(tmp_path: Path) -> None:
    """Of 3 Mbit/s, client 0 can use 1; 1 and 2 share the other 2 and are done after 2 s. Client 0 needs 2 s too;
    at half its rate it would need 4."""
    trace = traced(tmp_path / "t.csv", "0,0,1e9,1e6,1", "1,0,1e9,9e6,1", "2,0,1e9,9e6,1", "3,0,1e9,5e5,1")
    model = network(trace=trace, server_up=3e6)
    times = model.round(ids(0, 1, 2), 0.0, 0, 2 * MBIT)
    assert (times.total, times.straggler) == (pytest.approx(2.0), 0)
    times = model.round(ids(1, 2, 3), 0.0, 0, 2 * MBIT)
    assert (times.total, times.straggler) == (pytest.approx(4.0), 3)


def test_one_straggler_uploads_alone() -> None:
    """Clients 0 and 1 share the link from 1 s on and are through at 3 s; client 2 computes until 4 s and then has
    it alone. Had it been there at once, three would have shared, and all would have been through at 4 s."""
    model = network(latency=0.0, speed=1.0, up=9e6, server_up=1e6)
    times = model.round(ids(0, 1, 2), [1.0, 1.0, 4.0], 0, MBIT)
    assert phases(times) == close(0.0, 4.0, 1.0)
    assert times.straggler == 2
    assert model.round(ids(0, 1, 2), 1.0, 0, MBIT).total == pytest.approx(4.0)


def test_an_upload_that_comes_late_slows_the_one_that_is_under_way() -> None:
    """Client 0 sends alone for 1 s, then shares: 1 of 2 Mbit in the next 2 s. Client 1 has 1 Mbit left to send after
    client 0 is through at 3 s, and the link to itself: 4 s."""
    model = network(latency=0.0, speed=1.0, up=9e6, server_up=1e6)
    times = model.round(ids(0, 1), [0.0, 1.0], 0, 2 * MBIT)
    assert (times.total, times.straggler) == (pytest.approx(4.0), 1)
    ends = transfer(np.array([0.0, 1.0]), np.array([2e6, 2e6]), np.array([9e6, 9e6]), 1e6)
    assert ends.tolist() == close(3.0, 4.0)


def test_bytes_may_differ_from_client_to_client() -> None:
    times = network().round(ids(0, 1), [3.0, 0.0], [10 * MBIT, 20 * MBIT], [MBIT, 9 * MBIT])
    assert phases(times) == close(2.1, 0.0, 9.1)
    assert times.straggler == 1


def test_two_steps_where_the_probe_is_the_training(tmp_path: Path) -> None:
    """Client 2 is slow to work and not drawn: the probe ends with it at 0.2 + 1 + 8 + 0.2 + 8 bit at 1 bit/s. The
    call takes 0.1 s, the upload 0.1 s and 2 s."""
    slow = "2,0.2,10e6,8,0.5"
    trace = traced(tmp_path / "t.csv", "0,0.1,10e6,1e6,2", "1,0.1,10e6,1e6,2", slow, "3,9,9,9,9")
    times = network(trace=trace).round(
        ids(0, 1), 0.0, 10 * MBIT, 2 * MBIT, probed=ids(0, 1, 2), probe_seconds=4.0, scalar_bytes=(1,)
    )
    assert times.total == pytest.approx(1.2 + 8 + 1.2 + 2.2, rel=1e-12)
    assert phases(times) == close(1.2, 8.0, 3.4)
    assert (times.straggler, times.prober) == (0, 2)


def test_two_steps_where_the_drawn_train_after_the_draw() -> None:
    """The probe: 1.1 + 2 + 0.1 (and 8 µs for a byte). Then 0.1 for the call, 6 s of work, 0.1 + 1 s up."""
    times = network().round(ids(1), 3.0, 10 * MBIT, MBIT, probed=ids(0, 1), probe_seconds=1.0, scalar_bytes=(1,))
    assert phases(times) == close(1.1, 8.0, 0.1 + 8e-6 + 0.1 + 0.1 + 1.0)


def test_each_further_exchange_of_scalars_costs_a_round_trip() -> None:
    def total(*sizes: int) -> float:
        return network().round(ids(1), 0.0, MBIT, MBIT, probed=ids(0, 1), scalar_bytes=sizes).total

    assert total(8, 16, 16) - total(8) == pytest.approx(2 * (0.1 + 0.1 + 128e-6), rel=1e-9)


def test_the_scalars_of_all_share_the_servers_link() -> None:
    """1,000 clients send 8 bytes each through 64 kbit/s: one second."""
    everyone = np.arange(1000, dtype=np.int64)
    model = network(1000, latency=0.0, server_up=64e3)
    times = model.round(ids(), 0.0, 0, MBIT, probed=everyone)
    assert times.total == pytest.approx(1.0, rel=1e-9)


def test_an_empty_cohort_takes_no_time_but_its_probe_does() -> None:
    assert network().round(ids(), 1.0, MBIT, MBIT) == VirtualRound(0.0, 0.0, 0.0, -1, -1)
    probed = network().round(ids(), 0.0, 10 * MBIT, MBIT, probed=ids(3), probe_seconds=1.0, scalar_bytes=(125,))
    assert phases(probed) == close(1.1, 2.0, 0.1 + 1e-3)
    assert (probed.straggler, probed.prober) == (-1, 3)


def naive_ends(begin: Any, bits: Any, rate: Any, capacity: float) -> Any:
    """Fair sharing as in a textbook: at every event, fill up all active flows again from nothing."""
    left, ends, now = bits.copy(), np.full(len(bits), math.nan), 0.0
    while np.isnan(ends).any():
        active = np.isnan(ends) & (begin <= now)
        rho, room, open_flows = np.zeros(len(bits)), capacity, set(np.flatnonzero(active).tolist())
        while open_flows:
            share = room / len(open_flows)
            slow = {i for i in open_flows if rate[i] <= share}
            for i in slow or open_flows:
                rho[i] = min(rate[i], share)
                room -= rho[i]
            open_flows = open_flows - slow if slow else set()
        with np.errstate(divide="ignore", invalid="ignore"):
            finish = np.where(active, now + left / rho, np.inf)
        after = min(finish.min(), begin[begin > now].min(initial=np.inf))
        left -= rho * (after - now)
        ends[active & (finish <= after * (1 + 1e-14))] = after
        now = after
    return ends


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 12), st.booleans(), st.floats(0.02, 1.5))
def test_sharing_is_that_of_the_naive_oracle(seed: int, count: int, few_rates: bool, narrow: float) -> None:
    rng = np.random.default_rng(seed)
    begin = rng.choice([0.0, 1.0, 20.0], count) * rng.random(count)
    rate = rng.choice([1.0, 2.0, 5.0], count) if few_rates else rng.lognormal(0, 1, count)
    bits = rng.choice([1.0, 3.0], count) * (1.0 if few_rates else rng.random(count))
    capacity = narrow * float(rate.sum())
    ends = transfer(begin, bits, rate, capacity)
    np.testing.assert_allclose(ends, naive_ends(begin, bits, rate, capacity), rtol=1e-9)


def test_clients_far_faster_than_the_server_share_it_evenly() -> None:
    ends = transfer(np.zeros(3), np.array([1.0, 1.0, 2.0]), np.array([0.25, 1e30, 1e25]), 1.0)
    # 1/4, 3/8 and 3/8 until 8/3 s; then 1/4 and 3/4, until the first and the third have their last bit at 4 s.
    assert ends.tolist() == close(4.0, 8 / 3, 4.0)


def test_a_large_round_keeps_the_link_busy() -> None:
    """What all bring, over the capacity, bounds the end from below, and it is met where the link is never idle."""
    rng = np.random.default_rng(3)
    rate, bits = rng.lognormal(0, 1, 3000), rng.random(3000) + 0.5
    ends = transfer(np.zeros(3000), bits, rate, 1.0)
    assert ends.max() == pytest.approx(bits.sum(), rel=1e-9)


def test_links_are_log_normal_about_their_medians() -> None:
    n = 4000
    spreads = {"latency_spread": 0.5, "down_spread": 1.0, "up_spread": 0.25, "speed_spread": 0.75}
    model = network(n, **spreads, seed=5)
    logs = np.log(model.links.of(np.arange(n)))
    for k, (median, spread) in enumerate(zip((0.1, 10e6, 1e6, 0.5), spreads.values(), strict=True)):
        # Five standard errors of a mean and of a standard deviation over n draws.
        assert logs[k].mean() == pytest.approx(math.log(median), abs=5 * spread / math.sqrt(n))
        assert logs[k].std() == pytest.approx(spread, abs=5 * spread / math.sqrt(2 * n))
    assert np.abs(np.corrcoef(logs) - np.eye(4)).max() < 5 / math.sqrt(n)


def test_a_clients_link_depends_on_the_seed_and_the_client_alone() -> None:
    def links(seed: int, n: int = 10**6) -> Links:
        return network(n, up_spread=1.0, seed=seed).links

    first = links(1).of(ids(7, 999_999))
    other = links(1)
    other.of(ids(3, 5, 7))
    assert (other.of(ids(7, 999_999)) == first).all()
    assert (links(1, 8).of(ids(7))[:, 0] == first[:, 0]).all()
    assert (links(2).of(ids(7, 999_999))[2] != first[2]).all()
    assert other.known.sum() == 4


def test_one_spread_does_not_move_the_other_quantities() -> None:
    alone = network(up_spread=1.0).links.of(ids(0, 1))
    both = network(up_spread=1.0, down_spread=2.0).links.of(ids(0, 1))
    assert (alone[[0, 2, 3]] == both[[0, 2, 3]]).all()
    assert (alone[1] != both[1]).all()


def test_a_trace_may_hold_more_columns_and_clients_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("up,speed,country,client,down,latency\n3,4,fr,1,2,1\n30,40,de,0,20,10\n9,9,it,2,9,9\n")
    assert network(2, trace=str(path)).links.of(ids(0, 1)).T.tolist() == [[10, 20, 30, 40], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["0,1,1,1,1", "2,1,1,1,1"], "no row for clients 1, 3 of the n = 4 clients"),
        (["0,1,1,1,1"], "no row for clients 1, 2, 3"),
        (["0,1,1,1,1", "0,2,2,2,2"], "line 3: client 0 has a row already"),
        (["0,1,1,x,1"], "line 2: must hold"),
        (["0,1,1"], "line 2: must hold"),
        (["0,1,1,0,1"], "line 2: client and latency must be at least 0; down, up and speed above 0"),
        (["0,nan,1,1,1"], "line 2: client and latency"),
        (["-1,1,1,1,1"], "line 2: client and latency"),
    ],
)
def test_a_wrong_trace_is_refused_with_the_reason(rows: list[str], words: str, tmp_path: Path) -> None:
    trace = traced(tmp_path / "t.csv", *rows)
    with pytest.raises(ConfigError) as caught:
        network(trace=trace)
    assert f"network.trace = '{trace}': " in str(caught.value)
    assert words in str(caught.value)


def test_many_missing_clients_are_counted_and_missing_files_and_columns_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no row for clients 1, 2, 3, 4, 5 and 94 more of the n = 100"):
        network(100, trace=traced(tmp_path / "t.csv", "0,1,1,1,1"))
    with pytest.raises(ConfigError, match="cannot be read as a CSV file"):
        network(trace=str(tmp_path / "none.csv"))
    (tmp_path / "short.csv").write_text("client,down,speed\n0,1,1\n")
    with pytest.raises(ConfigError, match="has no column latency, up"):
        network(trace=str(tmp_path / "short.csv"))
