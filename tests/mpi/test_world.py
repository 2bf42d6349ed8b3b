"""Who is there, and how a step that rank 0 takes first reaches the others."""

from __future__ import annotations

import numpy as np
import pytest

from fedmpi.comm.messages import Action, Command
from fedmpi.comm.world import FailedOnServer, connect
from fedmpi.errors import ConfigError
from tests.support.ranks import fail_together

pytestmark = pytest.mark.mpi


def test_text_of_rank_0_reaches_all_ranks() -> None:
    world = connect()
    text = world.from_server(lambda: f"θ from {world.rank}")
    with fail_together():
        assert text == "θ from 0"


def test_error_on_rank_0_is_raised_on_all_ranks_with_its_exit_code() -> None:
    world = connect()

    def fail() -> str:
        raise ConfigError("no")

    caught = None
    try:
        world.from_server(fail)
    except (ConfigError, FailedOnServer) as error:
        caught = error
    with fail_together():
        assert isinstance(caught, ConfigError if world.is_server else FailedOnServer)
        assert caught.exit_code == 2


def test_gathered_texts_are_in_rank_order() -> None:
    world = connect()
    texts = world.gather_text(f"rank {world.rank} é")
    with fail_together():
        assert texts == ([f"rank {r} é" for r in range(world.size)] if world.is_server else [])


def test_shared_array_is_rank_0s() -> None:
    world = connect()
    array = np.full(5, world.rank, np.int32)
    world.broadcast(array)
    with fail_together():
        assert array.tolist() == [0] * 5


def test_server_works_only_alone_or_when_told() -> None:
    world = connect()
    alone = world.size == 1
    with fail_together():
        assert world.workers(False) == ([0] if alone else list(range(1, world.size)))
        assert world.workers(True) == list(range(world.size))


def test_a_command_survives_the_wire() -> None:
    world = connect()
    sent = Command(Action.TRAIN, 4, 2**62, 7, 3, 2, np.array([2, 5]), np.array([0.25, 1e-300]))
    message = sent.encode()
    world.comm.Bcast(message, root=0)
    with fail_together():
        got = Command.decode(message)
        assert (got.action, got.seed, got.t, got.exponent, got.theta_copies) == (Action.TRAIN, 2**62, 7, 3, 2)
        assert got.clients.tolist() == [2, 5]
        assert got.omega.tolist() == [0.25, 1e-300]
