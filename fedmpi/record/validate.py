"""Opening a file that may be a record, damaged or made to do harm: what HDF5 could not cope with is refused before.

Records are written in HDF5's latest format, whose metadata carries checksums; older formats, which do not, are not
opened at all. The strings of a file's attributes have a fixed length and stand in that metadata too. Earlier records
kept them in a global heap, which has no checksum and in which HDF5 can go in circles: theirs is walked here first.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fedmpi.errors import RecordError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Where a file's superblock tells its version, and whether a writer has it open or never closed it.
VERSION, FLAGS, HEAD = 8, 11, 12
CHECKSUMMED = (2, 3)
# HDF5 reads metadata that fails its checksum again, as it may just be written, and sleeps 1, 2, 4, … ns in between.
# Its default of 100 attempts takes longer than the universe has; 24 take a sixtieth of a second.
ATTEMPTS = 24
HEAP = b"GCOL\x01\0\0\0"
ROOM = 16 << 20
"""Bytes that a dataset may take beyond the size of its file: what is declared but not written reads as zeros."""
MOST_ATTRIBUTES = 1000
MOST_STRINGS = 1 << 30

# Whatever HDF5 says of a damaged file. MemoryError is not among them: nothing may be read that could cause one.
DAMAGE = (OSError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError)


def is_record(path: str | Path) -> bool:
    """Whether the file is HDF5, by its first bytes."""
    return head_of(Path(path)).startswith(SIGNATURE)


def head_of(path: Path) -> bytes:
    """The first bytes of a plain file; nothing of a pipe or a device, which could keep a reader waiting."""
    try:
        if os.path.isfile(path):
            with path.open("rb") as file:
                return file.read(HEAD)
    except (OSError, ValueError):
        pass
    return b""


def open_file(path: Path) -> h5py.File:
    """The HDF5 file; one that is being written, or whose writer was killed, opens only in SWMR mode."""
    if not os.path.isfile(path):
        raise RecordError(f"{path}: no such record")
    head = head_of(path)
    if not head.startswith(SIGNATURE):
        raise RecordError(f"{path}: not a fedmpi record, nor any other HDF5 file")
    if len(head) < HEAD:
        raise RecordError(f"{path}: not a readable HDF5 file (it is cut short)")
    if head[VERSION] not in CHECKSUMMED:
        raise RecordError(f"{path}: an HDF5 file, but not a fedmpi record")
    mode = h5py.h5f.ACC_RDONLY | (h5py.h5f.ACC_SWMR_READ if head[FLAGS] else 0)
    try:
        return h5py.File(h5py.h5f.open(os.fsencode(path), mode, fapl=patient_access()))
    except DAMAGE as error:
        raise RecordError(f"{path}: not a readable HDF5 file ({first_line(error)})") from None


def patient_access() -> h5py.h5p.PropFAID:
    """How to open: as h5py does, but giving up on damaged metadata after ATTEMPTS."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    # h5py has no name for this function of the library that it is linked with.
    set_attempts = ctypes.CDLL(h5py.h5p.__file__).H5Pset_metadata_read_attempts
    set_attempts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    set_attempts(access.id, ATTEMPTS)
    return access


def read_attributes(path: Path, file: h5py.File) -> dict[str, Any]:
    """The attributes of the file that are numbers, strings or lists of strings; others are left out."""
    limit = path.stat().st_size
    found: dict[str, Any] = {}
    checked = False
    for name in list(file.attrs)[:MOST_ATTRIBUTES]:
        attribute = file.attrs.get_id(name)
        count, kind = np.prod(attribute.shape, dtype=float), attribute.dtype
        string = h5py.check_string_dtype(kind)
        if count * kind.itemsize > limit or attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            continue
        if string is not None and string.length is None:
            if not checked:
                check_heaps(path)
            checked = True
            # Every string of the list may be as long as the file.
            if count * limit > MOST_STRINGS:
                continue
        elif kind.kind not in ("S" if attribute.shape else "Siuf"):
            continue
        found[name] = text(file.attrs[name])
    return found


def text(value: Any) -> Any:
    """An attribute's value with its strings as str."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return np.array([text(item) for item in value.ravel().tolist()], object)
    return value


def check_heaps(path: Path) -> None:
    """The global heaps of the file must be rows of objects that fill them and no more."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(HEAP)
        while start >= 0:
            if not is_sound(content, start):
                raise RecordError(f"{path}: not a whole fedmpi record (its strings are damaged)")
            start = content.find(HEAP, start + len(HEAP))


def is_sound(content: mmap.mmap, start: int) -> bool:
    """Whether the objects of the heap at `start` lie one after another, up to its end or its free space."""
    if start + 16 > len(content):
        return False
    (size,) = struct.unpack_from("<Q", content, start + 8)
    at, end = start + 16, start + size
    if not 16 <= size <= len(content) - start:
        return False
    while at + 16 <= end:
        number, _, length = struct.unpack_from("<HH4xQ", content, at)
        if number == 0:
            return bool(length == end - at)
        at += 16 + (length + 7 & ~7)
    return bool(at <= end)


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
