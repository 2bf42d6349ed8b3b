"""Devices that are made up, shared out among ranks that are real."""

from __future__ import annotations

import pytest

from fedmpi import native
from fedmpi.comm.world import connect
from fedmpi.config import Config
from fedmpi.job import devices
from tests.support.ranks import fail_together

pytestmark = pytest.mark.mpi
DEVICES = ["cuda:0", "cuda:1"]


def allocate(monkeypatch: pytest.MonkeyPatch, device: str) -> tuple[int, int, devices.Allocation, Config]:
    """(rank, size, allocation, config) of a job whose ranks see two devices, in place of torch's."""
    monkeypatch.setattr(devices, "visible_devices", lambda: DEVICES)
    world, config = connect(), Config.load("quadratic", {"client.device": device})
    return world.rank, world.size, devices.allocate(world, config), config


def test_every_rank_learns_its_device_and_rank_0_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    rank, size, found, config = allocate(monkeypatch, "auto")
    expected = ["", "cuda:0", "cuda:1", "cuda:0"][:size] if size > 1 else ["cuda:0"]
    with fail_together():
        assert found.devices == expected
        if found.devices[rank]:
            assert found.for_rank(config, rank).client.device == expected[rank]
        said = "\n".join(found.notes)
        if rank:
            assert said == ""
        else:
            assert "0  " in said
            assert "cuda:0 (CUDA_VISIBLE_DEVICES=4,6)" in said


def test_each_rank_takes_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under Slurm's --gpus-per-task."""
    monkeypatch.setattr("tests.mpi.test_seating.DEVICES", ["cuda:0"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", str(connect().rank))
    rank, size, found, _ = allocate(monkeypatch, "auto")
    with fail_together():
        assert found.devices == (["", *["cuda:0"] * (size - 1)] if size > 1 else ["cuda:0"])
        said = "\n".join(found.notes)
        assert rank > 0 or all(f"CUDA_VISIBLE_DEVICES={k}" in said for k in range(size > 1, size))


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_a_named_device_is_left_alone(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    rank, size, found, config = allocate(monkeypatch, device)
    with fail_together():
        assert found.devices == (["", *[device] * (size - 1)] if size > 1 else [device])
        assert found.for_rank(config, size - 1) == config
        shown = any(remark.startswith("host") for remark in found.notes)
        assert shown == (rank == 0 and device != "cpu")


def test_loops_in_c_that_one_rank_lacks_are_used_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = connect()
    has_them = native.native_available()
    monkeypatch.setattr("fedmpi.comm.hardware.native_installed", lambda: has_them and world.rank != world.size - 1)
    found = devices.allocate(world, Config.load("quadratic"))
    with fail_together():
        assert not native.native_available()
        said = any("no compiled loops on" in remark for remark in found.notes)
        assert said == (has_them and world.rank == 0 and world.size > 1)
    monkeypatch.undo()
    # The next job of the process has them again, if it can; not if it goes on with what was begun without.
    devices.allocate(world, Config.load("quadratic"))
    with fail_together():
        assert native.native_available() == has_them
    found = devices.allocate(world, Config.load("quadratic"), devices.EarlierSettings(threads=1, compiled=False))
    used = native.native_available()
    native.use_native(True)
    with fail_together():
        said = any("so far were computed without" in remark for remark in found.notes)
        assert not used
        assert said == (has_them and world.rank == 0)
