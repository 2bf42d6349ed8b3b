"""The settings of a run.

`tables` declares every key once, with its default, unit, limits and meaning; `load` has `Config`, and reads presets,
files and overrides into it; `check` checks single values; `toml` reads and writes the text. To add a key, add it to
its table: `fedmpi config explain`, `docs/settings.md` and the records follow.
"""

from fedmpi.config.load import PRESETS, Config, declared_keys, parse_override, presets, read_source
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

__all__ = [
    "PRESETS",
    "ClientSettings",
    "CommSettings",
    "Config",
    "DataSettings",
    "EvalSettings",
    "ModelSettings",
    "NetworkSettings",
    "RecordSettings",
    "RunSettings",
    "SamplingSettings",
    "ServerSettings",
    "SweepSettings",
    "declared_keys",
    "parse_override",
    "presets",
    "read_source",
]
