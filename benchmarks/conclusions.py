"""The paper's conclusions from a sweep's records: L_md − L_uniform and L_md − L_clustered, paired by seed.

    fedmpi sweep fig-shakespeare-small -o shakespeare
    python benchmarks/conclusions.py shakespeare

The mean over the run of the difference in loss, with its 95 % interval over seeds (Student's t); for quadratic clients
also the exact expectation. Positive: the other scheme has the lower loss. (n−m+1) Σp² at most 1 is the corollary's
condition for uniform to have the better guarantee than md.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from fedmpi import Config, open_record
from fedmpi.data import importances_of, load_dataset
from fedmpi.job.prepare import configured_scheme
from fedmpi.report.statistics import estimate
from fedmpi.report.tables import text_table
from fedmpi.theory.quadratic import expected_squared_error


def exact_losses(config: Config, evaluated: np.ndarray) -> np.ndarray:
    """E L(θᵗ) − L(θ*) = ½ E‖θᵗ − θ*‖² of a quadratic run, at the rounds t that were evaluated."""
    data = load_dataset(config)
    minima = np.array([np.asarray(data.client(i).minimum, float) for i in range(config.data.n)])
    law = configured_scheme(config, data).law()
    client, T = config.client, config.run.T
    squared = expected_squared_error(law, minima, np.zeros(config.data.dim), T=T, eta_l=client.eta_l, K=client.K)
    return 0.5 * squared[evaluated]


def main() -> None:
    runs: dict[tuple[int, int, str], dict[tuple[str, int], tuple[Config, np.ndarray]]] = defaultdict(dict)
    for path in sorted(Path(sys.argv[1]).glob("*.h5")):
        with open_record(path) as record:
            c = record.config
            if record.status == "done":
                case = c.data.n, c.sampling.m, str(c.sampling.importance)
                runs[case][c.sampling.scheme, c.run.seed] = c, record.evals
    rows = []
    for (n, m, importance), found in sorted(runs.items(), key=lambda item: (item[0][2], item[0][0])):
        cells = [f"n = {n}, m = {m}, p {importance}"]
        for other in ("uniform", "clustered"):
            seeds = [seed for scheme, seed in found if scheme == other and ("md", seed) in found]
            gaps = [float((found["md", s][1]["loss"] - found[other, s][1]["loss"])[1:].mean()) for s in seeds]
            band = estimate(gaps)
            cells.append(f"{band.mean:+.4f} ± {band.half:.4f}" if len(gaps) > 1 else "–")
            config, evals = found["md", seeds[0]]
            if config.data.name == "quadratic":
                theirs = exact_losses(found[other, seeds[0]][0], evals["t"])
                cells.append(f"{float((exact_losses(config, evals['t']) - theirs)[1:].mean()):+.4f}")
        p = importances_of(config)[0]
        rows.append([*cells, f"{float(p @ p) * (n - m + 1):.2f}", str(len(seeds))])
    exact = ["exact"] if len(rows[0]) == 7 else []
    print(text_table(["case", "L_md − L_uniform", *exact, "L_md − L_clustered", *exact, "(n−m+1) Σp²", "seeds"], rows))


if __name__ == "__main__":
    main()
