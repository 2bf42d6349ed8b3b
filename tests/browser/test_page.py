"""The report's page in a real browser, from the width of a phone to that of a large screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedmpi.report.write import write_report
from tests.support.chromium import Browser, missing
from tests.support.records import make_record

pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"NOT TESTED IN A BROWSER: {missing()} not found (apt-get install chromium chromium-driver)"
)

WIDTHS = (400, 600, 800, 1000, 1200, 1400, 1600)
LAYOUT = Path(__file__).with_name("layout.js").read_text(encoding="utf-8")
LONG = "a-module-with-a-name-without-end.and_another_one_inside_it:ASchemeOfOnesOwn" * 2


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every figure, a name as long as they come, one that would like to run, and a failed run."""
    home = tmp_path_factory.mktemp("page")
    names = ("<script>document.title='taken'</script>", "x" * 60, "c")
    records = [
        make_record(home / f"{k}-{seed}.h5", scheme, seed, (8, 4 + seed, 3 + k), names=names, accuracy=0.5)
        for k, scheme in enumerate(("md", "uniform", "fedavg", LONG))
        for seed in (1, 2)
    ]
    records.append(make_record(home / "broken.h5", "md", 3, (8, 7), failure="<b>broke</b> " + "w" * 200, T=2))
    return write_report(records, home / "out").page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with numbers of every size: seeds that differ, times from microseconds to hours, losses that explode."""
    home = tmp_path_factory.mktemp("plain")
    accuracies = {1: 0.97531, 2: 0.98642}
    ends = {"md": (2.123456, 2.234567), "uniform": (3e9, 4e9), "clustered-similarity": (1e-7, 2e-7)}
    records = [
        make_record(
            home / f"{scheme}-s{seed}.h5",
            scheme,
            seed,
            (8.111, 4.222, ends[scheme][seed - 1]),
            scale=scale * seed,
            accuracy=accuracies[seed],
        )
        for scheme, scale in (("md", 1.234e-6), ("uniform", 1.234e-2), ("clustered-similarity", 1234.5))
        for seed in (1, 2)
    ]
    return write_report(records, home / "out").page


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "open"])
@pytest.mark.parametrize("width", WIDTHS)
def test_all_of_a_plain_page_fits(browser: Browser, plain: Path, width: int, folded: bool) -> None:
    """No table has to be scrolled, nothing is cut off, no number breaks."""
    browser.open(plain, width)
    if not folded:
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = browser.run(LAYOUT)
    assert found["problems"] == []
    assert found["scrolling"] == 0
    assert found["numbers"] > 200


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_whatever_the_names(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run(LAYOUT)["problems"] == []


@pytest.mark.parametrize("width", [800, 1200])
def test_a_table_that_is_too_wide_is_seen_to_scroll(browser: Browser, plain: Path, width: int) -> None:
    """What cannot fit is not cut off: its box scrolls, with a shadow at the edge. Without that, it is a problem."""
    browser.open(plain, width)
    browser.run("document.querySelector('td span').textContent = '1234567890'.repeat(40)")
    found = browser.run(LAYOUT)
    assert (found["problems"], found["scrolling"]) == ([], 1)
    browser.run("document.querySelector('.scroll').style.overflowX = 'hidden'")
    assert browser.run(LAYOUT)["problems"]


def test_a_number_that_breaks_is_found(browser: Browser, plain: Path) -> None:
    browser.open(plain, 400)
    browser.run("const p = document.querySelector('p'); p.textContent = '123.456'; p.style.width = '2em'")
    assert any("123.456 is on" in problem for problem in browser.run(LAYOUT)["problems"])


def test_narrow_tables_name_every_value(browser: Browser, plain: Path) -> None:
    """On a phone the rows are cards, and each value has the title of its column."""
    script = (
        "const cell = document.querySelector('tbody td'); return [getComputedStyle(cell, '::before').content,"
        " getComputedStyle(document.querySelector('thead')).display]"
    )
    browser.open(plain, 400)
    assert browser.run(script) == ['"final loss"', "none"]
    browser.open(plain, 1200)
    assert browser.run(script) == ["none", "table-header-group"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_figures_are_seen_nothing_overflows_and_nothing_leaves(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width, dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    figures = browser.run(
        "return [...document.querySelectorAll('figure img')].map(i => { const box = i.getBoundingClientRect();"
        " return {name: i.closest('figure').id, loaded: i.complete && i.naturalWidth > 0, left: box.left,"
        " right: box.right, height: box.height, shown: i.checkVisibility({opacityProperty: true}) } })"
    )
    assert len(figures) == 12
    for figure in figures:
        assert figure["loaded"], figure
        assert figure["shown"], figure
        assert figure["height"] > 80, figure
        assert 0 <= figure["left"] < figure["right"] - 200 <= width - 200, figure
    sizes = browser.run("const e = document.documentElement; return [e.scrollWidth, e.clientWidth, innerWidth]")
    assert sizes == [width] * 3
    assert browser.console() == []
    asked = [address for address in browser.requests() if not address.startswith("data:")]
    assert asked == [page.resolve().as_uri()]


def test_names_stay_text(browser: Browser, page: Path) -> None:
    browser.open(page, 1400)
    title, text = browser.run("return [document.title, document.body.textContent]")
    assert title == "run: 4 sampling schemes compared · fedmpi"
    assert "<script>document.title='taken'</script>" in text
    assert "<b>broke</b>" in text
    assert browser.run("return document.scripts.length + document.querySelectorAll('b').length") == 0


def test_text_is_legible_on_a_phone(browser: Browser, page: Path) -> None:
    browser.open(page, 400)
    smallest = browser.run(
        "return Math.min(...[...document.querySelectorAll('p, li, dd, td, th, figcaption, code')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert smallest >= 12


def test_folded_parts_are_printed(browser: Browser, page: Path) -> None:
    """What is folded away on the screen is there on paper: the printed page is longer than without it."""
    browser.open(page, 1400)
    whole = len(browser.printed())
    browser.run("document.querySelectorAll('details').forEach(d => d.remove())")
    assert len(browser.printed()) < whole
