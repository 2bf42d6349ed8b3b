"""The file of golden hashes, and the comparison of what was found with what stands there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.golden.cases import Case
from tests.golden.cpu import FUSED, cpu_kind, rounding_kind
from tests.golden.measure import Found, sha256

FILE = Path(__file__).with_name("golden.json")
# Entries of θ that are kept as numbers, at even distances, for CPUs whose hash is not known.
SAMPLES = 64
# How far apart torch's kernels for different CPUs may be after these few steps. Its own paths for AVX-512, AVX2 and
# neither differ by up to 1.3e-6, in an embedding of size 3; a local step moves most entries by more than 1e-4.
TOLERANCE = 5e-6

Entry = dict[str, Any]


def load() -> tuple[dict[str, Entry], dict[str, str]]:
    """The entries of all cases (`theta`: hash by kind of CPU, `draws`, `omega` and, with products, `values`), and the
    hashes of what each scheme draws by itself."""
    content = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return content.get("runs", {}), content.get("schemes", {})


def save(runs: dict[str, Entry], schemes: dict[str, str]) -> None:
    content = {"runs": runs, "schemes": schemes}
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def kind_of(case: Case, found: Found) -> str:
    """What the bits of the case's θ depend on, here. With compiled loops all arithmetic but torch's products is our
    own, which rounds a product and a sum once, on any CPU."""
    if case.products:
        return cpu_kind()
    return FUSED if found.compiled else rounding_kind()


def entry_of(case: Case, found: Found) -> Entry:
    """What was found, as an entry of the file."""
    entry: Entry = {"theta": {kind_of(case, found): sha256(found.theta)}, "draws": sha256(found.draws)}
    if not case.weights_from_updates:
        entry["omega"] = sha256(found.omega)
    if case.products:
        entry["values"] = values_of(found.theta)
    return entry


def values_of(theta: NDArray[np.float32]) -> dict[str, Any]:
    """θ's length, its norm, and a sample of its entries."""
    places = np.linspace(0, len(theta) - 1, SAMPLES).astype(int)
    return {"d": len(theta), "norm": float(np.linalg.norm(theta.astype(float))), "entries": theta[places].tolist()}


def distance(expected: dict[str, Any], theta: NDArray[np.float32]) -> float:
    """How far θ is from stored values: the largest |difference| / max(1, |value|), infinite if the length differs."""
    found = values_of(theta)
    if found["d"] != expected["d"]:
        return float("inf")
    before, after = (np.array([*values["entries"], values["norm"]]) for values in (expected, found))
    return float((np.abs(after - before) / np.maximum(1, np.abs(before))).max())


def differences(expected: Entry, found: Entry) -> list[str]:
    """A sentence for each hash that is not what it was; a kind of CPU that is not in the table is none of them."""
    (kind,) = found["theta"]
    pairs = [(name, expected.get(name), found.get(name)) for name in ("draws", "omega")]
    if kind in expected["theta"]:
        pairs.append((f"θ ({kind})", expected["theta"][kind], found["theta"][kind]))
    return [f"{name}: expected {before}, found {after}" for name, before, after in pairs if before != after]
