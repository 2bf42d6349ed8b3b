"""Clocks compared over MPI: ranks of one host share a clock, so what is measured must hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.comm.clocks import ClockMap, measure
from fedmpi.comm.world import connect
from tests.support.ranks import fail_together

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_true_offset_is_within_the_stated_error(shift: float) -> None:
    world = connect()
    world.clock_shift = shift * world.rank
    before = world.now()
    offsets = measure(world, rounds=20)
    with fail_together():
        assert (offsets is None) != world.is_server
        if offsets is not None:
            truth = shift * np.arange(world.size)
            assert (np.abs(offsets.offset - truth) <= offsets.error + 1e-9).all()
            assert offsets.offset[0] == offsets.error[0] == 0.0
            assert (offsets.error[1:] > 0).all()
            assert ((offsets.at >= before) & (offsets.at <= world.now())).all()


def test_a_shifted_ranks_times_are_mapped_back() -> None:
    world = connect()
    world.clock_shift = 3.0 * world.rank
    clocks = ClockMap(world.size)
    shown = np.empty(1)
    moments = np.empty((world.size, 1)) if world.is_server else None
    for _ in range(2):
        offsets = measure(world, rounds=20)
        world.comm.Barrier()
        began = world.now()
        world.comm.Barrier()
        shown[0] = world.now()
        world.comm.Gather(shown, moments, root=0)
        with fail_together():
            if offsets is not None and moments is not None:
                clocks.add(offsets)
                for rank, (t,) in enumerate(moments):
                    # Every rank read its clock after the server entered the barrier and before the gather was over.
                    mapped, error = clocks.to_server(rank, t), clocks.error(rank, t)
                    assert began - error <= mapped <= world.now() + error, f"clock of rank {rank}"
