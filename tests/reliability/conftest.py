"""One run without interruption to compare with, and a folder for each run that a test interrupts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.jobs import launch, settings


@pytest.fixture(scope="session")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of an unbroken run of `quadratic` with the settings of tests/support/jobs.py, in one process."""
    folder = tmp_path_factory.mktemp("unbroken")
    done = launch(folder, "run", "quadratic", *settings(), output="reference.h5").end()
    assert done.returncode == 0, done.stderr
    return folder / "reference.h5"


@pytest.fixture
def folder(tmp_path: Path, unbroken: Path) -> Path:
    """A folder with that record in it."""
    shutil.copy(unbroken, tmp_path / "reference.h5")
    return tmp_path
