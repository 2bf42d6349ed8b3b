"""`client.device = "auto"` as it is started, where there is no device but the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedmpi.models.device import visible_devices
from fedmpi.record import open_record
from tests.support.commands import Finished, sentences


def test_auto_without_devices_is_the_cpu(
    fedmpi: Callable[..., Finished], fedmpi_here: Callable[..., Finished], tmp_path: Path
) -> None:
    if visible_devices():
        pytest.skip("this machine has CUDA devices: auto does not mean the CPU here")
    assert fedmpi_here("run", "quadratic", "-o", "alone.h5").returncode == 0
    done = fedmpi("run", "quadratic", "-s", "client.device=auto", "-o", "auto.h5", ranks=3)
    assert done.returncode == 0, done.stderr
    assert "0      none (server)" in done.stderr
    assert "1, 2   cpu" in done.stderr
    assert len(sentences(done, "note: ")) == (len(os.sched_getaffinity(0)) < 3)
    alone, auto = open_record(tmp_path / "alone.h5"), open_record(tmp_path / "auto.h5")
    assert (alone.theta == auto.theta).all()
    assert auto.config.client.device == "auto"
    assert auto.ranks["device"].tolist() == [b"", b"cpu", b"cpu"]
    assert list(auto.attributes["devices"]) == ["cpu"]
