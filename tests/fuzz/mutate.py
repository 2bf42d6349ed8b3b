"""Damage to bytes: the same number gives the same damage."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

INTERESTING = (
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\x00" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\x00" * 7 + b"\x80",
    b"\x01\x00\x00\x00\x00\x00\x00\x00", b"\n", b"\r", b'"', b"'", b"\\", b"[", b"]", b"{", b"}", b"=", b".", b",",
    b"#", b"nan", b"inf", b"-1", b"1e999", b"99999999999999999999", b"\xef\xbb\xbf", "\u2028".encode(), b"\xed\xa0\x80",
    b"../",
)  # fmt: skip


def damaged(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The content with one to four injuries."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        content = rng.choice(INJURIES)(rng, content, others)
    return content


def place(rng: Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def flip(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at, new = place(rng, content), rng.choice(INTERESTING)
    return content[:at] + new + content[at + len(new) :]


def insert(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at = place(rng, content)
    return content[:at] + rng.choice(INTERESTING) + content[at:]


def truncate(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return content[: place(rng, content)]


def delete(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at = place(rng, content)
    return content[:at] + content[at + rng.choice((1, 2, 8, 64, 512)) :]


def repeat(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at, length = place(rng, content), rng.choice((1, 8, 64, 512))
    return content[:at] + content[at : at + length] * rng.choice((2, 3, 50)) + content[at + length :]


def move(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A block of the content, over another place of it."""
    at, to, length = place(rng, content), place(rng, content), rng.choice((4, 8, 32, 256))
    return content[:to] + content[at : at + length] + content[to + length :]


def splice(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else content
    return content[: place(rng, content)] + other[place(rng, other) :]


def noise(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    at, length = place(rng, content), rng.choice((4, 16, 100))
    return content[:at] + rng.randbytes(length) + content[at + length :]


INJURIES = (flip, flip, overwrite, overwrite, insert, truncate, delete, repeat, move, splice, noise)
