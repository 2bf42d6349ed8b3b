"""The figures of time: the phases of each scheme, and the time of each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedmpi.comm.timeline import PHASES
from fedmpi.report.figures.style import PHASE_COLOURS, RANK_COLOURS, new_figure
from fedmpi.report.format import scale
from fedmpi.report.format import seconds as shown
from fedmpi.report.results import RANK_TIMES, per_round, rank_time
from fedmpi.report.statistics import Floats
from fedmpi.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_RANKS_NAMED = 16


def draw_phases(study: Study) -> Figure | None:
    """Mean seconds per round of each phase, stacked, one bar per scheme; None without a round."""
    groups = [group for group in study.groups if any(len(run.rounds) for run in group.runs)]
    if not groups:
        return None
    seconds = np.array([[mean_of(group, f"time_{phase}") for phase in PHASES] for group in groups])
    factor, unit = scale(float(seconds.sum(axis=1).max()), "s")
    figure = new_figure(1.25 + 0.36 * len(groups))
    axes = figure.subplots()
    rows = np.arange(len(groups))
    left = np.zeros(len(groups))
    for k, phase in enumerate(PHASES):
        widths = seconds[:, k] * factor
        axes.barh(rows, widths, left=left, height=0.62, color=PHASE_COLOURS[phase], label=phase)
        left += widths
    for row, total in zip(rows, left, strict=True):
        axes.annotate(shown(total / factor), (total, row), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks(rows, [group.short_label for group in groups])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.22 * left.max())
    axes.set_xlabel(f"wall time per round ({unit})")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper left", ncols=4, handlelength=1, handleheight=1)
    return figure


def draw_ranks(study: Study) -> Figure | None:
    """Compute, send and idle seconds per round of each rank, one panel per scheme; None without a round."""
    groups = [group for group in study.groups if any(len(run.rounds) for run in group.runs)]
    if not groups:
        return None
    times = [rank_times(group) for group in groups]
    factor, unit = scale(max(float(t.sum(axis=0).max()) for t in times), "s")
    figure = new_figure(0.85 + 1.05 * len(groups))
    panels = figure.subplots(len(groups), 1, sharey=True, squeeze=False)[:, 0]
    for axes, group, values in zip(panels, groups, times, strict=True):
        draw_rank_panel(axes, group, values * factor)
    panels[-1].set_xlabel("rank, and clients it is home to" if most_ranks(groups) <= MOST_RANKS_NAMED else "rank")
    figure.supylabel(f"time per round ({unit})", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, handlelength=1, handleheight=1)
    return figure


def draw_rank_panel(axes: Any, group: Group, values: Floats) -> None:
    """values: (3, size), in the order of RANK_TIMES."""
    ranks = np.arange(values.shape[1])
    bottom = np.zeros(len(ranks))
    for name, row in zip(RANK_TIMES, values, strict=True):
        axes.bar(ranks, row, bottom=bottom, width=0.62, color=RANK_COLOURS[name], label=name)
        bottom += row
    axes.set_title(group.short_label, pad=3)
    if len(ranks) <= MOST_RANKS_NAMED:
        homes = group.runs[0].clients["rank"]
        axes.set_xticks(ranks, [rank_name(group, rank, int((homes == rank).sum())) for rank in range(len(ranks))])
    axes.set_xlim(-0.6, len(ranks) - 0.4)
    axes.tick_params(axis="x", length=0)


def rank_name(group: Group, rank: int, hosted: int) -> str:
    """The label of a rank: "0 server" or "1: 10 clients", shorter if there are many."""
    few = group.runs[0].size <= 6
    if not hosted:
        return f"{rank} server" if few else f"{rank}"
    return f"{rank}: {hosted} clients" if few else f"{rank}\n{hosted}"


def rank_times(group: Group) -> Floats:
    """Mean seconds per round over all runs, (3, size)."""
    runs = [run for run in group.runs if len(run.rounds)]
    ranks = range(runs[0].size)
    return np.array([[np.mean([rank_time(run, name, r) for run in runs]) for r in ranks] for name in RANK_TIMES])


def most_ranks(groups: list[Group]) -> int:
    return max(group.runs[0].size for group in groups)


def mean_of(group: Group, column: str) -> float:
    found = per_round(group, column)
    return 0.0 if found is None else found.mean
