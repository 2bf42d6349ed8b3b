"""A checkpoint comes back as it was written; a damaged one is named, whatever is wrong with it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from fedmpi import Config
from fedmpi.errors import RecordError
from fedmpi.record import Checkpoint, checkpoint_path, read_checkpoint, write_checkpoint

RECORD = "run.h5"


@pytest.fixture
def written(tmp_path: Path) -> Checkpoint:
    theta = np.arange(50, dtype=np.float32)
    scheme = {"clients": np.array([1, 4]), "deltas": np.ones((2, 50), np.float32)}
    residuals = {"clients": np.array([3]), "left": np.full((1, 50), 0.5, np.float32)}
    checkpoint = Checkpoint(Config.load("quadratic"), 7, theta, scheme, residuals)
    write_checkpoint(tmp_path / RECORD, checkpoint)
    return checkpoint


def test_it_comes_back(tmp_path: Path, written: Checkpoint) -> None:
    found = read_checkpoint(tmp_path / RECORD)
    assert found is not None
    assert (found.config, found.t) == (written.config, 7)
    assert (found.theta == written.theta).all()
    for ours, theirs in ((written.scheme, found.scheme), (written.residuals, found.residuals)):
        assert {name: array.tolist() for name, array in ours.items()} == {k: a.tolist() for k, a in theirs.items()}
    assert [path.name for path in tmp_path.iterdir()] == [f"{RECORD}.checkpoint"]


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / RECORD) is None


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_a_record_error(tmp_path: Path, written: Checkpoint, seed: int) -> None:
    path, dice = checkpoint_path(tmp_path / RECORD), random.Random(seed)
    whole = path.read_bytes()
    refused = 0
    for _ in range(250):
        content = bytearray(whole[: dice.randrange(len(whole))] if dice.random() < 0.3 else whole)
        for _ in range(dice.randrange(1, 6) if content else 0):
            content[dice.randrange(len(content))] = dice.randrange(256)
        path.write_bytes(content)
        try:
            read_checkpoint(tmp_path / RECORD)
        except RecordError:
            refused += 1
    assert refused > 100


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    with checkpoint_path(tmp_path / RECORD).open("wb") as file:
        np.savez(file, format=np.array([{"a": 1}], dtype=object))
    with pytest.raises(RecordError, match="not a complete checkpoint"):
        read_checkpoint(tmp_path / RECORD)
