"""Damage that HDF5's checksums do not notice: bytes of object headers changed, and their checksums made right again."""

from __future__ import annotations

import struct
from functools import cache
from random import Random

SIGNATURE = b"OHDR"
MASK = 0xFFFFFFFF


def forged(rng: Random, content: bytes) -> bytes:
    """The file with a few bytes of one or two object headers changed; it still has its right checksums."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2))):
        start, first, end = rng.choice(headers(content))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(first, end)
            changed[at] = rng.choice((0, 1, 255, 127, 128, changed[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        struct.pack_into("<I", changed, end, checksum(bytes(changed[start:end])))
    return bytes(changed)


@cache
def headers(content: bytes) -> list[tuple[int, int, int]]:
    """(start, first byte of its messages, where its checksum stands) of every object header of version 2."""
    found = []
    start = content.find(SIGNATURE)
    while start >= 0:
        flags = content[start + 5]
        length = start + 6 + 16 * (flags >> 5 & 1) + 4 * (flags >> 4 & 1)
        first = length + (1 << (flags & 3))
        end = first + int.from_bytes(content[length:first], "little")
        if content[end : end + 4] == struct.pack("<I", checksum(content[start:end])):
            found.append((start, first, end))
        start = content.find(SIGNATURE, start + 4)
    return found


def checksum(data: bytes) -> int:
    """Jenkins' lookup3, which HDF5 has at the end of its metadata."""
    a = b = c = 0xDEADBEEF + len(data) & MASK
    words = [struct.unpack("<III", data[at : at + 12].ljust(12, b"\0")) for at in range(0, len(data), 12)]
    for x, y, z in words[:-1]:
        a, b, c = mixed(a + x & MASK, b + y & MASK, c + z & MASK)
    x, y, z = words[-1] if words else (0, 0, 0)
    return final(a + x & MASK, b + y & MASK, c + z & MASK)


def turned(x: int, bits: int) -> int:
    return (x << bits | x >> 32 - bits) & MASK


def mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for bits in (4, 6, 8, 16, 19, 4):
        a = (a - c & MASK) ^ turned(c, bits)
        c = c + b & MASK
        a, b, c = b, c, a
    return a, b, c


def final(a: int, b: int, c: int) -> int:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - turned(b, bits) & MASK
        a, b, c = b, c, a
    return b
