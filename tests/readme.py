"""The README's generated tables.  python -m tests.readme README.md rewrites them; with --check it only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fedmpi.config import declared_keys
from fedmpi.config.toml import toml_value
from fedmpi.record.schema import SCHEMA

BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.S)


def config_table() -> str:
    lines = ["| key | default | meaning |", "|---|---|---|"]
    for dotted, declared in declared_keys():
        default = {} if dotted == "sampling.options" else declared.default
        meaning, unit, choices = (declared.metadata[k] for k in ("meaning", "unit", "choices"))
        allowed = f" ({', '.join(f'`{choice}`' for choice in choices)})" if choices else ""
        measured = f" [{unit}]" if unit else ""
        lines.append(f"| `{dotted}` | `{toml_value(default)}` | {meaning}{allowed}{measured} |")
    return "\n".join(lines)


def record_table() -> str:
    lines = ["| dataset | type | unit | what |", "|---|---|---|---|"]
    for dataset in SCHEMA:
        shape = ", ".join(dataset.shape)
        if dataset.fields[0].name:
            lines.append(f"| **`{dataset.path}`** ({shape}) | table | | {dataset.meaning} |")
        for field in dataset.fields:
            name = f"&nbsp;&nbsp;`{field.name}`" if field.name else f"**`{dataset.path}`** ({shape})"
            symbol = f"{field.symbol}: " if field.symbol else ""
            what = f"{symbol}{field.meaning}".replace("|", "\\|")
            lines.append(f"| {name} | {field.dtype.lstrip('<')} | {field.unit} | {what} |")
    return "\n".join(lines)


GENERATED = {"config": config_table, "record": record_table}


def regenerated(text: str) -> str:
    return BLOCK.sub(lambda block: f"{block[1]}{GENERATED[block[2]]()}\n{block[3]}", text)


if __name__ == "__main__":
    path = Path(sys.argv[-1])
    current = path.read_text(encoding="utf-8")
    if "--check" not in sys.argv:
        path.write_text(regenerated(current), encoding="utf-8")
    elif regenerated(current) != current:
        sys.exit(f"{path}: its tables are not those of the code; run `make format`")
