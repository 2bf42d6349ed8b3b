"""Reading TOML of bounded size and depth from any source, and writing values as TOML."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_BYTES = 16 << 20
# A key such as a.b.c has three parts. The parser's time grows with the square of their number, and nesting needs stack.
MOST_PARTS = 32
MOST_SHOWN = 80

# Strings and comments, which are skipped, and the characters that separate keys and their parts.
TOKENS = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[.\n=,\[\]{}]",
    re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """The tables of a TOML text, or a ValueError if it is not valid, too large or nested too deeply."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    dots = 0
    for token in TOKENS.finditer(text):
        sign = token[0]
        dots = dots + 1 if sign == "." else 0 if sign in "\n=,[]{}" else dots
        if dots >= MOST_PARTS:
            raise ValueError(f"a key of more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_text(path: Path) -> str:
    """The text of a regular file of bounded size; a ValueError for others, since a pipe or device may never end."""
    if not os.path.isfile(path):
        raise ValueError("it is a directory, a pipe or a device")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    return content.decode("utf-8")


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(str(k))} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return repr(value)


def shown(value: Any) -> str:
    """A value in a message: as TOML writes it, on one line and not too long."""
    try:
        text = toml_value(value[:MOST_SHOWN] if isinstance(value, str | list | tuple) else value)
    except (RecursionError, ValueError):
        # Nested too deeply, or a number with more digits than Python prints.
        return "…"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def plain(text: str) -> str:
    """A name in a message: on one line, not too long, and without control characters."""
    short = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    return "".join(c if c.isprintable() else "\ufffd" for c in short)
