"""Writing the texts of clients to the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.data.characters import encode
from fedmpi.data.store import names_array, write_store

# role -> all its speeches
Roles = dict[str, str]


def write_roles(path: Path, clients: Iterable[tuple[str, str, str]], provenance: Mapping[str, str]) -> None:
    """Write clients given as (play, name, text) to a dataset file, in this order."""
    plays, names, texts = [], [], []
    for play, name, text in clients:
        plays.append(play)
        names.append(name)
        texts.append(encode(text))
    _, groups = np.unique(plays, return_inverse=True)
    arrays: dict[str, NDArray[Any]] = {
        "text": np.concatenate(texts),
        "offsets": np.cumsum([0, *map(len, texts)], dtype=np.int64),
        "names": names_array(names),
        "groups": groups.astype(np.int64),
    }
    write_store(path, "text", arrays, {**provenance, "created": now()})


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
