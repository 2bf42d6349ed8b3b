"""Reading a configuration. Later sources win: defaults, then a preset or a file, then overrides (`-s KEY=VALUE`)."""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from fedmpi.config.check import MOST_DEPTH, checked, nearest
from fedmpi.config.tables import (
    ClientSettings,
    CommSettings,
    DataSettings,
    EvalSettings,
    ModelSettings,
    NetworkSettings,
    RecordSettings,
    RunSettings,
    SamplingSettings,
    ServerSettings,
    SweepSettings,
)
from fedmpi.config.toml import MOST_SHOWN, parse, plain, read_text, shown, toml_value
from fedmpi.errors import ConfigError

PRESETS = Path(__file__).parents[1] / "presets"


@dataclass(frozen=True)
class Config:
    """All settings of one run, one field per TOML table. Immutable: `replace` returns a changed copy."""

    run: RunSettings = RunSettings()
    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    client: ClientSettings = ClientSettings()
    server: ServerSettings = ServerSettings()
    sampling: SamplingSettings = SamplingSettings()
    comm: CommSettings = CommSettings()
    network: NetworkSettings = NetworkSettings()
    eval: EvalSettings = EvalSettings()
    record: RecordSettings = RecordSettings()
    sweep: SweepSettings = SweepSettings()

    @classmethod
    def load(cls, source: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
        """The configuration of a preset's name or a TOML file, with `{"table.key": value}` overrides."""
        text, origin = read_source(source) if source is not None else ("", "defaults")
        return cls.from_toml(text, overrides, origin)

    @classmethod
    def from_toml(cls, text: str, overrides: Mapping[str, Any] | None = None, origin: str = "config") -> Config:
        """The configuration of a TOML text, with overrides. `origin` names the text in error messages."""
        try:
            tables = parse(text)
        except ValueError as error:
            raise ConfigError(f"{plain(origin)}: not valid TOML: {plain(str(error))}") from None
        for dotted, value in (overrides or {}).items():
            place(tables, dotted, value)
        return cls(**read_tables(tables))

    def replace(self, overrides: Mapping[str, Any]) -> Config:
        """This configuration with `{"table.key": value}` changed, and checked as `load` checks it."""
        tables = {section.name: dict(vars(getattr(self, section.name))) for section in fields(self)}
        for dotted, value in overrides.items():
            place(tables, dotted, value)
        named = {dotted.split(".")[0] for dotted in overrides}
        return dataclasses.replace(self, **read_tables({name: tables[name] for name in tables if name in named}))

    def to_toml(self) -> str:
        """The canonical TOML text: every key, in the order of declaration. `from_toml` reads it back."""
        lines = []
        for section in fields(self):
            table = getattr(self, section.name)
            lines.append(f"[{section.name}]")
            lines += [f"{k.name} = {toml_value(getattr(table, k.name))}" for k in fields(table)]
            lines.append("")
        return "\n".join(lines)

    def differences(self, other: Config) -> dict[str, tuple[str, str]]:
        """The keys whose values differ, with both values as TOML writes them: {"table.key": (ours, theirs)}."""
        found = {}
        for dotted, _ in declared_keys():
            ours, theirs = (toml_value(operator.attrgetter(dotted)(config)) for config in (self, other))
            if ours != theirs:
                found[dotted] = ours, theirs
        return found


def declared_keys() -> Iterator[tuple[str, Field[Any]]]:
    """Every key as ("table.key", its field), in the order of declaration."""
    for section in fields(Config):
        for declared in fields(type(section.default)):  # type: ignore[arg-type]
            yield f"{section.name}.{declared.name}", declared


def presets() -> dict[str, Path]:
    """The shipped presets by name, in alphabetical order, each followed by its `-small` version if it has one."""
    names = {path.stem: path for path in PRESETS.glob("*.toml")}
    return {name: names[name] for name in sorted(names, key=lambda name: (name.removesuffix("-small"), name))}


def read_source(source: str | Path) -> tuple[str, str]:
    """The TOML text of a preset's name or a file's path, and what to call it in messages."""
    name = str(source)
    if name in presets():
        return presets()[name].read_text(encoding="utf-8"), f"preset '{name}'"
    if not os.path.exists(source):
        raise ConfigError(f"'{plain(name)}' is neither a preset nor a file{nearest(name, presets(), 'fedmpi presets')}")
    try:
        # A long path is cut at its start, because its end tells more.
        return read_text(Path(source)), name if len(name) <= MOST_SHOWN else f"…{name[1 - MOST_SHOWN :]}"
    except (OSError, ValueError) as error:
        raise ConfigError(f"{plain(name)}: cannot be read as a TOML file: {plain(str(error))}") from None


def parse_override(text: str) -> tuple[str, Any]:
    """("table.key", value) of a `-s KEY=VALUE` argument; a value that is not TOML is taken as a string."""
    dotted, equals, value = text.partition("=")
    if not equals or not dotted.strip():
        raise ConfigError(f"-s {plain(text)}: must have the form KEY=VALUE, such as -s run.T=50")
    try:
        tables = parse(f"value = {value}")
    except ValueError:
        tables = {}
    return dotted.strip(), tables["value"] if len(tables) == 1 else value.strip()


def place(tables: dict[str, Any], dotted: str, value: Any) -> None:
    """Put a value at "table.key" (or "sampling.options.name") into nested dicts.

    Only `tables` itself is changed: the inner dicts on the way are replaced by copies, as a Config may own them.
    """
    *path, last = dotted.split(".")
    if not 0 < len(path) <= MOST_DEPTH:
        known = [name for name, _ in declared_keys()]
        raise ConfigError(f"unknown key '{plain(dotted)}'{nearest(dotted, known)}")
    here = tables
    for step in path:
        inner = here.get(step, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"unknown key '{plain(dotted)}': '{plain(step)}' is not a table")
        here[step] = dict(inner)
        here = here[step]
    here[last] = value


def read_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of nested dicts such as `{"run": {"T": 50}}`, checked: {"run": RunSettings(T=50)}."""
    sections = {section.name: section for section in fields(Config)}
    found = {}
    for table, content in tables.items():
        if table not in sections:
            raise ConfigError(f"unknown table '{plain(table)}'{nearest(table, sections)}")
        if not isinstance(content, dict):
            raise ConfigError(f"{table} = {shown(content)}: must be a table of keys, such as '{table}.KEY = VALUE'")
        found[table] = read_table(type(sections[table].default), table, content)
    return found


def read_table(table_class: type[Any], table: str, content: Mapping[str, Any]) -> Any:
    """An object of `table_class` with the content's values, checked; keys that are not given keep their defaults."""
    declared = {f.name: f for f in fields(table_class)}
    for name in content:
        if name not in declared:
            raise ConfigError(f"unknown key '{table}.{plain(name)}'{nearest(f'{table}.{name}', dict(declared_keys()))}")
    return table_class(**{name: checked(f"{table}.{name}", declared[name], value) for name, value in content.items()})
