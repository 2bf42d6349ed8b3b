"""The report as one HTML page that needs nothing but itself."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import fedmpi
from fedmpi.report import text
from fedmpi.report.draws import Draws
from fedmpi.report.figures import Picture
from fedmpi.report.figures.style import look
from fedmpi.report.format import printable
from fedmpi.report.page.stylesheet import CSS
from fedmpi.report.study import Study
from fedmpi.report.tables import Table

MOST_ROWS = 400
"""Longer tables are in their CSV file only."""

MOST_UNFOLDED = 24
"""Longer tables of ranks are folded away."""

# No script, no connection: what the page may do, should someone slip markup into a record after all.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Material:
    """All that a page is made of."""

    study: Study
    drawn: Sequence[Draws]
    pictures: Sequence[Picture]
    tables: Mapping[str, Table]


def page(material: Material) -> str:
    """The whole document."""
    study = material.study
    name = printable(study.first.config.run.name)
    title = f"{name}: {text.count(len(study.groups), 'sampling scheme')}" + " compared" * (len(study.groups) > 1)
    sections = [opening(material), learning(material), time(material), sampling(material), ranks(material)]
    sections += [provenance(material), meaning()]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · fedmpi</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>
<p class="lead">{escape(text.what(study))}</p></header>
<main>
{"".join(sections)}
</main>
<footer><p>Made by fedmpi {escape(fedmpi.__version__)} from {text.count(len(study.runs), "record")}.</p></footer>
</body>
</html>
"""


def opening(material: Material) -> str:
    """Warnings and the comparison."""
    study = material.study
    warned = text.warnings(study)
    warning = f'<div class="warn" role="note"><strong>Read this first</strong>{bullets(warned)}</div>' if warned else ""
    return warning + table(material, "schemes")


def learning(material: Material) -> str:
    """Curves, differences and the cost of a target."""
    loss, accuracy = figures(material, "loss-"), figures(material, "accuracy-")
    parts = [
        heading("What a loss costs"),
        loss or "<p>No run was evaluated (eval.every = 0), so there is no loss to show.</p>",
    ]
    if loss:
        parts += [table(material, "target")]
        parts += [accuracy or "<p>No accuracies: this problem has no test data.</p>"]
    if len(material.study.groups) > 1 and loss:
        outcome = f"<div>{bullets(text.outcome(material.study))}</div>"
        parts += [heading(f"Against {material.study.reference.label}, seed by seed")]
        parts += [beside(figures(material, "difference"), outcome)]
    return "".join(parts)


def time(material: Material) -> str:
    """Phases, with what each of them is."""
    glossary = definitions(text.phase_meanings())
    both = beside(figures(material, "phases"), f"<div>{glossary}</div>")
    return heading("Where the time goes") + both + table(material, "phases") + table(material, "bytes")


def sampling(material: Material) -> str:
    """The verdict in words, what was drawn, and who took part."""
    verdicts = bullets([sentence for d in material.drawn for sentence in d.sentences])
    pictures = figures(material, "draws-") + "".join(map(figure, named(material, "participation")))
    both = f'<div class="figures"><div>{verdicts}</div>{pictures}</div>'
    parts = [heading("Was the sampling what it should be?"), both, table(material, "draws")]
    return "".join([*parts, folded("Every client's participation", table(material, "clients"))])


def ranks(material: Material) -> str:
    """How the ranks spent their time, and where the clients live."""
    every = table(material, "ranks")
    if len(material.tables["ranks"].rows) > MOST_UNFOLDED:
        return heading("Ranks and placement") + beside(figures(material, "ranks"), folded("Every rank", every))
    return heading("Ranks and placement") + beside(figures(material, "ranks"), f"<div>{every}</div>")


def provenance(material: Material) -> str:
    """What was run, on what, and how to run it again."""
    study = material.study
    config = study.first.config.to_toml()
    return "".join(
        [
            heading("What was run, and how to run it again"),
            definitions(text.where(study)),
            folded("The records", table(material, "records", kind="words")),
            "<h3>Again</h3>",
            f"<p>With <code>{text.CONFIG_FILE}</code> from this directory each record comes from:</p>",
            code("\n".join(text.again(study))),
            "<p>The same config and seed give the same θ, bit for bit, on any number of ranks. Seconds differ.</p>",
            folded("As the records remember their commands", code("\n".join(text.recorded_commands(study)))),
            folded(text.CONFIG_FILE, code(config)),
        ]
    )


def meaning() -> str:
    return heading("What the numbers mean") + definitions(text.glossary())


def named(material: Material, start: str) -> list[Picture]:
    """The pictures whose names start so."""
    return [picture for picture in material.pictures if picture.name.startswith(start)]


def figures(material: Material, start: str) -> str:
    """Those pictures side by side where there is room."""
    chosen = "".join(map(figure, named(material, start)))
    return f'<div class="figures">{chosen}</div>' if chosen else ""


def beside(left: str, right: str) -> str:
    """Both next to each other on a screen, one below the other on a phone."""
    return f'<div class="beside">{left}{right}</div>'


def figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg).decode()
    name = escape(picture.name)
    return (
        f'<figure id="{name}"><h3>{escape(picture.title)}</h3>'
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.alt)}">'
        f"<figcaption>{escape(picture.caption)} "
        f'<span class="files"><a href="{name}.png">PNG</a> · <a href="{name}.pdf">PDF</a></span>'
        "</figcaption></figure>\n"
    )


def table(material: Material, name: str, kind: str = "") -> str:
    found = material.tables[name]
    files = (("csv", "CSV"), ("tex", "LaTeX"), ("txt", "text"))
    links = " · ".join(f'<a href="{name}.{suffix}">{title}</a>' for suffix, title in files)
    said = found.caption
    if not found.rows:
        return f"<p>{escape(said)}</p>"
    if len(found.rows) > MOST_ROWS:
        shown, said = "", f"{said} {len(found.rows)} rows: in the files only."
    else:
        shown = f'<div class="{kind}">{html_table(found, chips(material.study))}</div>'
    return f'{shown}<p class="caption">{escape(said)} <span class="files">{links}</span></p>'


def html_table(table: Table, chip: Callable[[str], str]) -> str:
    """A <table>; chip gives the mark put before a row's name."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in table.titles)
    body = "".join(
        f'<tr><th scope="row">{chip(row[0])}{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in table.shown()
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def chips(study: Study) -> Callable[[str], str]:
    """The colour of a scheme, as a mark before its name in a table."""
    colours = {group.label: look(group).colour for group in study.groups}
    return lambda label: f'<span class="chip" style="background:{colours[label]}"></span>' if label in colours else ""


def heading(text: str) -> str:
    return f"\n<h2>{escape(text)}</h2>\n"


def bullets(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else ""


def definitions(pairs: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in pairs) + "</dl>"


def folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>\n"


def code(text: str) -> str:
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>\n'
