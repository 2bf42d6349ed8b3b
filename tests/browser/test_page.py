"""The report's page in a real browser, on a phone's width and a screen's."""

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

WIDTHS = (400, 1400)
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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
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
