"""The figures of loss and accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedmpi.report.curves import ROUNDS, Axis, difference, last, mean_curve
from fedmpi.report.figures.style import FAINT, line_style, new_figure, whole_numbers
from fedmpi.report.format import plus_minus, scale
from fedmpi.report.statistics import Band
from fedmpi.report.study import Group, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEIGHT = 3.1
MARKS = 7
LINE = 60
BAND_ROOM = 0.75
"""How far beyond the lines a band is shown, as a multiple of the lines' range."""
LOG_ABOVE = 30
"""A loss that falls by more than this factor is drawn on a logarithmic scale."""
EARLY, DWARFED = 0.12, 0.3
"""If the losses after the share EARLY of the axis span less than the share DWARFED of all, only they are shown."""


def draw_curves(study: Study, axis: Axis, quantity: str) -> Figure | None:
    """Loss or accuracy against a cost, one line per scheme with its 95 % band; None if nothing was evaluated."""
    found = [(group, mean_curve(group, axis, quantity)) for group in study.groups]
    curves = [(group, band) for group, band in found if band is not None]
    if not curves:
        return None
    figure = new_figure(HEIGHT)
    axes = figure.subplots()
    factor, unit = scale(max(float(band.x[-1]) for _, band in curves), axis.unit)
    for k, (group, band) in enumerate(curves):
        draw_band(axes, group, band, factor, k / len(curves))
    axes.set_xlabel(f"{axis.title} ({unit})" if unit else axis.title)
    axes.set_ylabel("training loss Σ pᵢ Lᵢ(θ)" if quantity == "loss" else "test accuracy")
    frame_lines(axes, [band for _, band in curves])
    if quantity == "loss":
        fit_losses(axes, [band for _, band in curves])
    finish(figure, axes, axis)
    return figure


def draw_difference(study: Study) -> Figure | None:
    """L_ref − L by round, paired by seed; None if no scheme shares a seed with the reference."""
    others = [(group, difference(study.reference, group)) for group in study.groups if group is not study.reference]
    curves = [(group, band) for group, band in others if band is not None]
    if not curves:
        return None
    figure = new_figure(HEIGHT)
    axes = figure.subplots()
    axes.axhline(0, color=FAINT, linewidth=0.9)
    for k, (group, band) in enumerate(curves):
        draw_band(axes, group, band, 1.0, k / len(curves))
    axes.set_xlabel(ROUNDS.title)
    axes.set_ylabel(f"loss of {study.reference.short_label} − loss")
    frame_lines(axes, [band for _, band in curves])
    finish(figure, axes, ROUNDS)
    return figure


def draw_band(axes: Any, group: Group, band: Band, factor: float, phase: float) -> None:
    """Draw a mean line with its band. Its few markers are shifted by `phase`, so that lines do not share them."""
    style = line_style(group)
    x = band.x * factor
    step = max(1, math.ceil(len(x) / MARKS))
    axes.plot(
        x,
        band.mean,
        color=style.colour,
        linestyle=style.dashes,
        marker=style.marker,
        markevery=(int(phase * step), step),
        markeredgecolor="white",
        markeredgewidth=0.5,
        label=group.short_label,
    )
    if band.half is not None:
        axes.fill_between(x, band.low, band.high, color=style.colour, alpha=0.16, linewidth=0)


def frame_lines(axes: Any, curves: list[Band]) -> None:
    """Set limits that show the lines well: bands of two seeds are so wide that the lines would look flat."""
    low, high = axes.get_ylim()
    least, most = min(float(band.mean.min()) for band in curves), max(float(band.mean.max()) for band in curves)
    room = BAND_ROOM * (most - least)
    if room:
        axes.set_ylim(max(low, least - room), min(high, most + room))
    axes.set_xlim(left=0)


def fit_losses(axes: Any, curves: list[Band]) -> None:
    """Use a logarithmic scale for a loss that falls by decades; otherwise leave out first steps that dwarf the rest."""
    lowest = min(float(band.low.min()) for band in curves)
    start = max(float(band.mean.max()) for band in curves)
    if lowest > 0 and start > LOG_ABOVE * lowest:
        axes.set_yscale("log")
        return
    late = [band.x >= EARLY * max(float(band.x[-1]) for band in curves) for band in curves]
    if not all(later.any() for later in late):
        return
    low = min(float(band.low[later].min()) for band, later in zip(curves, late, strict=True))
    high = max(float(band.high[later].max()) for band, later in zip(curves, late, strict=True))
    if 0 < high - low < DWARFED * (start - low):
        margin = 0.08 * (high - low)
        axes.set_ylim(low - margin, high + 2 * margin)
        axes.annotate(
            f"starts at {start:.3g}, off the scale",
            (0.04, 1),
            xycoords="axes fraction",
            va="top",
            color=FAINT,
            fontsize=8,
        )


def finish(figure: Figure, axes: Any, axis: Axis) -> None:
    """Add the legend above the axes, and whole numbers for rounds."""
    if axis is ROUNDS:
        whole_numbers(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=legend_columns(labels))


def legend_columns(labels: Sequence[str]) -> int:
    """The largest number of legend columns that fits. A legend is filled column by column, the first ones longer."""
    for columns in range(len(labels), 1, -1):
        shares = np.array_split(np.array([len(label) for label in labels]), columns)
        # A handle with its gaps is about seven characters wide; LINE is how many the figure holds.
        if sum(7 + int(share.max()) for share in shares) <= LINE:
            return columns
    return 1


def ends(study: Study, axis: Axis, quantity: str) -> str:
    """The end of every curve as a sentence: the alternative text of a figure."""
    parts = []
    for group in study.groups:
        end = last(mean_curve(group, axis, quantity))
        if end is not None:
            parts.append(f"{group.label} {plus_minus(end.mean, end.half)}")
    return f"{quantity.capitalize()} against {axis.title}; at the end: {', '.join(parts)}."
