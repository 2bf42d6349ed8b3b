"""fedmpi theory"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedmpi.errors import ConfigError

if TYPE_CHECKING:
    from fedmpi.sampling.law import Floats, Ints
    from fedmpi.theory import Problem, Recommendation, Survey
    from fedmpi.theory.recommend import Row

MOST_CLIENTS = 10**7
# Larger constants would overflow when squared.
LARGEST = 1e30
# What --p may be or begin with; anything else is the path of a file, if there is one.
WORDS, PREFIXES = ("uniform", "ratio"), ("dirichlet:", "heavy:", "file:")
# Standard deviation of the logarithm of the clients' sizes, for `--p ratio`.
SPREAD = 1.2

FROM_PRESET = {
    "K": "client.K",
    "eta_l": "client.eta_l",
    "mu": "client.mu",
    "eta_g": "server.eta_g",
    "T": "run.T",
}
"""Constants that --preset sets if their option is not given."""


@click.command()
@click.option("--p", "source", default="uniform", show_default=True,
              metavar="uniform|ratio|dirichlet:A|heavy:P|FILE|LIST",
              help="Importances, as sampling.importance takes them: 1/n; n_i/M with log-normal sizes; Dirichlet(A); P "
              "for client 0; a file of numbers, one per client, divided by their sum; or a list, such as "
              "[0.5, 0.3, 0.2].")  # fmt: skip
@click.option("-n", default=80, show_default=True, help="Number of clients, unless --p or --preset gives it.")
@click.option("-m", type=click.IntRange(1, 10**7), help="Clients to draw per round.  [default: the preset's, else n/2]")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of --p ratio and dirichlet."
)
@click.option("--preset", metavar="NAME|FILE", help="Take p, m, K, T, μ and the step sizes from a preset or a TOML "
              "file and its data.")  # fmt: skip
@click.option("--theta-bytes", default=542_800, show_default=True, help="Size of θ in bytes, for bytes/round.")
@click.option("--L", "L", default=1.0, show_default=True, help="Smoothness constant L of the local losses.")
@click.option("--sigma2", default=1.0, show_default=True, help="Bound σ² on the variance of a stochastic gradient.")
@click.option("--kappa2", default=1.0, show_default=True, help="Constant κ² of bounded dissimilarity.")
@click.option("--beta2", default=1.0, show_default=True, help="Constant β² of bounded dissimilarity, at least 1.")
@click.option("--gap", default=1.0, show_default=True, help="Initial gap L(θ⁰) − L(θ*).")
@click.option("--eta-l", default=0.01, show_default=True, help="Local learning rate η_l (client.eta_l).")
@click.option("--eta-g", default=1.0, show_default=True, help="Server learning rate η_g (server.eta_g).")
@click.option(
    "-K", "K", type=click.IntRange(1, 10**7), default=10, show_default=True, help="Local steps per round (client.K)."
)
@click.option("-T", "T", default=1000, show_default=True, help="Number of rounds (run.T).")
@click.option("--mu", default=0.0, show_default=True, help="FedProx coefficient μ (client.mu); 0 = SGD.")
@click.option("--plot", "picture", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
              help="Also draw to this file for which p_1 and m uniform has a better guarantee than md.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@click.pass_context
def theory(
    ctx: click.Context,
    /,
    source: str,
    n: int,
    m: int | None,
    seed: int,
    preset: str | None,
    theta_bytes: int,
    picture: Path | None,
    as_json: bool,
    **constants: Any,
) -> None:
    """Print the laws of all schemes, and recommend one.

    For given importances p and m, the table has each scheme's Σ, γ and α, the variance of Σω, the mean and variance of
    N, the bytes per round, Theorem 1's bound, and the largest η_l for which the bound is proved.

    \b
    fedmpi theory --p dirichlet:0.3 -n 100 -m 10
    fedmpi theory --preset shakespeare
    """
    from fedmpi.theory import Problem, recommend, survey

    if preset is not None:
        p, sizes, m, settings = of_preset(preset, m)
        typed = click.core.ParameterSource.COMMANDLINE
        constants |= {key: value for key, value in settings.items() if ctx.get_parameter_source(key) is not typed}
    else:
        p, sizes = importances(source, n, seed)
    m = max(1, p.size // 2) if m is None else m
    for name, value in constants.items():
        if not abs(value) <= LARGEST:
            raise ConfigError(f"{name} = {value}: must be a number of at most {LARGEST:g}")
    problem = Problem(**constants)
    table = survey(p, m, problem, sizes=sizes, theta_bytes=theta_bytes)
    advice = recommend(p, m, table)
    if as_json:
        click.echo(json.dumps(as_dict(p, m, problem, table, advice), indent=2))
    else:
        click.echo("\n".join(report(p, m, problem, table, advice)))
    if picture is not None:
        from fedmpi.report.figures.corollary import plot_region

        plot_region(p.size, picture)
        click.echo(f"Wrote {picture}.", err=True)


def of_preset(preset: str, m: int | None) -> tuple[Floats, Ints | None, int, dict[str, Any]]:
    """(p, sizes, m, constants) of a preset or a TOML file, with the sizes of its data."""
    from fedmpi.config import Config
    from fedmpi.data import importances_of

    config = Config.load(preset)
    p, sizes = importances_of(config)
    settings = {}
    for name, key in FROM_PRESET.items():
        part, field = key.split(".")
        settings[name] = getattr(getattr(config, part), field)
    return p, sizes, config.sampling.m if m is None else m, settings


def importances(source: str, n: int, seed: int) -> tuple[Floats, Ints | None]:
    """(p, sizes) of --p: what `sampling.importance` takes, or just the path of a file.

    sizes: the n_i where p = n_i/M, else None. There is no data here, so `ratio` takes the sizes of generated data with
    data.n = n, data.seed = seed and data.spread = SPREAD.
    """
    from fedmpi.config import Config, DataSettings, parse_override
    from fedmpi.data.importance import listed, read_importances
    from fedmpi.data.sizes import client_sizes

    if not 1 <= n <= MOST_CLIENTS:
        raise ConfigError(f"-n {n}: must be at least 1 and at most {MOST_CLIENTS}")
    given = source
    if source.startswith("["):
        given = Config.load(overrides=dict([parse_override(f"sampling.importance={source}")])).sampling.importance
    elif source not in WORDS and not source.startswith(PREFIXES) and os.path.exists(source):
        given = f"file:{source}"
    p = listed(given, "--p")
    if p is not None:
        return p, None
    sizes = client_sizes(DataSettings(n=n, seed=seed, spread=SPREAD))
    return read_importances(given, sizes, seed, "--p"), sizes if given == "ratio" else None


def report(p: Floats, m: int, problem: Problem, table: Survey, advice: Recommendation) -> list[str]:
    """The lines that the command prints."""
    from fedmpi.report.tables import text_table

    solver = "SGD" if problem.mu == 0 else f"FedProx, μ = {problem.mu:g}"
    lines = [
        f"n = {p.size}, m = {m}, Σp² = {p @ p:.6g}, p from {p.min():.4g} to {p.max():.4g}",
        f"L = {problem.L:g}, σ² = {problem.sigma2:g}, κ² = {problem.kappa2:g}, β² = {problem.beta2:g}, "
        + f"L(θ⁰)−L(θ*) = {problem.gap:g}, η_l = {problem.eta_l:g}, η_g = {problem.eta_g:g}, "
        + f"K = {problem.K}, T = {problem.T} ({solver}, K_eff = {problem.K_eff:.4g})",
        "",
        text_table(HEADER, [cells(row) for row in table.rows]),
    ]
    lines += [f"  {row.scheme}: {row.note}" for row in table.rows if row.note]
    broken = [step_sizes(row) for row in table.rows if not row.bound.holds]
    if broken:
        lines += ["", "* Theorem 1 is not proved for this step size:", *broken]
    lines += ["", "Not in the table:", *(f"  {name}: {why}" for name, why in table.left_out.items())]
    return [*lines, "", f"Use {advice.scheme}.", *(f"  {reason}" for reason in advice.reasons)]


HEADER = ("scheme", "Σ", "γ", "α", "Var Σω", "E N", "Var N", "bytes/round", "bound", "largest η_l")


def cells(row: Row) -> tuple[str, ...]:
    """One row of the table."""
    law = row.law
    return (
        row.scheme,
        f"{law.Sigma:.6g}",
        f"{law.gamma:.6g}",
        "–" if law.alpha is None else f"{law.alpha:.6g}",
        f"{law.var_sum:.6g}",
        f"{law.mean_N:.6g}",
        "–" if law.var_N is None else f"{law.var_N:.6g}",
        f"{row.bytes:,.0f}",
        f"{row.bound.total:.4g}" + ("" if row.bound.holds else "*"),
        f"{row.bound.largest_eta_l:.3g}",
    )


def step_sizes(row: Row) -> str:
    """Which conditions of Theorem 1 fail for a scheme, by how much, and up to which η_l each would hold."""
    failing = [
        f"{c.name} ({c.formula}) is {c.left:.3g}, holds up to η_l = {c.largest_eta_l:.3g}"
        for c in row.bound.conditions
        if not c.holds
    ]
    return f"  {row.scheme}: {'; '.join(failing)}"


def as_dict(p: Floats, m: int, problem: Problem, table: Survey, advice: Recommendation) -> dict[str, Any]:
    """The content of `report` as plain numbers, for --json."""
    from dataclasses import asdict

    def row(r: Row) -> dict[str, Any]:
        law = {key: getattr(r.law, key) for key in ("Sigma", "gamma", "alpha", "var_sum", "mean_N", "var_N")}
        proof = asdict(r.bound) | {"total": r.bound.total, "holds": r.bound.holds, "primes": r.bound.primes}
        return law | {
            "bytes": r.bytes,
            "note": r.note,
            "bound": proof,
            "largest_eta_l": r.bound.largest_eta_l,
        }

    return {
        "n": p.size,
        "m": m,
        "sum_p2": float(p @ p),
        "problem": asdict(problem),
        "schemes": {r.scheme: row(r) for r in table.rows},
        "left_out": table.left_out,
        "recommendation": asdict(advice),
    }
