"""LEAF's Shakespeare as its preprocessing writes it: JSON of 80-character windows, in folders `train` and `test`.

LEAF's own split is kept. Neighbouring windows share all but a few characters, so the windows of each user are joined
into one text by their overlaps, with the start of every window: window s is again exactly text[a:a+80], text[a+80].
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.data.characters import WINDOW, encode
from fedmpi.data.sources.archive import read_file
from fedmpi.data.sources.cache import cached
from fedmpi.data.sources.roles import now
from fedmpi.data.store import names_array, write_store
from fedmpi.errors import DataError

# The whole of LEAF's training windows is one file of about 330 MB with some 12 million commas; the bound on
# elements keeps the memory that hostile JSON can take below 3 GB.
MOST_BYTES = 512 << 20
MOST_ELEMENTS = 25_000_000
LICENCE = "public domain text, preprocessed by LEAF"

# user -> (training windows, test windows), each window 81 characters
Users = dict[str, tuple[list[str], list[str]]]


def import_leaf(source: Path) -> Path:
    """The cached file of the JSON under `source`/train and `source`/test."""
    if not os.path.isdir(source):
        raise DataError(f"{source}: no such folder; give the data folder of LEAF's Shakespeare")
    users: Users = {}
    digest = hashlib.sha256()
    for part, folder in enumerate(("train", "test")):
        files = sorted((source / folder).glob("*.json"))
        if not files:
            raise DataError(f"{source}: has no JSON files in '{folder}'; give the data folder of LEAF's Shakespeare")
        for file in files:
            content = read_file(file, MOST_BYTES)
            digest.update(content)
            for user, windows in read_users(file, content):
                users.setdefault(user, ([], []))[part].extend(windows)
    if not users:
        raise DataError(f"{source}: its JSON names no users")
    path = cached("leaf")
    provenance = {"source": "LEAF, shakespeare", "sha256": digest.hexdigest(), "licence": LICENCE, "created": now()}
    write_store(path, "text", arrays_of(users), provenance)
    return path


def read_users(file: Path, content: bytes) -> Iterable[tuple[str, list[str]]]:
    """(user, its windows of 81 characters) of one JSON file."""
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > MOST_ELEMENTS:
        raise DataError(f"{file}: refused, because it has more than {MOST_ELEMENTS} elements")
    try:
        user_data = json.loads(content)["user_data"]
        return [(str(user), windows_of(data)) for user, data in user_data.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{file}: not JSON as LEAF's Shakespeare writes it ({repr(error)[:200]})") from None


def windows_of(data: Any) -> list[str]:
    """A user's windows, each with the character that follows it."""
    windows = [x + y for x, y in zip(data["x"], data["y"], strict=True)]
    if any(not isinstance(window, str) or len(window) != WINDOW + 1 for window in windows):
        raise ValueError(f"a window is not {WINDOW} characters and one more")
    return windows


def arrays_of(users: Users) -> dict[str, NDArray[Any]]:
    """The users as arrays of the store."""
    texts: list[NDArray[np.uint8]] = []
    starts: tuple[list[list[int]], list[list[int]]] = ([], [])
    for train, test in users.values():
        text, train_starts = lay_over(train, "")
        text, test_starts = lay_over(test, text)
        texts.append(encode(text))
        starts[0].append(train_starts)
        starts[1].append(test_starts)
    arrays: dict[str, NDArray[Any]] = {
        "text": np.concatenate(texts),
        "offsets": np.cumsum([0, *map(len, texts)], dtype=np.int64),
        "names": names_array(users),
        "groups": np.arange(len(users)),
    }
    for part, lists in zip(("train", "test"), starts, strict=True):
        arrays[f"{part}_starts"] = np.array([place for places in lists for place in places], np.int64)
        arrays[f"{part}_ends"] = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return arrays


def lay_over(windows: list[str], text: str) -> tuple[str, list[int]]:
    """(text, starts): `text` continued so that it contains each window at its start. A window that overlaps the end of
    the previous one continues it; any other is appended."""
    pieces, length, last, starts = [text], len(text), "", []
    for window in windows:
        shift = next((k for k in range(len(last)) if last[k:] == window[: len(last) - k]), len(last))
        new = window[len(last) - shift :]
        pieces.append(new)
        length += len(new)
        last = window
        starts.append(length - len(window))
    return "".join(pieces), starts
