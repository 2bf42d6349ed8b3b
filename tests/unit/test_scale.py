"""The cost model: its limits, what it grows with, what it is fitted to, and where its advice turns."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from fedmpi.errors import ConfigError
from fedmpi.scale import CLUSTER, Job, Machine, predict
from fedmpi.scale.fit import FITTED, Measured, fit
from fedmpi.scale.turning import advice, counts, crossing, keeps_up, turn

EXCHANGES = ("per-client", "reduced")
LARGE = Job(workers=64, m=256, theta_bytes=400_000_000, ranks_per_node=4, compute=2.0)


def some_jobs(count: int = 200) -> list[Job]:
    rng = random.Random(7)
    return [
        Job(rng.randint(1, 300), rng.randint(1, 500), rng.randint(4, 10**9), exchange, down, rng.randint(1, 40),
            rng.choice([0.0, rng.random()]))
        for _ in range(count) for exchange in EXCHANGES for down in ("bcast", "p2p", "p2p-per-client")
    ]  # fmt: skip


def total(machine: Machine, job: Job) -> float:
    return predict(machine, job).total


def test_no_phase_is_negative_and_none_is_lost() -> None:
    for job in some_jobs():
        phases = predict(CLUSTER, job)
        parts = [phases.fixed, phases.down, phases.wait, phases.up, phases.aggregate]
        assert all(part >= -1e-12 * phases.total for part in parts)
        assert sum(parts) == pytest.approx(phases.total)


def test_more_bytes_more_clients_or_more_training_never_make_a_round_shorter() -> None:
    for job in some_jobs():
        now = total(CLUSTER, job)
        assert total(CLUSTER, replace(job, theta_bytes=2 * job.theta_bytes)) > now
        assert total(CLUSTER, replace(job, m=job.m + 1)) >= now * (1 - 1e-12)
        assert total(CLUSTER, replace(job, compute=job.compute + 1.0)) > now


def test_a_slower_machine_is_never_faster() -> None:
    for job in some_jobs(40):
        for name in CLUSTER.as_dict():
            slower = CLUSTER.changed({name: 1 if name == "cores" else 2 * CLUSTER.as_dict()[name]})
            assert total(slower, job) >= total(CLUSTER, job) * (1 - 1e-12), name


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_down_and_fixed_grow_with_the_workers(exchange: str) -> None:
    found = [predict(CLUSTER, replace(LARGE, exchange=exchange, workers=W)) for W in (1, 2, 4, 8, 64, 1024)]
    for name in ("down", "fixed"):
        values = [getattr(phases, name) for phases in found]
        assert values == sorted(values)


def test_the_servers_link_carries_every_update() -> None:
    # One rank per node: all workers are far, and of large updates only the bytes count.
    job = Job(workers=1000, m=1000, theta_bytes=10**9, ranks_per_node=1)
    assert predict(CLUSTER, job).up == pytest.approx(1000 * 10**9 * CLUSTER.link, rel=2e-3)
    assert predict(CLUSTER, replace(job, workers=10)).up == pytest.approx(predict(CLUSTER, job).up)
    # All on one node: the server copies every one. Ranks that have no core of their own are in its way.
    one_node, enough = replace(job, ranks_per_node=1001), CLUSTER.changed({"cores": 1001})
    assert predict(enough, one_node).up == pytest.approx(1000 * 10**9 * CLUSTER.copy, rel=2e-3)
    crowded = predict(enough.changed({"cores": 901}), one_node).up - predict(enough, one_node).up
    assert crowded == pytest.approx(1000 * 100 * CLUSTER.crowding)


def test_the_reduction_grows_as_the_depth_of_its_tree() -> None:
    bytes_only = CLUSTER.changed({"latency": 0.0, "overhead": 0.0})
    up = {
        W: predict(bytes_only, Job(W, 10**4, 10**9, "reduced", ranks_per_node=1)).up for W in (1, 3, 7, 8, 1023, 1024)
    }
    hop = 2 * 10**9 * (CLUSTER.link + CLUSTER.combine)
    assert {W: round(seconds / hop) for W, seconds in up.items()} == {1: 1, 3: 2, 7: 3, 8: 4, 1023: 10, 1024: 11}


def test_ranks_beyond_the_cores_take_turns() -> None:
    machine = CLUSTER.changed({"cores": 2})
    one_node = [Job(W, 64, 10**8, "reduced", ranks_per_node=100, compute=1.0) for W in (2, 8, 32)]
    # Two cores do the work of 64 clients, whatever the number of workers.
    waits = [predict(machine, job).wait for job in one_node]
    assert waits == pytest.approx([waits[0]] * 3)
    assert waits[0] == pytest.approx(32 * (1 + 10**8 * machine.own_add), rel=1e-3)
    ups = [predict(machine, job).up for job in one_node]
    assert ups == pytest.approx([ups[0], 4 * ups[0], 16 * ups[0]])
    enough = [predict(machine.changed({"cores": 64}), job).wait for job in one_node]
    assert enough == pytest.approx([enough[0], enough[0] / 4, enough[0] / 16])


def test_the_server_waits_for_training_or_is_the_limit_itself() -> None:
    trains_long = predict(CLUSTER, replace(LARGE, compute=1000.0))
    assert trains_long.total == pytest.approx(4 * 1000.0, rel=0.05)
    # Four turns of 64 workers; updates of the first turn come after one client's time, then the server is always busy.
    trains_short = predict(CLUSTER, replace(LARGE, compute=1e-3))
    assert trains_short.wait == pytest.approx(1e-3)


def test_messages_of_the_servers_own_cost_as_many_times_theta() -> None:
    far = replace(LARGE, ranks_per_node=1)
    p2p, each = (predict(CLUSTER, replace(far, down=down)).down for down in ("p2p", "p2p-per-client"))
    assert p2p == pytest.approx(64 * far.theta_bytes * CLUSTER.link, rel=1e-2)
    assert each == pytest.approx(256 * far.theta_bytes * CLUSTER.link, rel=1e-2)
    assert predict(CLUSTER, far).down == pytest.approx(7 * far.theta_bytes * CLUSTER.link, rel=1e-2)


def test_a_fit_finds_the_machine_that_made_the_rounds() -> None:
    true = CLUSTER.changed({"cores": 2, "copy": 3e-10, "spread": 4e-10, "combine": 5e-10, "own_add": 7e-10})
    jobs = [
        Job(W, m * W, b, exchange, ranks_per_node=9)
        for W in (1, 2, 4, 8) for m in (1, 4) for b in (4, 2**20, 2**24) for exchange in EXCHANGES
    ]  # fmt: skip
    rounds = [Measured(job, predict(true, job).total) for job in jobs]
    # One round in eight was disturbed: the least mean error does not follow it.
    disturbed = [replace(each, seconds=3 * each.seconds) if k % 8 == 3 else each for k, each in enumerate(rounds)]
    known = true.changed(dict.fromkeys(FITTED, 1.0))
    for given in (rounds, disturbed):
        found, assumed = fit(known, given)
        assert assumed == []
        for each in rounds:
            assert predict(found, each.job).total == pytest.approx(each.seconds, rel=0.02)
    elsewhere = replace(jobs[0], workers=8, m=500, theta_bytes=10**8)
    assert predict(fit(known, rounds)[0], elsewhere).total == pytest.approx(predict(true, elsewhere).total, rel=0.02)


def test_a_fit_leaves_alone_what_it_does_not_see() -> None:
    jobs = [Job(W, 2 * W, b, "reduced", ranks_per_node=1) for W in (1, 2) for b in (4, 2**24)]
    _, assumed = fit(CLUSTER, [Measured(job, 2 * total(CLUSTER, job)) for job in jobs])
    assert assumed == ["update", "crowding", "copy", "spread"]


def test_more_workers_help_until_the_server_is_the_limit() -> None:
    at = turn(CLUSTER, replace(LARGE, m=4096, ranks_per_node=1))
    s = 400e6 * (CLUSTER.link + CLUSTER.add)
    # κ/s workers deliver as fast as the server takes; the model's are 2 % of a round more or less.
    assert keeps_up(CLUSTER, replace(LARGE, ranks_per_node=1)) == int(LARGE.compute / (s + CLUSTER.update))
    assert at.workers == pytest.approx(LARGE.compute / s, rel=0.15)
    assert at.limit == "the server's adding"
    slow_link = CLUSTER.changed({"link": 1 / 1e9})
    assert turn(slow_link, replace(LARGE, m=4096, ranks_per_node=1)).limit == "the server's link"
    trains_long = turn(CLUSTER, replace(LARGE, compute=1000.0))
    assert (trains_long.workers, trains_long.limit) == (LARGE.m, "training")


def test_advice_turns_where_the_predicted_times_cross() -> None:
    job = replace(LARGE, m=64, compute=30.0)
    at = crossing(CLUSTER, job)
    assert at is not None
    assert at > 1
    for W in range(1, 65):
        here = replace(job, workers=W)
        gathered, reduced = (total(CLUSTER, replace(here, exchange=exchange)) for exchange in EXCHANGES)
        if at - 1 <= W:
            assert (reduced < gathered) == (at <= W)
        assert advice(CLUSTER, here).startswith("Choose reduced") == (gathered > 1.1 * reduced)
    assert crossing(CLUSTER, replace(job, workers=at - 1)) is None


def test_counts_end_where_asked() -> None:
    assert list(counts(1)) == [1]
    assert list(counts(5)) == [1, 2, 3, 4, 5]
    many = list(counts(10**6))
    assert many[-1] == 10**6
    assert len(many) < 3000
    assert many == sorted(set(many))


def test_a_machine_survives_json_and_refuses_nonsense() -> None:
    assert Machine.from_dict(json.loads(json.dumps(CLUSTER.as_dict()))) == CLUSTER
    for wrong in (None, {}, {**CLUSTER.as_dict(), "more": 1.0}, {**CLUSTER.as_dict(), "link": -1.0},
                  {**CLUSTER.as_dict(), "add": float("nan")}, {**CLUSTER.as_dict(), "add": "1"},
                  {**CLUSTER.as_dict(), "cores": 0}, {**CLUSTER.as_dict(), "cores": 1.5}):  # fmt: skip
        with pytest.raises(ConfigError):
            Machine.from_dict(wrong)


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"m": 0}, {"theta_bytes": 0}, {"exchange": "x"}, {"down": "x"}, {"compute": -1.0}]
)
def test_a_job_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(LARGE, **wrong)  # type: ignore[arg-type]
