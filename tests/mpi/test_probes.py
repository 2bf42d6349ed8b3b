"""What doctor and bench measure with: every size to every worker, seats of all ranks, all paths bring everything."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from fedmpi.comm.bandwidth import LEAST_ECHOES, arithmetic, first_ranks, message_overhead, probe_lines
from fedmpi.comm.bench import NOT_ADDED, PER_CLIENT, PICKLED, RAW, REDUCE, REDUCED, fedmpi_paths, race, take_turn
from fedmpi.comm.hardware import gather_hardware, own_cores
from fedmpi.comm.world import connect
from fedmpi.job.noop_rounds import SMALL, UPDATES, measure_machine
from fedmpi.scale.model import EXCHANGES
from fedmpi.server import ExactSum
from tests.support.ranks import fail_together

pytestmark = pytest.mark.mpi


def test_a_line_to_every_worker_at_every_size() -> None:
    world = connect()
    lines = probe_lines(world, sizes=(8, 4096, 2**20))
    expected = list(range(1, world.size)) if world.is_server else []
    with fail_together():
        assert [line.rank for line in lines] == expected
        for line in lines:
            assert [echo.size for echo in line.echoes] == [8, 4096, 2**20]
            assert all(echo.seconds > 0 and echo.count >= LEAST_ECHOES for echo in line.echoes)
            # No transport moves 1 MB at more than 1 TB/s.
            assert line.echoes[2].seconds > 2**20 / 1e12
            # All ranks are on this host; nothing but shared memory or the loopback interface can have carried it.
            assert line.carrier in ("no network interface", "TCP over lo", "not known")


def test_seats_of_all_ranks_reach_the_server() -> None:
    world = connect()
    taken = gather_hardware(world, ["cuda:0"] * world.rank)
    with fail_together():
        assert [seat.rank for seat in taken] == (list(range(world.size)) if world.is_server else [])
        # All ranks are on this host.
        assert [(seat.node, seat.local_rank) for seat in taken] == [(0, seat.rank) for seat in taken]
        assert all(len(seat.devices) == seat.rank for seat in taken)
        assert all(seat.host == platform.node() and seat.cores for seat in taken)
        assert not taken or taken[0].cores == own_cores()


@pytest.mark.mpi(min_size=2)
def test_every_path_of_the_bench_finishes_its_turns() -> None:
    world = connect()
    results = list(race(world, sizes=[4096, 2**16], updates=3, turns=2))
    with fail_together():
        assert len(results) == (12 if world.is_server else 0)
        if results:
            assert {result.path for result in results} == {RAW, REDUCE, PER_CLIENT, NOT_ADDED, REDUCED, PICKLED}
            assert all(result.updates == 3 * (world.size - 1) and result.turns == 2 for result in results)
            assert all(result.up > 0 and result.down > 0 for result in results)


@pytest.mark.mpi(min_size=2)
def test_fedmpis_paths_add_or_do_not_as_they_say() -> None:
    world = connect()
    total, sums = ExactSum(1000), {}
    for path in fedmpi_paths(world, 1000, 2, total):
        take_turn(world, path)
        sums[path.name] = total.total.copy()
    with fail_together():
        if world.is_server:
            whole = 2.0**36 * 2 * (world.size - 1)  # every update is all ones, with ω = 1
            assert (sums[PER_CLIENT] == whole).all()
            assert (sums[REDUCED] == whole).all()
            assert not np.any(sums[NOT_ADDED])


def test_a_part_of_the_ranks_measures_while_the_others_sleep() -> None:
    world = connect()
    for size in range(1, world.size + 1):
        with first_ranks(world, size) as part:
            place = None if part is None else (part.rank, part.size)
        with fail_together():
            assert place == ((world.rank, size) if world.rank < size else None)


def test_the_server_finds_what_a_message_and_its_arithmetic_cost() -> None:
    world = connect()
    overhead = message_overhead(world)
    with fail_together():
        assert (overhead > 0) == (world.is_server and world.size > 1)
        add, step = arithmetic(2**20, 2)
        assert add > 0
        assert step > 0


def test_rehearsed_rounds_are_those_of_the_job() -> None:
    world = connect()
    measured = measure_machine(world, gather_hardware(world, []), largest=SMALL)
    workers = {1: [], 2: [1], 3: [1, 2], 4: [1, 2, 3]}[world.size] if world.is_server else []
    jobs = [(W, W * each, exchange) for W in workers for each in UPDATES[SMALL] for exchange in EXCHANGES]
    with fail_together():
        assert [(each.job.workers, each.job.m, each.job.exchange) for each in measured] == jobs
        assert all(each.seconds > 0 for each in measured)
