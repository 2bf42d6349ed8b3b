"""The figures of sampling: N and Σω against their law, and how often each client took part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedmpi.report.draws import Draws
from fedmpi.report.figures.style import FAINT, INK, line_style, new_figure, whole_numbers
from fedmpi.report.statistics import Floats, wilson

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 41
ROW = 0.62
"""The share of its row that a histogram fills; the mark of the law is below it."""


def draw_N(drawn: Sequence[Draws]) -> Figure | None:
    """The distribution of N per scheme, and its law's mean ± sd."""
    rows = worth_showing(drawn)
    if not rows:
        return None
    low, high = min(d.N.min() for d in rows), max(d.N.max() for d in rows)
    step = max(1, math.ceil((high - low + 1) / BINS))
    edges = np.arange(low, high + step + 1, step) - 0.5
    laws = [(d.law.mean_N, d.law.var_N) if d.law else None for d in rows]
    figure = draw_rows(rows, [d.N for d in rows], edges, laws, "N: distinct clients in a round")
    whole_numbers(figure.axes[0])
    return figure


def draw_sum_omega(drawn: Sequence[Draws]) -> Figure | None:
    """The distribution of Σω per scheme, and its law's mean ± sd."""
    rows = [d for d in drawn if d.rounds]
    if not rows:
        return None
    low, high = min(d.sum_omega.min() for d in rows), max(d.sum_omega.max() for d in rows)
    # Weights that always sum to 1 give one bar in the middle, not a histogram of rounding errors.
    margin = max(0.02 * (high - low), 0.01)
    edges = np.linspace(low - margin, high + margin, BINS + 1)
    laws = [(float(d.law.p.sum()), d.law.var_sum) if d.law else None for d in rows]
    return draw_rows(rows, [d.sum_omega for d in rows], edges, laws, "Σω: sum of a round's weights")


def worth_showing(drawn: Sequence[Draws]) -> list[Draws]:
    """Those with rounds; without `full`, whose N = n would compress the others, unless there is no other."""
    rows = [d for d in drawn if d.rounds]
    return [d for d in rows if d.group.scheme != "full"] or rows


def draw_rows(
    rows: Sequence[Draws],
    values: Sequence[Floats],
    edges: Floats,
    laws: Sequence[tuple[float, float | None] | None],
    title: str,
) -> Figure:
    """One histogram per scheme, each scaled to its row, with the law's mean ± sd under it."""
    figure = new_figure(1.0 + 0.62 * len(rows))
    axes = figure.subplots()
    for k, (d, x, law) in enumerate(zip(rows, values, laws, strict=True)):
        base = len(rows) - 1 - k
        counts, _ = np.histogram(x, edges)
        axes.bar(
            edges[:-1],
            counts / max(1, counts.max()) * ROW,
            width=np.diff(edges) * 0.86,
            align="edge",
            bottom=base,
            color=line_style(d.group).colour,
            alpha=0.85,
        )
        draw_law(axes, base - 0.13, law, first=k == 0)
    names = [d.group.short_label if d.law else f"{d.group.short_label}\n{short(d)}" for d in rows]
    axes.set_yticks([len(rows) - 1 - k + ROW / 3 for k in range(len(rows))], names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_ylim(-0.32, len(rows) - 0.25)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(title)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left")
    return figure


def short(d: Draws) -> str:
    """Why a row has no law, in one or two words."""
    return "biased" if d.reason.startswith("biased") else "no law"


def draw_law(axes: Any, y: float, law: tuple[float, float | None] | None, first: bool) -> None:
    if law is None:
        return
    mean, variance = law
    error = None if variance is None else math.sqrt(max(0.0, variance))
    axes.errorbar(
        [mean],
        [y],
        xerr=None if error is None else [error],
        color=INK,
        marker="D",
        markersize=3.6,
        linewidth=1.2,
        capsize=2.5,
        linestyle="none",
        label="law: mean ± standard deviation" if first else None,
    )


def draw_participation(drawn: Sequence[Draws]) -> Figure | None:
    """Every client's share of the rounds with its 95 % interval, and the law's, one panel per scheme."""
    rows = worth_showing(drawn)
    if not rows:
        return None
    figure = new_figure(0.9 + 1.2 * len(rows))
    panels = figure.subplots(len(rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    order = np.argsort(-rows[0].group.runs[0].clients["p"], kind="stable")
    for axes, d in zip(panels, rows, strict=True):
        draw_shares(axes, d, order)
    panels[0].set_ylim(bottom=0)
    whole_numbers(panels[-1])
    panels[-1].set_xlabel("clients by importance pᵢ, the largest first")
    figure.supylabel("share of rounds", fontsize=9)
    from matplotlib.lines import Line2D

    seen = Line2D([], [], color=FAINT, marker="o", markersize=3.5, linewidth=1.2, label="seen, 95 % interval")
    law = Line2D([], [], color=INK, linewidth=1.2, label="law")
    figure.legend(handles=[seen, law], loc="outside upper left", ncols=2)
    return figure


def draw_shares(axes: Any, d: Draws, order: Any) -> None:
    style = line_style(d.group)
    x = np.arange(1, len(order) + 1)
    share = (d.counts / d.rounds)[order]
    low, high = (bound[order] for bound in wilson(d.counts, d.rounds))
    size = 3.5 if len(order) <= 40 else 2 if len(order) <= 150 else 1
    axes.vlines(x, low, high, color=style.colour, alpha=0.45, linewidth=1.4 if len(order) <= 80 else 0.6)
    axes.plot(x, share, color=style.colour, marker="o", markersize=size, linestyle="none")
    if d.law is not None:
        axes.step(x, d.law.inclusion[order], where="mid", color=INK, linewidth=1.1)
    axes.set_title(d.group.short_label if d.law is not None else f"{d.group.short_label} ({short(d)})", pad=3)
