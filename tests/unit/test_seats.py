"""What doctor complains of, on hand-made seats."""

from __future__ import annotations

from dataclasses import replace

from fedmpi.comm.bandwidth import carrier
from fedmpi.comm.hardware import RankHardware, slowdowns, threads_for


def seat(rank: int, host: str, *cores: int) -> RankHardware:
    return RankHardware(rank, host, node=0, local_rank=rank, devices=(), mask=None, cores=cores, host_cores=4)


def test_room_for_everyone() -> None:
    assert slowdowns([seat(0, "a", 0, 1), seat(1, "a", 2, 3), seat(2, "b", 0)], threads=1) == []


def test_more_threads_than_cores_is_said_per_host() -> None:
    taken = [seat(0, "a", 0, 1), seat(1, "a", 0, 1), seat(2, "b", 0, 1, 2, 3)]
    (sentence,) = slowdowns(taken, threads=2)
    assert sentence.startswith("a: 2 ranks × 2 threads on 2 cores")
    assert "hostfile" in sentence


def test_two_ranks_bound_to_one_core() -> None:
    taken = [seat(0, "a", 0), seat(1, "a", 1), seat(2, "a", 1), seat(3, "b", 1)]
    bound, crowded = slowdowns(taken, threads=1)
    assert bound.startswith("a: ranks 1, 2 are bound to core 1 together")
    assert "--bind-to none" in bound
    assert crowded.startswith("a: 3 ranks × 1 thread on 2 cores")


def test_threads_are_what_the_fullest_host_has_for_each_rank() -> None:
    wide, shared = [seat(0, "a", *range(8)), seat(1, "a", *range(8))], [seat(k, "b", *range(6)) for k in (2, 3, 4)]
    assert threads_for(wide) == 4
    assert threads_for(wide + shared) == 2
    assert threads_for([seat(0, "a", 0, 1), seat(1, "a", 2, 3)]) == 2  # bound to cores of their own
    assert threads_for([seat(k, "a", 0) for k in range(3)]) == 1


def test_what_slurm_grants_comes_first() -> None:
    taken = [replace(seat(k, "a", *range(16)), granted=granted) for k, granted in enumerate((4, 3))]
    assert threads_for(taken) == 3


def test_the_carrier_is_the_interface_that_counted_the_bytes() -> None:
    before = {"lo": 100, "eth0": 0}
    assert carrier(before, {"lo": 150, "eth0": 1_040_000}, 1_000_000) == "TCP over eth0"
    assert carrier(before, {"lo": 150, "eth0": 2_000}, 1_000_000) == "no network interface"
    assert carrier({}, {}, 1_000_000) == "not known"
