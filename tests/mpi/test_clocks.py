"""Clocks compared over MPI: ranks of one host share a clock, so what is measured must hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.comm.clocks import ClockMap, measure
from fedmpi.comm.world import connect
from tests.mpi.conftest import everywhere

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_true_offset_is_within_the_stated_error(shift: float) -> None:
    world = connect()
    world.clock_shift = shift * world.rank
    before = world.now()
    offsets = measure(world, rounds=20)
    passed = (offsets is None) != world.is_server
    if offsets is not None:
        truth = shift * np.arange(world.size)
        passed = bool((np.abs(offsets.offset - truth) <= offsets.error + 1e-9).all())
        passed = passed and offsets.offset[0] == offsets.error[0] == 0.0
        passed = passed and bool((offsets.error[1:] > 0).all())
        passed = passed and bool(((offsets.at >= before) & (offsets.at <= world.now())).all())
    assert everywhere(passed)


def test_a_shifted_ranks_times_are_mapped_back() -> None:
    world = connect()
    world.clock_shift = 3.0 * world.rank
    clocks = ClockMap(world.size)
    shown = np.empty(1)
    moments = np.empty((world.size, 1)) if world.is_server else None
    passed = True
    for _ in range(2):
        offsets = measure(world, rounds=20)
        world.comm.Barrier()
        began = world.now()
        world.comm.Barrier()
        shown[0] = world.now()
        world.comm.Gather(shown, moments, root=0)
        if offsets is None or moments is None:
            continue
        clocks.add(offsets)
        for rank, (t,) in enumerate(moments):
            # Every rank looked at its clock after the server entered the barrier and before the gather was over.
            mapped, error = clocks.to_server(rank, t), clocks.error(rank, t)
            passed = passed and began - error <= mapped <= world.now() + error
    assert everywhere(passed)
