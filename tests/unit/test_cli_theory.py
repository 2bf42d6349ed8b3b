"""`fedmpi theory` and `fedmpi bench draw` as a user sees them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedmpi.cli.bench_draw import draw
from fedmpi.cli.theory import importances, theory
from fedmpi.config import Config
from fedmpi.data import importances_of
from fedmpi.errors import ConfigError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(theory, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def numbers(*arguments: str) -> dict:
    return json.loads(run(*arguments, "--json"))


def test_the_papers_setting_with_equal_importances() -> None:
    """n = 80, m = 40, p = 1/n: the values of the notes' table, worked out by hand."""
    schemes = numbers("-n", "80", "-m", "40")["schemes"]
    keys = ("Sigma", "gamma", "alpha", "var_sum", "mean_N", "var_N")
    a, b = Fraction(79, 80) ** 40, Fraction(78, 80) ** 40
    expected = {
        "full": (0, 0, 0, 0, 80, 0),
        "md": (79 / 80 / 40, 1 / 40, 1 / 40, 0, float(80 - 80 * a), float(6320 * b + 80 * a - 6400 * a * a)),
        "uniform": (1 / 80, 1 / 79, 1 / 79, 0, 40, 0),
        "binomial": (1 / 80, 1 / 80, 0, 1 / 80, 40, 20),
        "poisson": (1 / 80, 1 / 80, 0, 1 / 80, 40, 20),
        "clustered": (1 / 80, 1 / 40, None, 0, 40, 0),
        "optimal": (1 / 80, 1 / 80, 0, 1 / 80, 40, 20),
    }
    for name, values in expected.items():
        for key, value in zip(keys, values, strict=True):
            assert schemes[name][key] == pytest.approx(value, abs=1e-12), (name, key)
    text = run("-n", "80", "-m", "40")
    line = next(line for line in text.splitlines() if line.startswith("uniform"))
    assert line.split()[1:5] == ["0.0125", "0.0126582", "0.0126582", "0"]
    assert "43,424,000" in line
    assert "Use uniform." in text


def test_the_papers_setting_with_a_ratio(tmp_path: Path) -> None:
    sizes = np.random.default_rng(3).integers(10, 2000, 80) ** 2
    file = tmp_path / "sizes.txt"
    file.write_text("\n".join(map(str, sizes)))
    p = sizes / sizes.sum()
    s2, n, m = float(p @ p), 80, 40
    found = numbers("--p", str(file), "-m", "40")
    assert found["sum_p2"] == pytest.approx(s2)
    laws = {name: [row[k] for k in ("Sigma", "gamma", "var_sum", "mean_N")] for name, row in found["schemes"].items()}
    assert laws["md"] == pytest.approx([(1 - s2) / m, 1 / m, 0, n - ((1 - p) ** m).sum()])
    alpha = (n - m) / (m * (n - 1))
    assert laws["uniform"] == pytest.approx([s2, n / (n - 1) * s2, alpha * (n * s2 - 1), m])
    assert laws["binomial"] == pytest.approx([s2, s2, s2, m])
    assert laws["clustered"][0] < laws["md"][0]
    assert laws["clustered"][2] == 0
    assert ("poisson" in found["left_out"]) == (m * p.max() > 1)
    assert found["recommendation"]["scheme"] == ("uniform" if s2 <= 1 / 41 else "clustered")


@pytest.mark.parametrize("source", ["ratio", "dirichlet:0.3"])
def test_seeded_importances_repeat_and_differ_by_seed(source: str) -> None:
    first, again, other = (run("--p", source, "-n", "20", "-m", "3", "--seed", s) for s in ("1", "1", "2"))
    assert first == again != other


def test_importances_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([0.5, 0.3, 0.2]))
    (tmp_path / "p.csv").write_text("0.5, 0.3, 0.2\n")
    (tmp_path / "ratio.txt").write_text("50 30 20")
    files = [str(tmp_path / name) for name in ("p.npy", "p.csv", "ratio.txt")]
    first, *others = (numbers("--p", source, "-m", "2") for source in (*files, f"file:{files[0]}", "[0.5, 0.3, 0.2]"))
    assert all(other == first for other in others)
    assert first["n"] == 3
    assert first["sum_p2"] == pytest.approx(0.38)


def test_importances_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("a b")
    (tmp_path / "negative").write_text("0.5 -0.3")
    for arguments, message in [
        (("--p", str(tmp_path / "words")), "--p: .*words is not a list of numbers"),
        (("--p", str(tmp_path / "negative")), "must hold finite numbers, none negative"),
        (("--p", "unifrom"), "--p = 'unifrom': must be 'ratio', 'uniform', 'dirichlet:ALPHA'"),
        (("--p", "dirichlet:x"), "--p = 'dirichlet:x': ALPHA must be a number above 0"),
        (("--p", "heavy:1"), "--p = 'heavy:1': P must be"),
        (("--p", "[0.5, 0.3]"), "sums to 0.8"),
        (("--p", "[0.5, 'x']"), "must be a number"),
        (("-n", "0"), "must be at least 1"),
    ]:
        with pytest.raises(ConfigError, match=message):
            run(*arguments)


@pytest.mark.parametrize("source", ["uniform", "ratio", "dirichlet:0.3", "heavy:0.4"])
def test_theory_and_a_run_read_the_same_importances(source: str) -> None:
    """By the same word and seed; `ratio` with the sizes of generated data of data.spread = 1.2."""
    settings = {"data.n": 20, "data.seed": 7, "data.spread": 1.2, "sampling.importance": source}
    expected, sizes = importances_of(Config.load("quadratic", settings))
    p, sizes_of_theory = importances(source, 20, 7)
    assert (p == expected).all()
    assert (sizes is None and sizes_of_theory is None) or (sizes == sizes_of_theory).all()


def test_step_sizes_that_fail_are_listed_with_the_largest_that_works() -> None:
    text = run("-n", "20", "-m", "2", "--eta-l", "0.1")
    assert "* Theorem 1 is not proved for this step size:" in text
    line = next(line for line in text.splitlines() if line.startswith("  md: "))
    # SGD, K = 10: drift needs 2·3·η_l²·100 < 1, sampling 12·η_l·γ·K ≤ 1 with γ = ½.
    assert f"η_l = {1 / (10 * 6**0.5):.3g}" in line
    assert f"η_l = {1 / 60:.3g}" in line
    largest = numbers("-n", "20", "-m", "2", "--eta-l", "0.1")["schemes"]["md"]["largest_eta_l"]
    assert "Theorem 1 is not proved" not in run("-n", "20", "-m", "10", "--eta-l", str(largest * 0.99))


def test_a_preset_gives_p_m_and_the_steps_unless_the_command_line_does() -> None:
    config = Config.load("quadratic")
    found = numbers("--preset", "quadratic", "--eta-l", "0.125")
    assert (found["n"], found["m"]) == (config.data.n, config.sampling.m)
    problem = found["problem"]
    assert (problem["K"], problem["T"], problem["eta_g"]) == (config.client.K, config.run.T, config.server.eta_g)
    assert problem["eta_l"] == 0.125 != config.client.eta_l
    assert numbers("--preset", "quadratic", "-m", "3")["m"] == 3


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("-n", "20", "-m", "5", "--plot", str(tmp_path / "region.png"))
    assert (tmp_path / "region.png").read_bytes().startswith(b"\x89PNG")


def test_bench_draw_lists_every_scheme_and_rival() -> None:
    result = CliRunner().invoke(
        draw, ["--max-n", "1000", "-m", "20", "--repeats", "2", "--json"], catch_exceptions=False
    )
    rows = {row["name"]: row for row in json.loads(result.output)}
    schemes, rivals = ("md", "uniform", "binomial", "poisson", "clustered"), ("Generator", "RandomState")
    assert set(rows) == {*schemes, *(f"{rival}.choice(p=p)" for rival in rivals)}
    assert all(row["draw"] > 0 for row in rows.values())
    assert all(rows[name]["kept"] >= 8 * 1000 / 2**20 for name in ("md", "poisson", "clustered"))
    text = CliRunner().invoke(draw, ["--max-n", "1000", "--repeats", "1", "--markdown"], catch_exceptions=False).output
    assert "poisson (infeasible)" in text
    assert len({line.count("|") for line in text.splitlines()}) == 1
