"""The compiled loops by themselves: the same bits by every kernel, and nothing that a sanitizer finds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedmpi import native
from tests.support.loops import hash_of, lstm, open_library

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "fedmpi" / "native").glob("*.c"))
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
compiled = pytest.mark.skipif(
    not native.native_installed(), reason="NOT TESTED: no compiled loops (needs a C compiler)"
)


@compiled
def test_every_kernel_gives_the_same_bits() -> None:
    loops = native.load()
    assert loops is not None
    try:
        assert len({hash_of(loops, number) for number in range(len(native.KERNELS))}) == 1
    finally:
        native.use_kernel()


@compiled
def test_a_kernel_that_the_cpu_lacks_is_not_used() -> None:
    try:
        assert native.use_kernel("plain") == "plain"
        assert native.use_kernel() in native.KERNELS
    finally:
        native.use_kernel()


@compiled
def test_an_empty_batch_has_no_gradient() -> None:
    loops = native.load()
    assert loops is not None
    grad, found = lstm(loops, 5, 3, 4, 2, 0, 3)
    assert (grad == 0).all()
    assert np.isnan(found[0])
    assert found[1:].tolist() == [0, 0]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="NOT TESTED: the loops under sanitizers (needs gcc)")
@pytest.mark.timeout(600)
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """AddressSanitizer and UBSan, over odd shapes in memory of exact size; the results are those of the usual build."""
    library = tmp_path / "loops.so"
    flags = [
        "-std=gnu11",
        "-O1",
        "-fopenmp-simd",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    built = subprocess.run(["gcc", *flags, *SANITIZE, *map(str, SOURCES), "-lm", "-o", str(library)], text=True,
                           capture_output=True)  # fmt: skip
    assert built.returncode == 0, built.stderr
    runtimes = [
        subprocess.run(["gcc", f"-print-file-name={name}"], text=True, capture_output=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_NUM_THREADS": "1",
    }
    run = [sys.executable, "-m", "tests.support.loops", str(library)]
    done = subprocess.run(run, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    usual = native.load()
    expected = hash_of(usual, 0) if usual else done.stdout.split()[0]
    native.use_kernel()
    assert set(done.stdout.split()) == {expected}


def test_the_library_can_be_opened_by_its_path() -> None:
    loops = native.load()
    if loops is not None:
        assert open_library(loops._name).fedmpi_native_version() == native.VERSION
