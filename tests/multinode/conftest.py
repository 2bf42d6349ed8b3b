"""Two or three hosts on this machine, made for one test and removed after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bed import Bed, why_not


def build(hosts: int, folder: Path) -> Iterator[Bed]:
    if reason := why_not():
        pytest.skip(f"no bed of {hosts} hosts: {reason}")
    with Bed(hosts, folder) as bed:
        yield bed


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[Bed]:
    yield from build(2, tmp_path)


@pytest.fixture
def three_hosts(tmp_path: Path) -> Iterator[Bed]:
    yield from build(3, tmp_path)
