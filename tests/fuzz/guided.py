"""Coverage-guided fuzzing with atheris: `python -m tests.fuzz.guided config|leaf|gutenberg|play|tar|trace [-runs=N]`.

Of the readers that are Python; what libhdf5 does with a file is not seen by its coverage. Ends at the first escape,
and leaves the input in a file `crash-…`. Needs `pip install 'fedmpi[fuzz]'`.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fedmpi", "tomllib", "tarfile", "csv", "json"]):
    import csv  # noqa: F401
    import json  # noqa: F401
    import tarfile  # noqa: F401

    import numpy as np
    import tomllib  # noqa: F401

    import fedmpi.data.sources.archive
    import fedmpi.data.sources.gutenberg
    import fedmpi.data.sources.leaf
    import fedmpi.data.sources.shakespeare
    import fedmpi.network.links
    from fedmpi.config import Config, NetworkSettings, parse_override
    from fedmpi.errors import FedmpiError

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))


def config(content: bytes) -> None:
    text = content.decode("utf-8", "surrogateescape")
    settings = Config.from_toml(text)
    assert Config.from_toml(settings.to_toml()) == settings


def override(content: bytes) -> None:
    key, value = parse_override(content.decode("utf-8", "surrogateescape"))
    settings = Config.from_toml("", {key: value})
    assert Config.from_toml(settings.to_toml()) == settings


def leaf(content: bytes) -> None:
    users = dict(fedmpi.data.sources.leaf.read_users(FOLDER, content))
    if users:
        fedmpi.data.sources.leaf.arrays_of({user: (windows, windows) for user, windows in users.items()})


def gutenberg(content: bytes) -> None:
    fedmpi.data.sources.gutenberg.split_works(content.decode("utf-8", "replace"))


def play(content: bytes) -> None:
    fedmpi.data.sources.shakespeare.parse_play(content.decode("utf-8", "replace"))


def tar(content: bytes) -> None:
    path = FOLDER / "a.tgz"
    path.write_bytes(gzip.compress(content, 0))
    for _ in fedmpi.data.sources.archive.read_members(path, lambda name: True, 1 << 20):
        pass


def trace(content: bytes) -> None:
    path = FOLDER / "t.csv"
    path.write_bytes(content)
    fedmpi.network.links.Links(NetworkSettings(trace=str(path)), 3).of(np.array([0, 1]))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "config": config, "override": override, "leaf": leaf, "gutenberg": gutenberg, "play": play, "tar": tar,
    "trace": trace,
}  # fmt: skip


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]

    def once(content: bytes) -> None:
        try:
            target(content)
        except FedmpiError as error:
            if "\n" in str(error):
                raise AssertionError("not one sentence") from error

    atheris.Setup([*sys.argv, "-timeout=10", "-rss_limit_mb=2048"], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
