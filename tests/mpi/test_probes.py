"""What doctor and bench measure with: every size to every worker, seats of all ranks, all paths bring everything."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from fedmpi.comm.bandwidth import LEAST_ECHOES, arithmetic, first_ranks, message_overhead, probe_lines
from fedmpi.comm.bench import NOT_ADDED, PER_CLIENT, PICKLED, RAW, REDUCE, REDUCED, fedmpi_paths, race, take_turn
from fedmpi.comm.hardware import own_cores, seats
from fedmpi.comm.world import connect
from fedmpi.job.noop_rounds import SMALL, UPDATES, rehearse_all
from fedmpi.scale.model import EXCHANGES
from fedmpi.server import ExactSum
from tests.mpi.conftest import everywhere

pytestmark = pytest.mark.mpi


def test_a_line_to_every_worker_at_every_size() -> None:
    world = connect()
    lines = probe_lines(world, sizes=(8, 4096, 2**20))
    expected = list(range(1, world.size)) if world.is_server else []
    passed = [line.rank for line in lines] == expected
    for line in lines:
        passed = passed and [echo.size for echo in line.echoes] == [8, 4096, 2**20]
        passed = passed and all(echo.seconds > 0 and echo.count >= LEAST_ECHOES for echo in line.echoes)
        # A message of 1 MB takes longer than one of 8 B, on any transport.
        passed = passed and line.echoes[2].seconds > line.echoes[0].seconds
        # All ranks are on this host; nothing but shared memory or the loopback interface can have carried it.
        passed = passed and line.carrier in ("no network interface", "TCP over lo", "not known")
    assert everywhere(passed)


def test_seats_of_all_ranks_reach_the_server() -> None:
    world = connect()
    taken = seats(world, ["cuda:0"] * world.rank)
    passed = [seat.rank for seat in taken] == (list(range(world.size)) if world.is_server else [])
    # All ranks are on this host.
    passed = passed and [(seat.node, seat.local_rank) for seat in taken] == [(0, seat.rank) for seat in taken]
    passed = passed and all(len(seat.devices) == seat.rank for seat in taken)
    passed = passed and all(seat.host == platform.node() and seat.cores for seat in taken)
    passed = passed and (not taken or taken[0].cores == own_cores())
    assert everywhere(passed)


@pytest.mark.mpi(min_size=2)
def test_every_path_of_the_bench_finishes_its_turns() -> None:
    world = connect()
    results = list(race(world, sizes=[4096, 2**16], updates=3, turns=2))
    passed = len(results) == (12 if world.is_server else 0)
    if results:
        passed = {result.path for result in results} == {RAW, REDUCE, PER_CLIENT, NOT_ADDED, REDUCED, PICKLED}
        passed = passed and all(result.updates == 3 * (world.size - 1) and result.turns == 2 for result in results)
        passed = passed and all(result.up > 0 and result.down > 0 for result in results)
    assert everywhere(passed)


@pytest.mark.mpi(min_size=2)
def test_fedmpis_paths_add_or_do_not_as_they_say() -> None:
    world = connect()
    total, sums = ExactSum(1000), {}
    for path in fedmpi_paths(world, 1000, 2, total):
        take_turn(world, path)
        sums[path.name] = total.total.copy()
    passed = True
    if world.is_server:
        whole = 2.0**36 * 2 * (world.size - 1)  # every update is all ones, with ω = 1
        passed = bool((sums[PER_CLIENT] == whole).all() and (sums[REDUCED] == whole).all())
        passed = passed and not np.any(sums[NOT_ADDED])
    assert everywhere(passed)


def test_a_part_of_the_ranks_measures_while_the_others_sleep() -> None:
    world = connect()
    passed = True
    for size in range(1, world.size + 1):
        with first_ranks(world, size) as part:
            passed = passed and (part is not None) == (world.rank < size)
            passed = passed and (part is None or (part.rank, part.size) == (world.rank, size))
    assert everywhere(passed)


def test_the_server_finds_what_a_message_and_its_arithmetic_cost() -> None:
    world = connect()
    overhead = message_overhead(world)
    passed = (overhead > 0) == (world.is_server and world.size > 1)
    add, step = arithmetic(2**20, 2)
    assert everywhere(passed and add > 0 and step > 0)


def test_rehearsed_rounds_are_those_of_the_job() -> None:
    world = connect()
    measured = rehearse_all(world, seats(world, []), largest=SMALL)
    workers = {1: [], 2: [1], 3: [1, 2], 4: [1, 2, 3]}[world.size] if world.is_server else []
    jobs = [(W, W * each, exchange) for W in workers for each in UPDATES[SMALL] for exchange in EXCHANGES]
    passed = [(each.job.workers, each.job.m, each.job.exchange) for each in measured] == jobs
    assert everywhere(passed and all(each.seconds > 0 for each in measured))
