"""The figure of `fedmpi bench comm`: bandwidth by size of θ, one line per path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Timed(Protocol):
    """Medians of one path's turns at one size of θ, in bytes and seconds."""

    @property
    def size(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def updates(self) -> int: ...
    @property
    def up(self) -> float: ...


COLLECTING = ("raw buffers", "per-client, not added", "per-client", "pickled")


def draw_comm(results: Sequence[Timed], file: Path) -> None:
    """Write a figure of the bandwidth of collecting updates, in GB/s, over the size of θ to `file`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for path, marker in zip(COLLECTING, "osd^", strict=True):
        mine = [result for result in results if result.path == path]
        speeds = [result.size * result.updates / result.up / 1e9 for result in mine]
        axes.plot([result.size for result in mine], speeds, marker=marker, label=path)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({result.size for result in results})
    axes.set_xticks(ticks, [f"{t // 2**20} MB" if t >= 2**20 else f"{t // 2**10} KB" for t in ticks], rotation=45)
    axes.set_xlabel("size of θ")
    axes.set_ylabel("collecting updates, GB/s")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=150)
