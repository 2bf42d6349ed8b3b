"""Writes the generated parts of the documentation: tables of settings, presets, schemes, commands and datasets.

    python tools/docs.py            rewrite them in README.md and docs/*.md
    python tools/docs.py --check    change nothing; exit with 1 and show the differences if a page is out of date

A page is hand-written except for its blocks:

    <!-- generated: settings run -->
    … replaced by what settings("run") returns …
    <!-- end -->
"""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from fedmpi.cli import cli
from fedmpi.config import Config, declared_keys, presets
from fedmpi.config.toml import toml_value
from fedmpi.record.schema import SCHEMA, DatasetSpec, Field
from fedmpi.sampling import SCHEMES

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- generated: (\w+) ?([^\n]*?) -->\n).*?(<!-- end -->)", re.S)

# What a value of each declared type is in TOML.
TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "boolean",
    "dict[str, Any]": "table",
    "Any": "string or list of numbers",
    "tuple[str, ...]": "list of strings",
    "tuple[float, ...]": "list of numbers",
    "tuple[tuple[int, int], ...]": "list of pairs of integers",
}
NUMBERS = {"i": "int", "f": "float"}
COLUMNS = ("type", "unit", "symbol", "meaning", "if absent")
MOST_DIFFERENCES = 40


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def settings(section: str) -> str:
    """Every key of one table of the configuration."""
    rows = []
    for dotted, declared in declared_keys():
        if dotted.split(".")[0] == section:
            about = declared.metadata
            default = {} if dotted == "sampling.options" else declared.default
            unit, limits = about["unit"] or "–", allowed(about) or "–"
            rows.append([f"`{dotted}`", TYPES[str(declared.type)], f"`{toml_value(default)}`", unit, limits])
            rows[-1].append(about["meaning"])
    return table(["key", "type", "default", "unit", "allowed", "meaning"], rows)


def allowed(about: Any) -> str:
    """The limits or choices of a key: "≥ 1, ≤ 1,000" or "`a`, `b`"."""
    limits = ((sign, about[name]) for sign, name in (("≥", "least"), (">", "above"), ("≤", "most")))
    found = [f"{sign} {limit:,}" for sign, limit in limits if limit is not None]
    found += [f"`{choice}`" for choice in about["choices"]]
    found += [f"must match `{about['pattern']}`"] if about["pattern"] else []
    return ", ".join(found)


def preset_list(_: str) -> str:
    """Every preset with the comment in its first line."""
    first_lines = ((name, path.read_text(encoding="utf-8").splitlines()[0]) for name, path in presets().items())
    return table(["preset", "what"], ([f"`{name}`", line.removeprefix("# ")] for name, line in first_lines))


def scheme_list(_: str) -> str:
    """Every sampling scheme with what it draws, whether it is biased, what it sees and its own settings."""
    sees = {"norm": "every client's ‖p_i Δ_i‖, before it draws", "loss": "its candidates' losses, before it draws"}
    rows = []
    for name, scheme in SCHEMES.items():
        seen = "the updates, after each round" if scheme.observes else sees.get(scheme.probe or "", "–")
        options = ", ".join(f"`sampling.{option}`" for option in scheme.options) or "–"
        rows.append([f"`{name}`", scheme.summary, "no" if scheme.biased else "yes", seen, options])
    return table(["scheme", "what it draws, with which weights", "unbiased", "sees", "settings"], rows)


def command_list(_: str) -> str:
    """Every command of the command line with the first sentence of its help."""
    context = click.Context(cli)
    rows = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts = command.commands.items() if isinstance(command, click.Group) else []
        rows.append([f"`fedmpi {name}`", first_sentence(command)])
        rows += [[f"`fedmpi {name} {part}`", first_sentence(each)] for part, each in parts]
    return table(["command", "what it does"], rows)


def first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def record(_: str) -> str:
    """Every dataset of a record: tables one by one, then the datasets that are no tables."""
    parts = []
    for dataset in filter(is_table, SCHEMA):
        rows = [[f"`{field.name}`", *described(field)] for field in dataset.fields]
        title = f"### `{dataset.path}`\n\nTable of shape {shape(dataset)}: {dataset.meaning}."
        parts.append(f"{title}\n\n{table(['column', *COLUMNS], rows)}")
    plain = [dataset for dataset in SCHEMA if not is_table(dataset)]
    rows = [[f"`{dataset.path}`", shape(dataset), *described(dataset.fields[0])] for dataset in plain]
    parts.append(f"### Plain datasets\n\n{table(['dataset', 'shape', *COLUMNS], rows)}")
    return "\n\n".join(parts)


def is_table(dataset: DatasetSpec) -> bool:
    return bool(dataset.fields[0].name)


def shape(dataset: DatasetSpec) -> str:
    return f"({', '.join(dataset.shape)}{',' if len(dataset.shape) == 1 else ''})"


def described(field: Field) -> list[str]:
    """The cells of COLUMNS for a column: "<f8" is "float64", "S16" is "text, 16 bytes"."""
    kind, size = field.dtype.lstrip("<|")[0], int(field.dtype.lstrip("<|")[1:])
    named = f"text, {size} bytes" if kind == "S" else f"{NUMBERS[kind]}{8 * size}"
    absent = "error" if field.essential else '""' if kind == "S" else str(field.default).replace("nan", "NaN")
    return [named, field.unit or "–", field.symbol or "–", field.meaning, absent]


def output(arguments: str) -> str:
    """A command and what it prints."""
    done = CliRunner().invoke(cli, shlex.split(arguments), catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(f"fedmpi {arguments}: {done.output}")
    return f"```\n$ fedmpi {arguments}\n{done.output}```"


GENERATORS: dict[str, Callable[[str], str]] = {
    "settings": settings,
    "presets": preset_list,
    "schemes": scheme_list,
    "commands": command_list,
    "record": record,
    "output": output,
}


def regenerated(text: str) -> str:
    """The text of a page with its blocks as the code has them now."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{GENERATORS[block[2]](block[3])}\n\n{block[4]}", text)


def pages() -> list[Path]:
    """The pages that may have generated blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def missing_blocks(texts: Iterable[str]) -> list[str]:
    """What no page documents: tables of the configuration, or whole lists."""
    wanted = {("settings", section.name) for section in fields(Config)}
    wanted |= {(name, "") for name in ("presets", "schemes", "commands", "record")}
    found = {(block[2], block[3]) for text in texts for block in BLOCK.finditer(text)}
    return sorted(" ".join(block).strip() for block in wanted - found)


def main(arguments: Sequence[str]) -> int:
    """Rewrite the pages; with --check, print what would change and return 1 if anything would."""
    old = {page: page.read_text(encoding="utf-8") for page in pages()}
    new = {page: regenerated(text) for page, text in old.items()}
    if missing := missing_blocks(old.values()):
        print(f"no page has a block for: {', '.join(missing)}", file=sys.stderr)
        return 1
    changed = [page for page in old if new[page] != old[page]]
    if "--check" not in arguments:
        for page in changed:
            page.write_text(new[page], encoding="utf-8")
        return 0
    for page in changed:
        name = str(page.relative_to(ROOT))
        lines = difflib.unified_diff(old[page].splitlines(), new[page].splitlines(), name, "as generated", lineterm="")
        print("\n".join(itertools.islice(lines, MOST_DIFFERENCES)), file=sys.stderr)
        print(f"{name} is not what the code says: run `make docs`", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
