"""The cost model: its limits, what it grows with, what it is fitted to, and where its advice turns."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedmpi.errors import ConfigError
from fedmpi.scale import CLUSTER, JobShape, Machine, predict
from fedmpi.scale.advice import choose_exchange, counts, crossover, saturation, server_load
from fedmpi.scale.fit import FIXED, Measured, fit
from fedmpi.scale.machine import PER_BYTE
from fedmpi.scale.measurement import fit_machine, read_machine, typical_round

EXCHANGES = ("per-client", "reduced")
RATES = CLUSTER.rates[-1]
LARGE = JobShape(workers=64, m=256, theta_bytes=400_000_000, ranks_per_node=4, compute=2.0)


def some_jobs(count: int = 200) -> list[JobShape]:
    rng = random.Random(7)
    return [
        JobShape(rng.randint(1, 300), rng.randint(1, 500), rng.randint(4, 10**9), exchange, down, rng.randint(1, 40),
            rng.choice([0.0, rng.random()]))
        for _ in range(count) for exchange in EXCHANGES for down in ("bcast", "p2p", "p2p-per-client")
    ]  # fmt: skip


def with_rates(machine: Machine, **changes: float) -> Machine:
    return machine.changed({"rates": tuple(each.changed(changes) for each in machine.rates)})


def total(machine: Machine, job: JobShape) -> float:
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
        slower = {name: CLUSTER.changed({name: 2 * getattr(CLUSTER, name)}) for name in ("latency", "link", *FIXED)}
        slower |= {name: with_rates(CLUSTER, **{name: 2 * getattr(RATES, name)}) for name in PER_BYTE}
        slower["cores"] = CLUSTER.changed({"cores": 1})
        for name, machine in slower.items():
            assert total(machine, job) >= total(CLUSTER, job) * (1 - 1e-12), name


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_down_and_fixed_grow_with_the_workers(exchange: str) -> None:
    found = [predict(CLUSTER, replace(LARGE, exchange=exchange, workers=W)) for W in (1, 2, 4, 8, 64, 1024)]
    for name in ("down", "fixed"):
        values = [getattr(phases, name) for phases in found]
        assert values == sorted(values)


def test_the_servers_link_carries_every_update() -> None:
    # One rank per node: all workers are far, and of large updates only the bytes count.
    job = JobShape(workers=1000, m=1000, theta_bytes=10**9, ranks_per_node=1)
    assert predict(CLUSTER, job).up == pytest.approx(1000 * 10**9 * CLUSTER.link, rel=2e-3)
    assert predict(CLUSTER, replace(job, workers=10)).up == pytest.approx(predict(CLUSTER, job).up)
    # All on one node: the server copies every one. Ranks that have no core of their own are in its way.
    one_node, enough = replace(job, ranks_per_node=1001), CLUSTER.changed({"cores": 1001})
    assert predict(enough, one_node).up == pytest.approx(1000 * 10**9 * RATES.copy, rel=2e-3)
    crowded = predict(enough.changed({"cores": 901}), one_node).up - predict(enough, one_node).up
    assert crowded == pytest.approx(1000 * 100 * CLUSTER.crowding)


def test_the_reduction_grows_as_the_depth_of_its_tree() -> None:
    bytes_only = CLUSTER.changed({"latency": 0.0, "overhead": 0.0})
    up = {
        W: predict(bytes_only, JobShape(W, 10**4, 10**9, "reduced", ranks_per_node=1)).up
        for W in (1, 3, 7, 8, 1023, 1024)
    }
    hop = 2 * 10**9 * (CLUSTER.link + RATES.combine)
    assert {W: round(seconds / hop) for W, seconds in up.items()} == {1: 1, 3: 2, 7: 3, 8: 4, 1023: 10, 1024: 11}


def test_ranks_beyond_the_cores_take_turns() -> None:
    machine = CLUSTER.changed({"cores": 2})
    one_node = [JobShape(W, 64, 10**8, "reduced", ranks_per_node=100, compute=1.0) for W in (2, 8, 32)]
    # Two cores do the work of 64 clients, whatever the number of workers.
    waits = [predict(machine, job).wait for job in one_node]
    assert waits == pytest.approx([waits[0]] * 3)
    assert waits[0] == pytest.approx(32 * (1 + 10**8 * RATES.own_add), rel=1e-3)
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


def test_rates_lie_between_those_of_the_sizes_that_are_known() -> None:
    machine = CLUSTER.changed({"rates": (replace(RATES, size=10**4, add=1e-10), replace(RATES, size=10**8, add=3e-10))})
    sizes = (4, 10**4, 10**6, 10**7, 10**8, 10**12)
    assert [machine.at(size).add * 1e10 for size in sizes] == pytest.approx([1, 1, 2, 2.5, 3, 3])
    assert all(machine.at(size) == replace(RATES, size=size, add=machine.at(size).add) for size in sizes)
    assert machine.at(10**6).size == 10**6


def measured(machine: Machine, jobs: list[JobShape]) -> list[Measured]:
    return [Measured(job, predict(machine, job).total) for job in jobs]


def jobs_of(workers: tuple[int, ...]) -> list[JobShape]:
    return [
        JobShape(W, m * W, b, exchange, ranks_per_node=max(workers) + 1)
        for W in workers for m in (1, 4) for b in (4, 2**20, 2**24, 2**26) for exchange in EXCHANGES
    ]  # fmt: skip


def test_a_fit_finds_the_machine_that_made_the_rounds() -> None:
    cached = replace(RATES, size=2**20, copy=3e-10, spread=4e-10, combine=5e-10, own_add=7e-10)
    costs = {name: 2 * value for name, value in cached.per_byte().items()}
    rates = (cached, *(cached.changed({**costs, "size": size}) for size in (2**24, 2**26)))
    true = CLUSTER.changed({"cores": 2, "rates": rates})
    rounds = measured(true, jobs_of((1, 2, 4, 8)))
    # One round in seven was disturbed: the least mean error does not follow it.
    disturbed = [replace(each, seconds=3 * each.seconds) if k % 7 == 3 else each for k, each in enumerate(rounds)]
    known = with_rates(true.changed({name: 3 * getattr(true, name) for name in FIXED}), **RATES.per_byte())
    for given in (rounds, disturbed):
        found, assumed = fit(known, given)
        assert assumed == []
        assert [each.size for each in found.rates] == [2**20, 2**24, 2**26]
        for each in rounds:
            assert predict(found, each.job).total == pytest.approx(each.seconds, rel=0.03)
    elsewhere = JobShape(8, 500, 10**8, ranks_per_node=9)
    assert total(fit(known, rounds)[0], elsewhere) == pytest.approx(total(true, elsewhere), rel=0.03)


def test_what_rounds_show_only_together_stays_near_what_was_known() -> None:
    # On one node with two workers, every update is copied and added: only the sum of the two shows.
    true = CLUSTER.changed({"cores": 2})
    known = with_rates(true, copy=1.5 * RATES.copy, spread=1.5 * RATES.spread)
    (*_, found) = fit(known, measured(true, jobs_of((1, 2))))[0].rates
    assert found.copy + found.add == pytest.approx(RATES.copy + RATES.add, rel=0.02)
    assert found.add == pytest.approx(RATES.add, rel=0.2)
    assert found.spread + found.step == pytest.approx(RATES.spread + RATES.step, rel=0.05)
    assert found.step == pytest.approx(RATES.step, rel=0.2)


def test_a_fit_leaves_alone_what_it_does_not_see() -> None:
    jobs = [JobShape(W, 2 * W, b, "reduced", ranks_per_node=1) for W in (1, 2) for b in (4, 2**24)]
    found, assumed = fit(CLUSTER, [Measured(job, 2 * total(CLUSTER, job)) for job in jobs])
    assert assumed == ["update", "crowding", "copy", "spread", "add"]
    assert (found.update, found.rates[0].copy, found.rates[0].add) == (CLUSTER.update, RATES.copy, RATES.add)
    # Without rounds of a larger θ, nothing is found out about bytes.
    few, assumed = fit(CLUSTER, [Measured(job, 2 * total(CLUSTER, job)) for job in jobs if job.theta_bytes == 4])
    assert few.rates == CLUSTER.rates
    assert assumed == ["update", "crowding", *PER_BYTE]


def test_a_machine_is_fitted_to_what_doctor_measures() -> None:
    rounds = measured(CLUSTER, jobs_of((1, 2, 4)))
    arithmetic = dict.fromkeys((2**20, 2**24, 2**26), (RATES.add, RATES.step))
    alone = fit_machine(rounds, overhead=3e-6, cores=2, arithmetic=arithmetic, far=[])
    assert (alone.machine.overhead, alone.machine.cores) == (3e-6, 2)
    assert (alone.machine.latency, alone.machine.link) == (CLUSTER.latency, CLUSTER.link)
    assert alone.assumed[-2:] == ("latency", "link")
    # The slower of two lines counts: 10 µs minus two overheads; 40 ms for 4 MB.
    far = [[(8, 4e-6), (4_000_000, 2e-2)], [(8, 1e-5), (1000, 2e-5), (4_000_000, 4e-2 + 1e-5)]]
    linked = fit_machine(rounds, overhead=3e-6, cores=2, arithmetic=arithmetic, far=far)
    assert linked.machine.latency == pytest.approx(4e-6)
    assert linked.machine.link == pytest.approx(1e-8)
    assert not {"latency", "link"} & set(linked.assumed)


def test_doctors_file_is_read_or_refused_with_a_sentence(tmp_path: Path) -> None:
    ranks = [{"node": 0}, {"node": 0}, {"node": 2}]
    content = {"ranks": ranks, "machine": CLUSTER.as_dict(), "machine_assumed": ["link"]}
    file = tmp_path / "found.json"
    file.write_text(json.dumps(content))
    found = read_machine(file)
    assert (found.machine, found.assumed, found.ranks_per_node) == (CLUSTER, ("link",), 2)
    for wrong in ("", "[]", "[" * 100_000, *(json.dumps({**content, **change}) for change in (
        {"machine": None}, {"machine": {}}, {"ranks": []}, {"ranks": 3}, {"machine_assumed": None},
    ))):  # fmt: skip
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"mpirun -n 3 fedmpi doctor --json found\.json"):
            read_machine(file)


def test_the_round_of_a_record_is_its_mean_n_and_median_training_time() -> None:
    assert typical_round(np.array([4, 4, 6]), np.array([1.0, 3.0, 100.0])) == (5, 3.0)
    assert typical_round(np.array([0, 0, 1]), np.array([2.0])) == (1, 2.0)


def test_an_infinitely_fast_link_serves_any_number_of_workers() -> None:
    assert server_load(CLUSTER.changed({"link": 0.0}), LARGE).link_serves is None
    far = replace(LARGE, ranks_per_node=1)
    assert server_load(CLUSTER, far).link_serves == int(LARGE.compute / (LARGE.theta_bytes * CLUSTER.link))
    load = server_load(CLUSTER, far)
    assert load.round == pytest.approx(far.m * (load.receive + load.add))


def test_more_workers_help_until_the_server_is_the_limit() -> None:
    at = saturation(CLUSTER, replace(LARGE, m=4096, ranks_per_node=1))
    s = 400e6 * (CLUSTER.link + RATES.add)
    # κ/s workers deliver as fast as the server takes; the model's are 2 % of a round more or less.
    assert server_load(CLUSTER, replace(LARGE, ranks_per_node=1)).serves == int(LARGE.compute / (s + CLUSTER.update))
    assert at.workers == pytest.approx(LARGE.compute / s, rel=0.15)
    assert at.limit == "the server's adding"
    slow_link = CLUSTER.changed({"link": 1 / 1e9})
    assert saturation(slow_link, replace(LARGE, m=4096, ranks_per_node=1)).limit == "the server's link"
    trains_long = saturation(CLUSTER, replace(LARGE, compute=1000.0))
    assert (trains_long.workers, trains_long.limit) == (LARGE.m, "training")


def test_advice_turns_where_the_predicted_times_cross() -> None:
    job = replace(LARGE, m=64, compute=30.0)
    at = crossover(CLUSTER, job)
    assert at is not None
    assert at > 1
    for W in range(1, 65):
        here = replace(job, workers=W)
        gathered, reduced = (total(CLUSTER, replace(here, exchange=exchange)) for exchange in EXCHANGES)
        if at - 1 <= W:
            assert (reduced < gathered) == (at <= W)
        assert choose_exchange(CLUSTER, here).startswith("Choose reduced") == (gathered > 1.1 * reduced)
    assert crossover(CLUSTER, replace(job, workers=at - 1)) is None


def test_counts_end_where_asked() -> None:
    assert list(counts(1)) == [1]
    assert list(counts(5)) == [1, 2, 3, 4, 5]
    many = list(counts(10**6))
    assert many[-1] == 10**6
    assert len(many) < 3000
    assert many == sorted(set(many))


def test_a_machine_survives_json_and_refuses_nonsense() -> None:
    assert Machine.from_dict(json.loads(json.dumps(CLUSTER.as_dict()))) == CLUSTER
    rates = CLUSTER.as_dict()["rates"][0]
    for wrong in (None, {}, {**CLUSTER.as_dict(), "more": 1.0}, *(
        {**CLUSTER.as_dict(), **change} for change in (
            {"link": -1.0}, {"link": float("nan")}, {"link": "1"}, {"cores": 0}, {"cores": 1.5}, {"rates": []},
            {"rates": None}, {"rates": [rates, rates]}, {"rates": [{**rates, "size": 0}]}, {"rates": [{"size": 1}]},
            {"rates": [{**rates, "add": float("inf")}]}, {"rates": 3},
        )
    )):  # fmt: skip
        with pytest.raises(ConfigError):
            Machine.from_dict(wrong)


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"m": 0}, {"theta_bytes": 0}, {"exchange": "x"}, {"down": "x"}, {"compute": -1.0}]
)
def test_a_job_refuses_nonsense(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        replace(LARGE, **wrong)  # type: ignore[arg-type]
