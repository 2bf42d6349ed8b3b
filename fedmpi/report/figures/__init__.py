"""All figures of a report: drawn and saved, each with its title, caption and alternative text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedmpi.report.curves import AXES, difference, last
from fedmpi.report.draws import Draws
from fedmpi.report.figures.draws import draw_N, draw_participation, draw_sum_omega
from fedmpi.report.figures.loss import draw_curves, draw_difference, ends
from fedmpi.report.figures.style import house_style, save
from fedmpi.report.figures.time import draw_phases, draw_ranks
from fedmpi.report.format import plus_minus
from fedmpi.report.results import cohorts, phases, ranks
from fedmpi.report.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure on the page. name: the name of its files; its first word says which section it belongs to."""

    name: str
    title: str
    caption: str
    alt: str
    svg: bytes


@dataclass(frozen=True)
class FigureSpec:
    """A figure before it is drawn. draw: returns None if the records have nothing to show in it."""

    name: str
    title: str
    caption: str
    alt: str
    draw: Callable[[], Figure | None]


def draw_all(study: Study, drawn: Sequence[Draws], directory: Path) -> list[Picture]:
    """Every figure that these records can fill, saved as PNG and PDF in the directory."""
    pictures = []
    with house_style():
        for spec in figure_specs(study, drawn):
            figure = spec.draw()
            if figure is not None:
                svg = save(figure, directory / spec.name)
                pictures.append(Picture(spec.name, spec.title, spec.caption, spec.alt, svg))
    return pictures


def figure_specs(study: Study, drawn: Sequence[Draws]) -> Iterator[FigureSpec]:
    """Every figure, in the order of the page."""
    band = (
        "Mean over seeds with its 95 % band, which may go beyond the frame."
        if any(len(group.runs) > 1 for group in study.groups)
        else "One seed."
    )
    for quantity in ("loss", "accuracy"):
        for axis in AXES:
            name, title = f"{quantity}-{axis.name}", f"{quantity.capitalize()} against {axis.name}"
            alt = ends(study, axis, quantity)
            yield FigureSpec(name, title, band, alt, partial(draw_curves, study, axis, quantity))
    reference = study.reference.label
    yield FigureSpec(
        "difference",
        f"Difference from {reference}",
        f"Loss of {reference} minus loss of each scheme, paired by seed. Above zero, the loss of the scheme is lower.",
        difference_alt(study),
        lambda: draw_difference(study),
    )
    yield FigureSpec(
        "phases",
        "Wall time of a round",
        "The phases do not overlap and add up to the round's wall time.",
        "Stacked bars: " + as_sentence(phases(study).shown(), [column.title for column in phases(study).columns]),
        lambda: draw_phases(study),
    )
    law = as_sentence(cohorts(drawn).shown(), [column.title for column in cohorts(drawn).columns])
    together = "All rounds of all seeds. Each histogram has its own scale."
    yield FigureSpec(
        "draws-N", "Cohort size N", together, f"Histograms of N and their laws: {law}", lambda: draw_N(drawn)
    )
    yield FigureSpec(
        "draws-omega", "Sum of weights Σω", together, f"Histograms of Σω: {law}", lambda: draw_sum_omega(drawn)
    )
    yield FigureSpec(
        "participation",
        "Participation of the clients",
        "Share of all rounds in which each client took part. By chance, about one interval in twenty misses the law.",
        "Share of rounds of every client against its law; the numbers are in clients.csv.",
        lambda: draw_participation(drawn),
    )
    yield FigureSpec(
        "ranks",
        "Time of each rank",
        "Mean seconds per round that a rank trains, waits to send, and waits for the server.",
        "Stacked bars: " + as_sentence(ranks(study).shown()[:12], [column.title for column in ranks(study).columns]),
        lambda: draw_ranks(study),
    )


def difference_alt(study: Study) -> str:
    parts = []
    for group in study.groups:
        end = last(difference(study.reference, group)) if group is not study.reference else None
        if end is not None:
            parts.append(f"{group.label} {plus_minus(end.mean, end.half)}")
    return f"Loss of {study.reference.label} minus loss by round; at the end: {', '.join(parts)}."


def as_sentence(rows: Sequence[Sequence[str]], titles: Sequence[str]) -> str:
    """A table as a sentence, for alternative text."""
    return "; ".join(
        f"{row[0]}: " + ", ".join(f"{title} {cell}" for title, cell in zip(titles[1:], row[1:], strict=True))
        for row in rows
    )
