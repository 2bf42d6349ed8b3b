"""Reading archives from others: nothing is extracted to disk, only plain files are read, and sizes are bounded."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from fedmpi.errors import DataError

MOST_MEMBERS = 1000
# Headers that only name or describe the next member; Python takes the square of their length to read them.
NAMING = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
LONGEST_NAMING = 1 << 13
BLOCK = 1 << 20


def read_members(path: Path, wanted: Callable[[str], bool], most_bytes: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the wanted files of a .tar.gz, in its order, read straight from it.

    Raises a DataError for names that lead out of a folder, links and devices, more than 1,000
    members, a name twice, and more than `most_bytes` when unpacked (counted while unpacking, so that a bomb is cheap).
    """
    seen: set[str] = set()
    try:
        with gzip.open(path, "rb") as unpacked:
            bounded = Bounded(unpacked, most_bytes, path)
            with tarfile.open(fileobj=bounded, mode="r|", tarinfo=Header) as archive:
                for member in archive:
                    check_member(path, member, seen, most_bytes)
                    if not member.isfile() or not wanted(member.name):
                        continue
                    file = archive.extractfile(member)
                    content = file.read() if file else b""
                    if len(content) != member.size:
                        raise DataError(f"{path}: '{member.name}' is cut short; get the archive again")
                    yield member.name, content
            # Read to the end, so that gzip checks its checksum.
            while bounded.read(BLOCK):
                pass
    except (tarfile.TarError, EOFError, zlib.error, OSError, LookupError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a whole .tar.gz archive ({error}); get it again") from None


class Header(tarfile.TarInfo):
    """A member's header; one of an implausible size is rejected before its content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in NAMING and header.size > LONGEST_NAMING):
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


def check_member(path: Path, member: tarfile.TarInfo, seen: set[str], most_bytes: int) -> None:
    name = member.name
    if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts or ":" in name:
        raise DataError(f"{path}: refused, because its member {name!r} leads out of the archive")
    if not (member.isfile() or member.isdir()):
        raise DataError(f"{path}: refused, because its member {name!r} is a link or a device")
    if member.size > most_bytes:
        raise DataError(f"{path}: refused, because its member {name!r} has {member.size} bytes, over {most_bytes}")
    if name in seen:
        raise DataError(f"{path}: refused, because it holds {name!r} twice")
    seen.add(name)
    if len(seen) > MOST_MEMBERS:
        raise DataError(f"{path}: refused, because it has more than {MOST_MEMBERS} members")


class Bounded(io.RawIOBase):
    """A stream that raises a DataError after `most` bytes."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, most: int, path: Path) -> None:
        self.stream, self.most, self.path, self.count = stream, most, path, 0

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(min(size, BLOCK) if size >= 0 else BLOCK)
        self.count += len(block)
        if self.count > self.most:
            raise DataError(f"{self.path}: refused, because it unpacks to more than {self.most} bytes")
        return block


def read_file(path: Path, most_bytes: int) -> bytes:
    """The content of a plain file of at most `most_bytes`; a DataError for any other."""
    if not os.path.isfile(path):
        raise DataError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > most_bytes:
        raise DataError(f"{path}: refused, because it has more than {most_bytes} bytes")
    return content


def sha256_of(path: Path, most_bytes: int) -> str:
    """The SHA-256 of such a file, in hexadecimal."""
    return hashlib.sha256(read_file(path, most_bytes)).hexdigest()
