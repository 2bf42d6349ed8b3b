"""Names that people and files give: none leads out of the chosen directory, none becomes markup on the page."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest

from fedmpi import Config, run
from fedmpi.config import parse_override
from fedmpi.errors import ConfigError, FedmpiError
from fedmpi.job.sweep import cells, file_name
from fedmpi.report.write import write_report
from tests.support.records import make_record

OUTWARD = ("../../x", "/etc/x", "..", ".", "a/b", "a\0b", "a\nb", "-rf", "", "~/x", "a\\b", "x" * 300, "\u202egpj.exe")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg><script>alert(1)</script>",
    "]]><!--<script>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "\x1b[2J\u202e\u2028",
)


@pytest.mark.parametrize("name", OUTWARD)
def test_no_name_of_a_run_leads_out_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = tmp_path / "deep" / "home"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    with pytest.raises(ConfigError, match=r"run\.name"):
        run(Config.load("quadratic", {"run.name": name, "run.T": 1}))
    with pytest.raises(ConfigError):
        Config.load("quadratic", dict([parse_override(f"run.name={json.dumps(name)}")]))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", [*OUTWARD, *HOSTILE, "package.module:Class"])
def test_schemes_and_importances_of_a_sweep_stay_in_its_folder(name: str) -> None:
    assert re.fullmatch(r"[\w.-]*", file_name(name))
    settings = {"sweep.schemes": [name], "sweep.importances": [name], "run.name": "x"}
    folder = Path("chosen")
    for cell in cells(Config.load("quadratic", settings), folder):
        for path in cell.paths:
            assert path.parent == folder
            assert path.name.startswith("x-n20-m5-")


@pytest.mark.parametrize("output", ["x" * 300 + ".h5", "", "/proc/nowhere/x.h5"])
def test_an_output_that_cannot_be_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = Config.load("quadratic", {"run.T": 1, "run.name": "fallback"})
    if output == "":
        assert run(config, output) == Path("fallback.h5")
        return
    with pytest.raises(FedmpiError):
        run(config, output)
    with pytest.raises(FedmpiError):
        write_report([make_record(tmp_path / "a.h5")], output if output != "x" * 300 + ".h5" else "x" * 300)


class Page(HTMLParser):
    """Every tag with its attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def hostile_record(path: Path, seed: int, bad: str) -> Path:
    """A true record in which all that is a name or a message is hostile."""
    settings = {"client.device": bad, "sampling.options": {"a": bad}, "sampling.importance": "ratio"}
    make_record(path, f"m:{bad}", seed, settings=settings, names=(bad, bad[:20], "c"), failure=bad if seed == 2 else "")
    with h5py.File(path, "r+") as file:
        for name in ("command", "mpi_library", "created", "software_version", "torch_version"):
            file.attrs[name] = np.bytes_(bad.encode())
        file.attrs["hosts"] = np.array([bad.encode(), b"b"])
        for name in ("host", "device"):
            rows = file[f"/ranks/{name}"][()]
            rows[:] = bad.encode()
            file[f"/ranks/{name}"][()] = rows
    return path


TAGS = {"html", "head", "meta", "title", "link", "style", "body", "header", "main", "footer", "h1", "h2", "h3", "p"}
TAGS |= {"div", "span", "ul", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "figure", "img", "a"}
TAGS |= {"figcaption", "details", "summary", "pre", "code", "strong"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "rel", "href", "class", "role", "scope", "tabindex"}
ATTRIBUTES |= {"aria-label", "data-label", "id", "src", "alt", "style"}


@pytest.mark.parametrize("bad", HOSTILE)
def test_the_page_shows_hostile_names_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    figures = "fedmpi.report.figures.figure_specs"
    if bad != HOSTILE[0]:
        # The figures take seconds, and one page of them is enough.
        monkeypatch.setattr(figures, lambda *given: iter(()))
    records = [hostile_record(tmp_path / f"{seed}.h5", seed, bad) for seed in (1, 2)]
    made = write_report(records, tmp_path / "out")
    page = Page(made.page.read_text(encoding="utf-8"))
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    for _, attributes in page.tags:
        assert re.fullmatch(r"data:.*|[\w-]+\.\w+", attributes.get("href") or "data:")
        assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
        assert re.fullmatch(r"background:#[0-9a-f]{6}", attributes.get("style") or "background:#000000")
    assert "".join(c if c.isprintable() else "\ufffd" for c in f"m:{bad}") in page.text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", page.text)
    for tag, attributes in page.tags:
        if tag == "img":
            check_svg(base64.b64decode((attributes["src"] or "").partition(",")[2]))
    for path in (tmp_path / "out").glob("*.csv"):
        assert "\x1b" not in path.read_text(encoding="utf-8")


def check_svg(content: bytes) -> None:
    """A picture: well-formed, without scripts, handlers or anything from elsewhere."""
    for element in ElementTree.fromstring(content).iter():
        assert str(element.tag).rpartition("}")[2] not in ("script", "foreignObject", "iframe", "image")
        for name, value in element.attrib.items():
            assert not name.rpartition("}")[2].startswith("on")
            if name.endswith("href"):
                assert value.startswith("#")
