"""Opening an HDF5 file that may be damaged or hostile: whatever HDF5 itself would hang or crash on is rejected first.

Records are written in HDF5's latest format, whose metadata has checksums; files in older formats, which have none, are
not opened. The strings in a file's attributes have a fixed length and are part of that metadata. The earliest records
kept them in a global heap, which has no checksum and on which HDF5 can loop forever, so such a heap is checked here
before HDF5 reads it.
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
# Offsets in the superblock: its version, and the flags of a file that a writer has open or never closed. Then its size.
VERSION, FLAGS, SUPERBLOCK_BYTES = 8, 11, 12
VERSIONS_WITH_CHECKSUMS = (2, 3)
# HDF5 reads metadata again when its checksum fails, because a writer may be busy with it, and sleeps 1, 2, 4, … ns in
# between. Its default of 100 attempts would take 2¹⁰⁰ ns; 24 attempts take 17 ms.
READ_ATTEMPTS = 24
HEAP_SIGNATURE = b"GCOL\x01\0\0\0"
MAX_ATTRIBUTES = 1000
MAX_STRING_BYTES = 1 << 30

# What h5py raises on a damaged file. MemoryError is not among them: no read may be large enough to cause one.
HDF5_ERRORS = (OSError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError)


def is_record(path: str | Path) -> bool:
    """Whether the file is HDF5, judged by its first bytes."""
    return read_superblock(Path(path)).startswith(SIGNATURE)


def read_superblock(path: Path) -> bytes:
    """The first bytes of a regular file; none of a pipe or a device, which could block the reader."""
    try:
        if os.path.isfile(path):
            with path.open("rb") as file:
                return file.read(SUPERBLOCK_BYTES)
    except (OSError, ValueError):
        pass
    return b""


def open_file(path: Path) -> h5py.File:
    """The HDF5 file, open for reading: in SWMR mode if a writer has it open, or was killed before it closed it."""
    if not os.path.isfile(path):
        raise RecordError(f"{path}: no such record")
    superblock = read_superblock(path)
    if not superblock.startswith(SIGNATURE):
        raise RecordError(f"{path}: not a fedmpi record, nor any other HDF5 file")
    if len(superblock) < SUPERBLOCK_BYTES:
        raise RecordError(f"{path}: not a readable HDF5 file (it is truncated)")
    if superblock[VERSION] not in VERSIONS_WITH_CHECKSUMS:
        raise RecordError(f"{path}: an HDF5 file, but not a fedmpi record")
    mode = h5py.h5f.ACC_RDONLY | (h5py.h5f.ACC_SWMR_READ if superblock[FLAGS] else 0)
    try:
        return h5py.File(h5py.h5f.open(os.fsencode(path), mode, fapl=access_properties()))
    except HDF5_ERRORS as error:
        raise RecordError(f"{path}: not a readable HDF5 file ({first_line(error)})") from None


def access_properties() -> h5py.h5p.PropFAID:
    """HDF5's default access properties, but with READ_ATTEMPTS attempts at reading damaged metadata."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    # h5py does not wrap this function of the HDF5 library that it is linked with.
    set_attempts = ctypes.CDLL(h5py.h5p.__file__).H5Pset_metadata_read_attempts
    set_attempts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    set_attempts(access.id, READ_ATTEMPTS)
    return access


def read_attributes(path: Path, file: h5py.File) -> dict[str, Any]:
    """The attributes of the file that are numbers, strings or lists of strings; others are left out."""
    file_size = path.stat().st_size
    attributes: dict[str, Any] = {}
    heaps_checked = False
    for name in list(file.attrs)[:MAX_ATTRIBUTES]:
        attribute = file.attrs.get_id(name)
        count, dtype = np.prod(attribute.shape, dtype=float), attribute.dtype
        string = h5py.check_string_dtype(dtype)
        if count * dtype.itemsize > file_size or attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            continue
        if string is not None and string.length is None:
            if not heaps_checked:
                check_heaps(path)
            heaps_checked = True
            # Each string of the list may be as long as the file.
            if count * file_size > MAX_STRING_BYTES:
                continue
        elif dtype.kind not in ("S" if attribute.shape else "Siuf"):
            continue
        attributes[name] = decoded(file.attrs[name])
    return attributes


def decoded(value: Any) -> Any:
    """An attribute's value with its strings as str."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return np.array([decoded(item) for item in value.ravel().tolist()], object)
    return value


def check_heaps(path: Path) -> None:
    """Raise unless each global heap of the file is a sequence of objects that fills it exactly."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(HEAP_SIGNATURE)
        while start >= 0:
            if not is_sound_heap(content, start):
                raise RecordError(f"{path}: not a complete fedmpi record (its strings are damaged)")
            start = content.find(HEAP_SIGNATURE, start + len(HEAP_SIGNATURE))


def is_sound_heap(content: mmap.mmap, start: int) -> bool:
    """Whether the objects of the heap at `start` follow one another up to its end or its free space."""
    if start + 16 > len(content):
        return False
    (size,) = struct.unpack_from("<Q", content, start + 8)
    position, end = start + 16, start + size
    if not 16 <= size <= len(content) - start:
        return False
    while position + 16 <= end:
        number, _, length = struct.unpack_from("<HH4xQ", content, position)
        if number == 0:
            return bool(length == end - position)
        position += 16 + (length + 7 & ~7)
    return bool(position <= end)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
