"""The table and the figure of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = (
    "framework", "s/round", "CPU s/round", "÷ bare", "÷ bare, allocator tuned for all", "no-op round, ms",
    "start-up, s", "peak memory (PSS), MB",
)  # fmt: skip


def table(found: dict[str, dict[str, Any]]) -> str:
    """A Markdown table, one line per framework; one that failed says why."""
    lines = [HEAD, ["---"] + ["---:"] * (len(HEAD) - 1), *(line(one) for one in found.values())]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def line(one: dict[str, Any]) -> list[str]:
    if "failed" in one:
        return [one["framework"], f"**failed**: {one['failed'].replace('|', '/')}"] + [""] * (len(HEAD) - 2)

    def cell(form: str, *keys: str) -> str:
        value: Any = one
        for key in keys:
            value = value.get(key) if value is not None else None
        return "–" if value is None else form.format(value)

    return [
        one["framework"],
        cell("{:.2f}", "shipped", "seconds"),
        cell("{:.2f}", "shipped", "cpu"),
        cell("{:.2f}", "shipped", "÷ bare"),
        cell("{:.2f}", "tuned", "÷ bare"),
        cell("{:.1f}", "no-op ms"),
        cell("{:.1f}", "startup"),
        cell("{:.0f}", "pss MB"),
    ]


def against_pfl(found: dict[str, dict[str, Any]]) -> str:
    """What fedmpi takes beside the fastest peer, one sentence per exchange."""
    words = {"shipped": "as shipped", "tuned": "with the allocator tuned for all"}
    sentences = []
    for one in found.values():
        told = [f"{one[mode]['÷ pfl']:.2f} {how}" for mode, how in words.items() if "÷ pfl" in one.get(mode, {})]
        if told and one["framework"].startswith("fedmpi"):
            sentences.append(f"\n{one['framework']} ÷ pfl: {', '.join(told)}.")
    return "".join(sentences)


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """A panel for each figure that was measured, a bar for each framework."""
    from matplotlib.figure import Figure

    shown = [one for one in reversed(found.values()) if "failed" not in one]
    names = [one["framework"] for one in shown]
    colours = ["#c44e52" if name.startswith("fedmpi") else "#8c8c8c" for name in names]
    panels = {
        "seconds per round ÷ bare\n(dot: allocator tuned for all)": [
            one.get("shipped", {}).get("÷ bare") for one in shown
        ],
        "no-op round, ms": [one.get("no-op ms") for one in shown],
        "start-up, s": [one.get("startup") for one in shown],
        "peak memory (PSS), MB": [one.get("pss MB") for one in shown],
    }
    panels = {title: values for title, values in panels.items() if any(values)}
    figure = Figure(figsize=(3 * len(panels), 0.8 + 0.42 * len(shown)), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        bars = axis.barh(names, [value or 0 for value in values], color=colours, height=0.65)
        labels = ["" if not value else f" {value:.0f}" if value >= 100 else f" {value:.3g}" for value in values]
        axis.set_title(title, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.18)
        if title.startswith("seconds"):  # all bars are long: their labels stay clear of the dots inside them
            axis.bar_label(bars, labels, label_type="center", color="white", fontsize=8)
            tuned = [one.get("tuned", {}).get("÷ bare", float("nan")) for one in shown]
            axis.plot(tuned, names, "o", color="black", markersize=4)
            axis.axvline(1, color="black", linewidth=0.6, linestyle=":")
        else:
            axis.bar_label(bars, labels, fontsize=8)
    figure.savefig(path, dpi=150)
