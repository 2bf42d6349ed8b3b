"""The plain-text Complete Works of Shakespeare (Project Gutenberg, etext 100), split as LEAF does.

The rules are those of LEAF's preprocessing (Caldas et al. 2018, after McMahan et al. 2017), so that counts agree: a
play begins at `by William Shakespeare`, its title is the nearest line with words above; `  ROLE. words` begins a
speech and lines with four spaces continue it (no indentation in The Comedy of Errors); a role needs more than two
lines, a play more than one role; line breaks and runs of spaces become one space. Indented stage directions stay in.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fedmpi.data.sources.archive import read_file
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.roles import Roles, write_roles
from fedmpi.errors import DataError

MOST_BYTES = 64 << 20
LICENCE = "public domain text; Project Gutenberg's terms apply to its editions"

AUTHOR = "by William Shakespeare"
TITLE_ABOVE = range(2, 8)
LONGEST_NAME = 100
FEWEST_LINES = 3
INDENTED = re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)"), re.compile(r"    (.*)")
FLUSH = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)"), re.compile(r"(.*)")
FLUSH_PLAY = "THE COMEDY OF ERRORS"
END = re.compile(r"\*\*\* ?END OF|End of (the |this )?Project Gutenberg", re.IGNORECASE)


def import_gutenberg(source: Path) -> Path:
    """The cached file of the Complete Works at `source`."""
    content = read_file(source, MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    plays = split_works(text)
    clients: dict[str, tuple[str, list[str]]] = {}
    for title, roles in plays:
        for role, words in roles.items():
            name = re.sub(r"\W+", "_", f"{title}_{role[:LONGEST_NAME]}")
            # Two spellings of a name that differ in punctuation only are one user in LEAF.
            clients.setdefault(name, (title, []))[1].append(words)
    named = [(title, name, "".join(words)) for name, (title, words) in clients.items()]
    if not named:
        raise DataError(f"{source}: no plays found; is it the plain text of Project Gutenberg's etext 100?")
    path = cached("gutenberg")
    digest = hashlib.sha256(content).hexdigest()
    write_roles(path, named, {"source": source.name, "sha256": digest, "licence": LICENCE})
    return path


def split_works(text: str) -> list[tuple[str, Roles]]:
    """[(title, {role: its text})] of the plays, in order."""
    lines = after_sonnets(text.splitlines()[1:])
    plays: list[tuple[str, dict[str, list[str]]]] = []
    speaker = ""
    for number, line in enumerate(lines):
        if END.match(line):
            break
        if AUTHOR in line:
            plays.append((title_above(lines, number), {}))
            speaker = ""
            continue
        if plays:
            title, roles = plays[-1]
            speaker, words = speech(line, speaker, flush=title == FLUSH_PLAY)
            if words is not None:
                roles.setdefault(speaker, []).append(words)
    return [(title, joined(roles)) for title, roles in plays if len(roles) > 1]


def after_sonnets(lines: list[str]) -> list[str]:
    """The lines from the second work on: the sonnets, which come first, have no roles."""
    works = [number for number, line in enumerate(lines) if AUTHOR in line]
    return lines[max(0, works[1] - TITLE_ABOVE.stop) :] if len(works) > 1 else lines


def title_above(lines: list[str], author: int) -> str:
    """The nearest line with words, two to seven lines above the author's."""
    above = [lines[author - distance].strip() for distance in TITLE_ABOVE if author >= distance]
    return next((line[:LONGEST_NAME] for line in above if line), "UNTITLED")


def speech(line: str, speaker: str, flush: bool) -> tuple[str, str | None]:
    """(who speaks after this line, the words it adds to their text or None)."""
    begin, go_on = FLUSH if flush else INDENTED
    if match := begin.fullmatch(line):
        role = match[1].upper()
        return ("", None) if flush and role.startswith("ACT ") else (role, match[2])
    match = go_on.fullmatch(line) if speaker else None
    if not match:
        return speaker, None
    if flush and match[1].startswith("<"):
        return "", None
    return speaker, match[1]


def joined(roles: dict[str, list[str]]) -> Roles:
    """The texts of the roles with more than two lines; every line ends in a space, and runs of spaces become one."""
    return {
        role: re.sub(" {2,}", " ", "".join(f"{line} " for line in lines))
        for role, lines in roles.items()
        if len(lines) >= FEWEST_LINES
    }
