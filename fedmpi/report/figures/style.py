"""The style of all figures: a colour and marker per scheme, a colour per phase, fonts and lines."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedmpi.comm.timeline import PHASES
from fedmpi.report.study import Group

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 4.0
"""Inches. At this width 9 pt text is legible on a phone, and three figures fit side by side on a screen."""

INK, FAINT, PAPER = "#222222", "#8a8f98", "#ffffff"

# Okabe and Ito's colours for the schemes of the paper, Tol's for the others: colour-blind readers can distinguish them.
SCHEME_STYLES = {
    "full": ("#444444", "s"),
    "md": ("#0072b2", "o"),
    "uniform": ("#d55e00", "^"),
    "binomial": ("#e69f00", "v"),
    "poisson": ("#cc79a7", "D"),
    "clustered": ("#009e73", "P"),
    "clustered-similarity": ("#56b4e9", "X"),
    "optimal": ("#882255", "*"),
    "optimal-approx": ("#aa4499", "p"),
    "fedavg": ("#999933", "<"),
    "power-of-choice": ("#332288", ">"),
}
OWN_STYLES = (("#661100", "h"), ("#6699cc", "H"), ("#117733", "d"), ("#888888", "8"))
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)))

PHASE_COLOURS = dict(
    zip(PHASES, ("#e8c547", "#2f6fb0", "#d9dce1", "#d9722e", "#5a9e6f", "#9b86bd", "#6b5b4f"), strict=True)
)
RANK_COLOURS = {"compute": PHASE_COLOURS["aggregate"], "send": PHASE_COLOURS["up"], "idle": PHASE_COLOURS["wait"]}

SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e4e6ea",
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "text.color": INK,
    # Names come from records: a $ in them does not start a formula.
    "text.parse_math": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "figure.dpi": 100,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedmpi",
}


@dataclass(frozen=True)
class LineStyle:
    """The line style of a scheme, the same in all figures."""

    colour: str
    marker: str
    dashes: Any


def line_style(group: Group) -> LineStyle:
    """The colour and marker of the group's scheme; variants of a scheme (another m, say) have other dashes."""
    # Not hash(), which changes from one process to the next.
    number = hashlib.sha256(group.scheme.encode()).digest()[0]
    colour, marker = SCHEME_STYLES.get(group.scheme, OWN_STYLES[number % len(OWN_STYLES)])
    return LineStyle(colour, marker, DASHES[group.variant % len(DASHES)])


@contextmanager
def house_style() -> Iterator[None]:
    """A context in which matplotlib draws in this style. Figures do not use pyplot, so no display is needed."""
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        yield


def new_figure(height: float) -> Figure:
    """An empty figure of the common width, made without pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def whole_numbers(axes: Any) -> None:
    """Ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def save(figure: Figure, stem: Path) -> bytes:
    """Write STEM.png and STEM.pdf, and return the same picture as SVG. None of them contains a date."""
    # The layout is computed once, not for each format.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    figure.savefig(stem.with_suffix(".png"), dpi=200, metadata={"Software": None})
    figure.savefig(stem.with_suffix(".pdf"), metadata={"CreationDate": None, "Creator": "fedmpi", "Producer": None})
    svg = io.BytesIO()
    figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": "fedmpi"})
    return svg.getvalue()
