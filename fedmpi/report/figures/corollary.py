"""The figure of the corollary: for which importance of one client, and which m, uniform beats MD."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedmpi.theory.corollary import one_heavy_client


def plot_region(n: int, file: Path) -> None:
    """Draw to `file` the (m, p_1) for which uniform has the better guarantee; the other clients share 1 − p_1."""
    from matplotlib.figure import Figure

    m = np.arange(1, n + 1, dtype=np.float64)
    low, high = one_heavy_client(n, m)
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(m, low, high, alpha=0.3, label="uniform has the better guarantee")
    axes.plot(m, high, m, low, color="C0")
    axes.axhline(1 / n, color="black", linestyle=":", label="equal importances, $p_1 = 1/n$")
    axes.set_xlim(1, n)
    axes.set_ylim(0, 1)
    axes.set_xlabel("clients drawn, $m$")
    axes.set_ylabel("importance of client 1, $p_1$")
    axes.set_title(rf"$\sum p_i^2 \leq 1/(n-m+1)$, n = {n}; above and below, MD is better")
    axes.legend(loc="upper left")
    figure.savefig(file, dpi=150)
