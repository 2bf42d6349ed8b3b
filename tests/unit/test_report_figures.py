"""What can be said of a figure without looking at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedmpi.comm.timeline import PHASES
from fedmpi.report.curves import ROUNDS
from fedmpi.report.draws import draws_of
from fedmpi.report.figures.draws import draw_N
from fedmpi.report.figures.loss import draw_curves, draw_difference, legend_columns
from fedmpi.report.figures.style import PHASE_COLOURS, SCHEME_STYLES, house_style, line_style
from fedmpi.report.figures.time import draw_phases
from fedmpi.report.study import Study, read_study
from fedmpi.sampling import SCHEMES as REGISTERED
from tests.support.records import make_record


def study(home: Path, *schemes: str, losses: tuple[float, ...] = (8, 4, 2)) -> Study:
    return read_study([make_record(home / f"{k}.h5", scheme, losses=losses) for k, scheme in enumerate(schemes)])


def test_every_scheme_and_phase_has_a_colour_of_its_own() -> None:
    assert list(SCHEME_STYLES) == list(REGISTERED)
    assert len({colour for colour, _ in SCHEME_STYLES.values()}) == len(SCHEME_STYLES)
    assert len({marker for _, marker in SCHEME_STYLES.values()}) == len(SCHEME_STYLES)
    assert list(PHASE_COLOURS) == list(PHASES)
    assert len(set(PHASE_COLOURS.values())) == len(PHASES)


def test_a_scheme_keeps_its_colour_whoever_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (alone,) = study(tmp_path / "a", "uniform").groups
    together = study(tmp_path, "md", "uniform", "mine:Own").groups
    assert line_style(alone) == line_style(together[1])
    assert len({line_style(group).colour for group in together}) == 3


def test_axes_are_labelled_and_lines_are_in_the_legend(tmp_path: Path) -> None:
    with house_style():
        figure = draw_curves(study(tmp_path, "md", "uniform"), ROUNDS, "loss")
    assert figure is not None
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rounds", "training loss Σ pᵢ Lᵢ(θ)")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["md", "uniform"]
    assert axes.lines[0].get_ydata().tolist() == [8, 4, 2]


def loss_axes(home: Path, losses: tuple[float, ...]) -> Any:
    home.mkdir()
    with house_style():
        figure = draw_curves(study(home, "md", losses=losses), ROUNDS, "loss")
    assert figure is not None
    return figure.axes[0]


def test_scales_follow_the_loss(tmp_path: Path) -> None:
    assert loss_axes(tmp_path / "plain", (8.0, 4.0, 2.0)).get_yscale() == "linear"
    assert loss_axes(tmp_path / "steep", (1000.0, 10.0, 1.0)).get_yscale() == "log"
    dwarfed = loss_axes(tmp_path / "dwarfed", (30.0, *[2.0, 2.1] * 10))
    assert dwarfed.get_ylim()[1] < 3
    assert [text.get_text() for text in dwarfed.texts] == ["starts at 30, off the scale"]


def test_no_band_of_accuracies_is_drawn_beyond_0_and_1(tmp_path: Path) -> None:
    paths = [make_record(tmp_path / f"{k}.h5", seed=k, accuracy=a) for k, a in enumerate((0.02, 0.98))]
    with house_style():
        figure = draw_curves(read_study(paths), ROUNDS, "accuracy")
    assert figure is not None
    (filled,) = figure.axes[0].collections
    heights = filled.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0, 1)


def test_one_scheme_has_nothing_to_differ_from(tmp_path: Path) -> None:
    with house_style():
        assert draw_difference(study(tmp_path, "md")) is None


def test_bars_stack_the_phases_to_the_total(tmp_path: Path) -> None:
    with house_style():
        figure = draw_phases(study(tmp_path, "md"))
    assert figure is not None
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [1, 2, 3, 4, 5, 6, 7]
    assert [bar.get_x() for bar in axes.patches] == [0, 1, 3, 6, 10, 15, 21]
    assert [text.get_text() for text in axes.texts] == ["28 s"]


def test_full_leaves_the_others_room(tmp_path: Path) -> None:
    drawn = [draws_of(group) for group in study(tmp_path, "full", "md", "fedavg").groups]
    with house_style():
        figure = draw_N(drawn)
    assert figure is not None
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == ["md", "fedavg\nbiased"]


def test_legends_fit() -> None:
    assert legend_columns(["md", "uniform", "poisson", "clustered"]) == 4
    assert legend_columns(["clustered-similarity"] * 4) == 2
    assert legend_columns(["x" * 80] * 2) == 1
