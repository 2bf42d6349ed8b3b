"""The settings of a run. `tables` declares every key, `load` reads files and overrides, `check` checks values."""

from fedmpi.config.load import PRESETS, Config, declared_keys, parse_override, presets, read_source
from fedmpi.config.tables import Client, Comm, Data, Eval, Model, Network, Record, Run, Sampling, Server, Sweep

__all__ = [
    "PRESETS",
    "Client",
    "Comm",
    "Config",
    "Data",
    "Eval",
    "Model",
    "Network",
    "Record",
    "Run",
    "Sampling",
    "Server",
    "Sweep",
    "declared_keys",
    "parse_override",
    "presets",
    "read_source",
]
