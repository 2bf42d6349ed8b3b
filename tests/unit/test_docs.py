"""The documentation is current and whole: generated tables, links, file names, settings and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest

import fedmpi
from fedmpi.cli import cli
from fedmpi.config import declared_keys, presets
from fedmpi.record import Record
from fedmpi.sampling import SCHEMES
from tests.support.rooms import ORDER
from tools import docs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGES.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [ROOT / "benchmarks/peers/README.md", ROOT / "hostfiles/README.md"]
# The change log names files as they were.
CURRENT = [page for page in PAGES if page.name != "CHANGES.md"]
LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"```(\w*)\n(.*?)```", re.S)
FOLDERS = ("fedmpi", "tests", "docs", "benchmarks", "launch", "hostfiles", "tools", "examples")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
current_pages = pytest.mark.parametrize("page", CURRENT, ids=name_of)


def test_generated_parts_are_current() -> None:
    assert docs.main(["--check"]) == 0


def test_the_check_finds_a_page_that_is_not_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "docs").mkdir()
    for page in docs.pages():
        (tmp_path / name_of(page)).write_text(text_of(page).replace("| `run.T` |", "| `run.tea` |"))
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert docs.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "-| `run.tea` |" in told
    assert "+| `run.T` |" in told
    assert "docs/settings.md is not what the code says: run `make docs`" in told
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    assert "`run.T`" in text_of(tmp_path / "docs/settings.md")


def test_a_list_that_no_page_has_is_missed() -> None:
    texts = [text_of(page) for page in docs.pages()]
    assert docs.missing_blocks(texts) == []
    without = [text.replace("<!-- generated: settings comm -->", "") for text in texts]
    assert docs.missing_blocks(without) == ["settings comm"]


def test_the_readme_is_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 150


def slug(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    kept = "".join(c for c in heading.strip().lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text_of(page)), re.M)}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file, anchor) of every link to a file of this repository."""
    for target in LINK.findall(FENCED.sub("", text_of(page))):
        parts = urlsplit(target)
        if not parts.scheme:
            yield (page.parent / parts.path).resolve() if parts.path else page, parts.fragment


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{name_of(target)} has no heading #{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            ahead += [target for target, _ in links(page)]
    assert reached >= set((ROOT / "docs").glob("*.md"))
    assert ROOT / "CONTRIBUTING.md" in reached


@current_pages
def test_named_files_exist(page: Path) -> None:
    """Every path that begins with a folder of the repository."""
    for path in re.findall(rf"\b(?:{'|'.join(FOLDERS)})/[\w./*-]*\w(?:/(?=[\s`),.]))?", text_of(page)):
        assert list(ROOT.glob(path.rstrip("/"))), path


@every_page
def test_make_targets_exist(page: Path) -> None:
    makefile = text_of(ROOT / "Makefile")
    for target in re.findall(r"`make ([a-z0-9-]+)", text_of(page)):
        pattern = re.sub(r"^test-mpi-\d$", "test-mpi-%", target)
        assert re.search(rf"^{pattern}:", makefile, re.M), target


@current_pages
def test_named_settings_exist(page: Path) -> None:
    keys = {key for key, _ in declared_keys()}
    tables = {key.split(".")[0] for key in keys}
    text = text_of(page)
    named = re.findall(r"-s ([a-z]+\.[\w.]+)=", text)
    named += re.findall(rf"`((?:{'|'.join(tables)})\.[A-Za-z_]+)(?: = [^`]*)?`", text)
    # What is not a setting: client.py, and record.rounds of an open record.
    others = ("py", "h5", *dir(Record))
    for key in named:
        assert key in keys or key.startswith("sampling.options.") or key.partition(".")[2] in others, key


def commands(text: str) -> Iterator[list[str]]:
    """The words after `fedmpi` of every command in a page: in blocks, and between backticks."""
    blocks = [content for language, content in FENCED.findall(text) if language in ("", "sh")]
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`]*\bfedmpi [^`]*)`", FENCED.sub("", text).replace("\n", " "))
    for line in lines:
        if re.match(r"(\$ |mpirun [^#]*|srun [^#]*)?fedmpi [a-z]", line):
            yield shlex.split(line[line.index("fedmpi ") :], comments=True)[1:]


@current_pages
def test_named_commands_and_options_exist(page: Path) -> None:
    context = click.Context(cli)
    for words in commands(text_of(page)):
        command: click.Command | None = cli
        while isinstance(command, click.Group) and words and re.fullmatch("[a-z]+", words[0]):
            command = command.get_command(context, words[0])
            assert command, words
            words = words[1:]
        options = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
        assert given <= options, (command.name, given - options)


@current_pages
def test_named_presets_and_schemes_exist(page: Path) -> None:
    text = text_of(page)
    for preset in re.findall(r"\bfedmpi (?:run|sweep|compare) ([a-z][\w-]*)(?=[ `\n])", text):
        assert preset in presets(), preset
    for scheme in re.findall(r"sampling\.scheme=([a-z-]+)(?=[ `\n])", text):
        assert scheme in SCHEMES, scheme


def test_every_block_of_a_page_is_closed() -> None:
    for page in PAGES:
        assert text_of(page).count("```") % 2 == 0, page
        assert text_of(page).count("<!-- generated") == text_of(page).count("<!-- end -->"), page


def test_the_citation_is_of_this_version() -> None:
    citation = text_of(ROOT / "CITATION.cff")
    assert re.findall(r'^version: "?([^"\n]+)"?$', citation, re.M) == [fedmpi.__version__]
    assert re.findall(r'^cff-version: "?([^"\n]+)"?$', citation, re.M) == ["1.2.0"]
    assert re.findall(r"^license: (.+)$", citation, re.M) == ["BSD-3-Clause"]


def rooms() -> Iterator[tuple[list[str], list[str]]]:
    """(paths, names to start with) of every row of the table of rooms in docs/architecture.md."""
    section = text_of(ROOT / "docs/architecture.md").split("## The rooms")[1].split("\n## ")[0]
    for room, start in re.findall(r"^\| (`[^|]*) \| [^|]* \| ([^|]*) \|$", section, re.M):
        yield re.findall(r"`([^`]+)`", room), re.findall(r"`([^`]+)`", start)


def test_the_rooms_are_those_of_the_package() -> None:
    package = [path for path in (ROOT / "fedmpi").iterdir() if not path.name.startswith(("_", "."))]
    there = {f"fedmpi/{path.name}/" for path in package if path.is_dir() and path.name != "launch"}
    there |= {f"fedmpi/{path.name}" for path in package if path.suffix == ".py"}
    assert {path for paths, _ in rooms() for path in paths if path.startswith("fedmpi/")} == there


def test_what_to_start_with_is_in_its_room() -> None:
    for paths, names in rooms():
        files = [
            file for path in paths for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
        ]
        text = "\n".join(map(text_of, files))
        for name in names:
            defined = re.search(rf"^ *(def|class) {name.rpartition('.')[2]}\b", text, re.M)
            assert defined or (ROOT / name).is_file(), (paths, name)


def test_the_direction_of_imports_is_the_one_that_is_enforced() -> None:
    section = text_of(ROOT / "docs/architecture.md").split("## The direction of imports")[1].split("\n## ")[0]
    lines = FENCED.findall(section)[0][1].splitlines()
    order = [rooms for rooms in ORDER if rooms not in ({""}, {"__main__"})]
    assert [set(line.split(", ")) for line in reversed(lines)] == order
