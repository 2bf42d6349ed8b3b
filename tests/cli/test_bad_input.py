"""Bad input is answered in one sentence with exit code 2, alone and under mpirun: no traceback, no hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.commands import sentences

CASES = {
    "unknown preset": (["dmeo"], "'dmeo' is neither a preset nor a file; did you mean 'demo'?"),
    "unknown key": (["quadratic", "-s", "sampling.mm=3"], "unknown key 'sampling.mm'; did you mean 'sampling.m'?"),
    "wrong type": (["quadratic", "-s", "run.T=ten"], 'run.T = "ten": must be an integer'),
    "m above n": (["quadratic", "-s", "sampling.scheme=uniform", "-s", "sampling.m=21"], "must be at most n = 20"),
    "m = 0": (["quadratic", "-s", "sampling.m=0"], "sampling.m = 0: must be at least 1"),
    "K < 0": (["quadratic", "-s", "client.K=-1"], "client.K = -1: must be at least 1"),
    "NaN learning rate": (["quadratic", "-s", "client.eta_l=nan"], "client.eta_l = nan: must be a finite number"),
    "p that does not sum to 1": (
        ["quadratic", "-s", "data.n=2", "-s", "sampling.importance=[0.4, 0.4]"],
        "p sums to 0.8; importances must sum to 1",
    ),
    "poisson with m p_max > 1": (
        ["quadratic", "-s", "sampling.scheme=poisson", "-s", "data.spread=2.0"],
        "sampling.m = 5",
    ),
    "unknown scheme": (["quadratic", "-s", "sampling.scheme=unifrom"], "did you mean 'uniform'?"),
    "scheme of a missing module": (["quadratic", "-s", "sampling.scheme=nowhere:Mine"], "nowhere"),
    "model that does not fit": (["quadratic", "-s", "model.name=lstm"], "cannot learn from data.name = 'quadratic'"),
    "missing device": (["quadratic", "-s", "client.device=nowhere"], "client.device = 'nowhere': not usable here"),
    "unwritable output": (["quadratic", "-o", "/proc/nowhere/x.h5"], "cannot write /proc/nowhere/x.h5"),
    "existing output": (["quadratic", "-o", "exists.h5"], "exists.h5 exists: choose another -o FILE, or pass --force"),
    "truncated TOML": (["cut.toml"], "cut.toml: not valid TOML"),
    "truncated record": (["cut.h5"], "cut.h5: not a readable HDF5 file"),
    "override without value": (["quadratic", "-s", "run.T"], "must have the form KEY=VALUE"),
    "unknown option": (["quadratic", "--frce"], "No such option"),
}


@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("case", CASES)
def test_one_sentence_and_exit_code_2(
    fedmpi: Callable, fedmpi_here: Callable, tmp_path: Path, case: str, ranks: int
) -> None:
    (tmp_path / "exists.h5").write_text("precious")
    (tmp_path / "cut.toml").write_text("[run]\nname = ")
    (tmp_path / "cut.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    arguments, sentence = CASES[case]
    done = fedmpi("run", *arguments, ranks=ranks) if ranks else fedmpi_here("run", *arguments)
    said = sentences(done, "fedmpi: ", "Error: ")
    assert done.returncode == 2, done.stderr
    assert len(said) == 1, done.stderr
    assert sentence in said[0]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "exists.h5").read_text() == "precious"
    assert not list(tmp_path.glob("*.lock"))
