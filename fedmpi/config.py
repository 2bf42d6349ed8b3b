"""The settings of a run: one frozen dataclass per TOML table, each key declared once.

Precedence: defaults < preset or file < overrides (`-s KEY=VALUE`). Every error names the key, what was given
and what is allowed. The declarations below also make `fedmpi config explain` and the README's table.
"""

from __future__ import annotations

import difflib
import operator
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from fedmpi.errors import ConfigError
from fedmpi.toml import MOST_SHOWN, parse, plain, read_text, shown, toml_value

PRESETS = Path(__file__).parent / "presets"
LONGEST_TEXT = 4096
MOST_DEPTH = 8
# What a scheme is given besides sampling.options.
GIVEN = ("name", "p", "m", "sizes")


def key(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    choices: tuple[str, ...] = (),
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    pattern: str = "",
) -> Any:
    """A dataclass field that carries its own documentation and limits."""
    limits = {"meaning": meaning, "unit": unit, "choices": choices, "least": least, "above": above, "most": most}
    limits["pattern"] = pattern
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=limits)
    return field(default=default, metadata=limits)


@dataclass(frozen=True)
class Run:
    name: str = key(
        "run", "name of the run, shown in reports and used for the default output file", pattern=r"\w[\w.-]{0,99}"
    )
    T: int = key(20, "number of rounds", unit="rounds", least=0)
    seed: int = key(0, "seed of θ⁰, of the draws S_t and of the clients' batches", least=0)
    checkpoint_every: int = key(
        10, "write a checkpoint so often, besides when a run ends early; 0 = only then", unit="rounds", least=0
    )
    on_rank_failure: str = key(
        "stop",
        "when a worker dies: end the run, to be resumed, or continue without it (Open MPI: mpirun --with-ft ulfm)",
        choices=("stop", "continue"),
    )


@dataclass(frozen=True)
class Data:
    name: str = key(
        "quadratic",
        "federated dataset; `fedmpi data list` says how to get those that are not generated",
        choices=("quadratic", "synthetic-text", "shakespeare", "gutenberg", "leaf", "cifar10"),
    )
    n: int = key(20, "number of clients n", unit="clients", least=1, most=10**7)
    seed: int = key(0, "seed of generated data, of its split over clients and of the clients' order", least=0)
    partition: str = key(
        "natural",
        "who owns which samples: the data's own clients (natural), the paper's CIFAR-10 split (paper), equal chances"
        " (iid), Dirichlet(α) over labels or plays (dirichlet), a few shards sorted by label (shard)",
        choices=("natural", "paper", "iid", "dirichlet", "shard"),
    )
    alpha: float = key(0.1, "concentration α of the partitions `paper` and `dirichlet`; small = unlike", above=0)
    shards: int = key(2, "shards per client, for the partition `shard`", unit="shards", least=1, most=10**6)
    samples: int = key(
        400,
        "mean number of training samples per client: of generated data and of the partitions `iid` and `dirichlet`",
        unit="samples",
        least=1,
        most=10**9,
    )
    spread: float = key(
        0.0, "standard deviation of the logarithm of the clients' sizes n_i; 0 makes them equal", least=0, most=4
    )
    heterogeneity: float = key(
        0.5, "how much clients differ, 0 to 1: of their minima (quadratic) or their language (text)", least=0, most=1
    )
    dim: int = key(20, "dimension of θ, for `quadratic`", least=1, most=10**9)


@dataclass(frozen=True)
class Model:
    name: str = key("quadratic", "model the clients train", choices=("quadratic", "lstm", "cnn"))
    embedding: int = key(8, "width of the character embedding, for `lstm`", least=1, most=10**5)
    hidden: int = key(100, "hidden units of each LSTM layer, for `lstm`", least=1, most=10**5)
    layers: int = key(2, "number of LSTM layers, for `lstm`", least=1, most=1000)
    dropout: float = key(0.2, "share of activations dropped while training, for `cnn`", least=0, most=0.95)


@dataclass(frozen=True)
class Client:
    K: int = key(10, "local SGD steps per round", unit="steps", least=1, most=10**7)
    B: int = key(64, "batch size; a client with fewer samples uses all of them", unit="samples", least=1)
    eta_l: float = key(0.1, "local learning rate η_l", above=0)
    mu: float = key(0.0, "FedProx coefficient μ: a step follows g + μ (θ_i − θᵗ)", least=0)
    decay: float = key(1.0, "factor on η_l per round: η_l decayᵗ", above=0, most=1)
    device: str = key(
        "cpu",
        "torch device the clients train on: cpu, cuda, cuda:1, …; auto: each worker a GPU of its node, or the CPU",
    )
    threads: int = key(
        1,
        "torch threads per rank; θ is the same bits only at the same number; 0: as many as Slurm gives a rank"
        " (--cpus-per-task), or as every host has cores for, and recorded",
        least=0,
        most=1024,
    )


@dataclass(frozen=True)
class Server:
    eta_g: float = key(1.0, "server learning rate η_g", above=0)
    hosts_clients: bool = key(False, "let rank 0 train clients too when there are other ranks")
    on_nonfinite: str = key(
        "stop", "what to do with an update that is not finite: end the run, or leave it out", choices=("stop", "skip")
    )


@dataclass(frozen=True)
class Sampling:
    scheme: str = key("md", "sampling scheme (see `fedmpi schemes`), or `package.module:Class` of your own")
    m: int = key(
        10, "number of clients to draw (expected, for the schemes that vary it)", unit="clients", least=1, most=10**7
    )
    importance: Any = key(
        "ratio",
        'importances p: "ratio" (n_i/M), "uniform" (1/n), "dirichlet:ALPHA" (drawn by data.seed), "heavy:P" (P for '
        'client 0), "file:PATH" (numbers, divided by their sum) or a list of n numbers that sum to 1',
    )
    distance: str = key("l2", "between updates, for `clustered-similarity`", choices=("l1", "l2", "cosine"))
    recluster_every: int = key(1, "cluster anew so often, for `clustered-similarity`", unit="rounds", least=1)
    iterations: int = key(4, "most rounds of two scalars, for `optimal-approx`", least=0)
    d: int = key(0, "candidates per round, for `power-of-choice`; 0 = 2m", unit="clients", least=0, most=10**7)
    options: dict[str, Any] = key({}, "keyword arguments for a scheme of your own")

    def __post_init__(self) -> None:
        for name in self.options:
            if name in GIVEN or name in {declared.name for declared in fields(self)}:
                raise ConfigError(f"sampling.options.{name}: is not an option, since every scheme is given it anyway")


@dataclass(frozen=True)
class Comm:
    exchange: str = key(
        "per-client",
        "how updates come back: each Δ_i as its own message, or one Reduce of ω_i Δ_i per round",
        choices=("per-client", "reduced"),
    )
    down: str = key(
        "bcast",
        "how θ goes down: one broadcast to all workers, one message to each worker with a drawn client, or one "
        "message per drawn client",
        choices=("bcast", "p2p", "p2p-per-client"),
    )
    placement: str = key(
        "static",
        "who trains a drawn client: the rank that is its home, or any worker that is free, where all can read the data",
        choices=("static", "dynamic"),
    )
    sync_every: int = key(20, "compare the ranks' clocks every so many rounds", unit="rounds", least=1)
    overlap: bool = key(True, "let an update travel while the worker trains its next client (per-client)")
    compression: str = key(
        "none",
        "what a client does to its update before it uploads it; `topk` keeps what it does not send for the client's"
        " next upload",
        choices=("none", "float16", "bfloat16", "int8", "topk"),
    )
    topk: float = key(0.01, "share of an update's entries that `topk` sends", above=0, most=1)
    timeout: float = key(
        120.0,
        "a worker that gives no sign of life for so long counts as dead; more than one SGD step and the loading of data"
        " may take",
        unit="s",
        least=2,
    )


@dataclass(frozen=True)
class Network:
    enabled: bool = key(False, "say in the record how long each round would take in a federation with these links")
    latency: float = key(0.05, "one way, client to server: median over clients", unit="s", least=0)
    down: float = key(20e6, "bandwidth of a client's downlink: median over clients", unit="bit/s", above=0)
    up: float = key(5e6, "bandwidth of a client's uplink: median over clients", unit="bit/s", above=0)
    speed: float = key(1.0, "a client's speed of training, relative to this machine: median over clients", above=0)
    latency_spread: float = key(0.0, "standard deviation of ln latency over clients; 0 = all equal", least=0, most=4)
    down_spread: float = key(0.0, "standard deviation of ln down over clients; 0 = all equal", least=0, most=4)
    up_spread: float = key(0.0, "standard deviation of ln up over clients; 0 = all equal", least=0, most=4)
    speed_spread: float = key(0.0, "standard deviation of ln speed over clients; 0 = all equal", least=0, most=4)
    trace: str = key("", "CSV file with columns client, latency, down, up, speed, in place of medians and spreads")
    server_down: float = key(
        0.0, "what the server can send, shared by the clients of a round; 0 = no limit", unit="bit/s", least=0
    )
    server_up: float = key(
        0.0, "what the server can receive, shared by the clients of a round; 0 = no limit", unit="bit/s", least=0
    )
    seed: int = key(0, "seed of the clients' links and speeds", least=0)


@dataclass(frozen=True)
class Eval:
    every: int = key(1, "evaluate θᵗ every so many rounds, and at the end; 0 = never", unit="rounds", least=0)
    max_samples: int = key(0, "most samples per client in an evaluation; 0 = all", unit="samples", least=0)


@dataclass(frozen=True)
class Record:
    theta_every: int = key(0, "keep θᵗ in /model/history every so many rounds; 0 = never", unit="rounds", least=0)
    per_client: bool = key(False, "also keep every client's loss and accuracy at each evaluation")


@dataclass(frozen=True)
class Sweep:
    cases: tuple[tuple[int, int], ...] = key((), "pairs [n, m] of a sweep; empty = data.n and sampling.m alone")
    importances: tuple[str, ...] = key((), "values of sampling.importance in a sweep; empty = that one alone")
    alphas: tuple[float, ...] = key((), "values of data.alpha in a sweep; empty = that one alone")
    schemes: tuple[str, ...] = key((), "schemes of a sweep, run in pairs; empty = sampling.scheme alone")
    seeds: int = key(1, "seeds of a sweep: run.seed, run.seed + 1, …", least=1, most=10**6)


@dataclass(frozen=True)
class Config:
    """All settings of one run. Immutable; `to_toml` and `from_toml` are inverse to each other."""

    run: Run = Run()
    data: Data = Data()
    model: Model = Model()
    client: Client = Client()
    server: Server = Server()
    sampling: Sampling = Sampling()
    comm: Comm = Comm()
    network: Network = Network()
    eval: Eval = Eval()
    record: Record = Record()
    sweep: Sweep = Sweep()

    @classmethod
    def load(cls, source: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
        """The configuration of a preset's name or a TOML file, with `{"table.key": value}` overrides."""
        text, origin = read_source(source) if source is not None else ("", "defaults")
        return cls.from_toml(text, overrides, origin)

    @classmethod
    def from_toml(cls, text: str, overrides: Mapping[str, Any] | None = None, origin: str = "config") -> Config:
        try:
            tables = parse(text)
        except ValueError as error:
            raise ConfigError(f"{plain(origin)}: not valid TOML: {plain(str(error))}") from None
        for dotted, value in (overrides or {}).items():
            place(tables, dotted, value)
        return cls._from_tables(tables)

    @classmethod
    def _from_tables(cls, tables: Mapping[str, Any]) -> Config:
        sections = {section.name: section for section in fields(cls)}
        values: dict[str, Any] = {}
        for table, content in tables.items():
            if table not in sections:
                raise ConfigError(f"unknown table '{plain(table)}'{nearest(table, sections)}")
            if not isinstance(content, dict):
                raise ConfigError(f"{table} = {shown(content)}: must be a table of keys, such as '{table}.KEY = VALUE'")
            values[table] = read_table(type(sections[table].default), table, content)
        return cls(**values)

    def to_toml(self) -> str:
        """The canonical TOML text: every key, in the order of declaration."""
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

    def replace(self, overrides: Mapping[str, Any]) -> Config:
        """This configuration with `{"table.key": value}` changed."""
        return Config.from_toml(self.to_toml(), overrides)


def declared_keys() -> Iterator[tuple[str, Field[Any]]]:
    """Every key as ("table.key", its field), in the order of declaration."""
    for section in fields(Config):
        for declared in fields(type(section.default)):  # type: ignore[arg-type]
            yield f"{section.name}.{declared.name}", declared


def presets() -> dict[str, Path]:
    """The shipped presets by name."""
    return {path.stem: path for path in sorted(PRESETS.glob("*.toml"))}


def read_source(source: str | Path) -> tuple[str, str]:
    """The TOML text of a preset's name or a file's path, and what to call it in messages."""
    name = str(source)
    if name in presets():
        return presets()[name].read_text(encoding="utf-8"), f"preset '{name}'"
    if not os.path.exists(source):
        raise ConfigError(f"'{plain(name)}' is neither a preset nor a file{nearest(name, presets(), 'fedmpi presets')}")
    try:
        # Of a long path the end says most.
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
    """Put a value at "table.key" (or "sampling.options.name") of parsed TOML tables."""
    *path, last = dotted.split(".")
    if not 0 < len(path) <= MOST_DEPTH:
        known = [name for name, _ in declared_keys()]
        raise ConfigError(f"unknown key '{plain(dotted)}'{nearest(dotted, known)}")
    here = tables
    for step in path:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            raise ConfigError(f"unknown key '{plain(dotted)}': '{plain(step)}' is not a table")
    here[last] = value


def read_table(table_class: type[Any], table: str, content: Mapping[str, Any]) -> Any:
    declared = {f.name: f for f in fields(table_class)}
    for name in content:
        if name not in declared:
            raise ConfigError(f"unknown key '{table}.{plain(name)}'{nearest(f'{table}.{name}', dict(declared_keys()))}")
    return table_class(**{name: checked(f"{table}.{name}", declared[name], value) for name, value in content.items()})


# How a value of each declared type is named in messages, and what it may be given as.
KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("an integer", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a string", (str,)),
    "bool": ("true or false", (bool,)),
    "dict[str, Any]": ("a table", (dict,)),
    "Any": ("a string or a list of numbers", (str, list)),
    "tuple[str, ...]": ("a list of strings", (list,)),
    "tuple[float, ...]": ("a list of numbers", (list,)),
    "tuple[tuple[int, int], ...]": ("a list of pairs of integers, such as [[10, 5], [20, 10]]", (list,)),
}


def checked(dotted: str, declared: Field[Any], value: Any) -> Any:
    """The value in its declared type, or a ConfigError that says what is allowed."""
    kind, given = KINDS[str(declared.type)]
    limits = declared.metadata
    if not isinstance(value, given) or (isinstance(value, bool) and declared.type != "bool"):
        raise ConfigError(f"{dotted} = {shown(value)}: must be {kind}")
    if isinstance(value, str | dict):
        check_content(dotted, value)
    if declared.type == "float":
        value = number(dotted, value)
    if isinstance(value, list):
        return tuple(checked_item(dotted, k, kind, str(declared.type), item) for k, item in enumerate(value))
    if declared.type == "int" and abs(value) >= 2**63:
        raise ConfigError(f"{dotted} = {shown(value)}: must be below 2**63")
    if limits["choices"] and value not in limits["choices"]:
        allowed = ", ".join(f"'{c}'" for c in limits["choices"])
        raise ConfigError(
            f"{dotted} = '{plain(value)}': must be one of {allowed}{nearest(value, limits['choices'], '')}"
        )
    if limits["pattern"] and not re.fullmatch(limits["pattern"], value):
        raise ConfigError(f"{dotted} = {shown(value)}: must be letters, digits, '.', '_' or '-' only")
    for limit, words, kept in (
        (limits["least"], "at least", operator.ge),
        (limits["above"], "above", operator.gt),
        (limits["most"], "at most", operator.le),
    ):
        if limit is not None and not kept(value, limit):
            raise ConfigError(f"{dotted} = {value}: must be {words} {limit}")
    return value


def checked_item(dotted: str, k: int, kind: str, declared: str, item: Any) -> Any:
    """Item k of a list, in the type the list is declared to hold."""
    if declared in ("Any", "tuple[float, ...]"):
        return number(f"{dotted}[{k}]", item)
    if declared == "tuple[str, ...]" and isinstance(item, str):
        check_content(f"{dotted}[{k}]", item)
        return item
    pair = isinstance(item, list | tuple) and len(item) == 2 and all(type(part) is int and part > 0 for part in item)
    if declared.startswith("tuple[tuple") and pair:
        return tuple(item)
    raise ConfigError(f"{dotted}[{k}] = {shown(item)}: the key takes {kind}")


def check_content(dotted: str, value: Any, depth: int = 0) -> None:
    """A string must be text of bounded length; a table must hold such strings, numbers, lists and tables."""
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT or any("\ud800" <= c <= "\udfff" for c in value):
            raise ConfigError(f"{dotted} = {shown(value)}: must be at most {LONGEST_TEXT} characters of Unicode")
    elif depth > MOST_DEPTH or not isinstance(value, bool | int | float | list | dict):
        raise ConfigError(f"{dotted} = {shown(value)}: must be strings, numbers, lists and tables, not too deep")
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise ConfigError(f"{dotted} = {shown(value)}: must be below 2**63")
    elif isinstance(value, float):
        number(dotted, value)
    elif isinstance(value, dict):
        for name, item in value.items():
            check_content(dotted, str(name), depth + 1)
            check_content(f"{dotted}.{plain(str(name))}", item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_content(dotted, item, depth + 1)


def number(dotted: str, value: Any) -> float:
    """The value as a finite float, or a ConfigError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{dotted} = {shown(value)}: must be a number")
    if not abs(value) <= sys.float_info.max:
        raise ConfigError(f"{dotted} = {shown(value)}: must be a finite number")
    return float(value)


def nearest(
    word: str, known: Mapping[str, Any] | tuple[str, ...] | list[str], listing: str = "fedmpi config explain"
) -> str:
    """'; did you mean …?', with the command that lists the alternatives."""
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; `{listing}` lists them all" if listing else ""
