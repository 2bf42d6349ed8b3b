"""A Slurm of two nodes for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm import Cluster, why_not


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(f"no Slurm of two nodes: {reason}")
    with Cluster(tmp_path_factory.mktemp("cluster")) as built:
        yield built


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's jobs run and leave their records."""
    return tmp_path
