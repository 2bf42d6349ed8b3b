"""Settings for fuzzing: valid TOML and `-s` texts, with damage to bytes, to values and to structure."""

from __future__ import annotations

import datetime
from functools import cache
from random import Random
from typing import Any

from fedmpi.config import Config, declared_keys, parse_override, presets
from fedmpi.config.toml import toml_value
from tests.fuzz.mutate import damaged

KEYS = tuple(name for name, _ in declared_keys())
VALUES: tuple[Any, ...] = (
    0, 1, -1, 3, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), -float("inf"), True,
    False, "", "md", "ratio", "x" * 5000, "\0", "a\nb", "\x1b[2J", "é\u202e", "\ud800", "../../x", "/etc/x", "<b>",
    "m:C", "dirichlet:x", "file:/dev/zero", [], [1, 2], [[1, 2]], [[1, [2]]], ["a"], [0.5, 0.5], [True],
    [float("nan")], {}, {"a": 1}, {"a": {"b": [1]}}, {"p": 1}, {"d": 2}, datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1), datetime.time(1),
)  # fmt: skip
RAW = (
    "1_000", "0x" + "f" * 4000, "9" * 5000, "1e400", "nan", "inf", "-inf", "1979-05-27", "07:32:00", "'''\n'''",
    '"""a\n"""', "[" * 2000, "{a=" * 500, "[1, 2", '"\\ud800"', '"\\U00110000"', "0b102", "1.", ".5", "+",
    "true false", "{}", "{a=1,}", "# x",
)  # fmt: skip


STRANGE_KEYS = ("a.b", "sampling.options.a", "x", "run..T", ".", "run.T.x", "run." * 50, "é.ü", "run.\n", "")


@cache
def seeds() -> tuple[bytes, ...]:
    """The presets, and short texts of every table."""
    texts = [path.read_bytes() for path in presets().values()]
    texts += [f"[{key.split('.')[0]}]\n{key.split('.')[1]} = 1\n".encode() for key in KEYS]
    texts.append(
        b'[sampling]\nscheme = "m:C"\nimportance = [0.25, 0.75]\noptions = {a = 1, b = "x", c = [1, {d = 2}]}\n'
    )
    texts.append(
        b"[sweep]\ncases = [[10, 5], [20, 10]]\nimportances = ['ratio']\nalphas = [0.1, 1]\nschemes = ['md']\n"
    )
    return tuple(texts)


def attempt(number: int, seed: int) -> None:
    """Make settings `number` and read them; what is accepted must survive the way through TOML."""
    rng = Random(f"config {seed} {number}")
    config = WAYS[number % len(WAYS)](rng)
    assert Config.from_toml(config.to_toml()) == config, "not the same after a round trip"


def by_damage(rng: Random) -> Config:
    text = damaged(rng, rng.choice(seeds()), seeds())
    return Config.from_toml(text.decode("utf-8", rng.choice(("replace", "surrogateescape"))))


def by_value(rng: Random) -> Config:
    """One or two keys given values of any type, as a Python program does."""
    chosen = {rng.choice(KEYS): rng.choice(VALUES) for _ in range(rng.choice((1, 1, 2)))}
    return Config.from_toml("", chosen)


def by_override(rng: Random) -> Config:
    """-s arguments, of which some are not even that."""
    key = rng.choice(
        (*KEYS, *KEYS, "a.b", "sampling.options.a", "x", "run..T", ".", "run.T.x", "run." * 50, "é.ü", "run.\n", "")
    )
    value = rng.choice((rng.choice(RAW), *map(written, rng.sample(VALUES, 2))))
    text = f"{key}{rng.choice(('=', ' = ', '', '=='))}{value}"
    if rng.random() < 0.3:
        text = damaged(rng, text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")
    return Config.load("quadratic", dict([parse_override(text)]))


def by_text(rng: Random) -> Config:
    """TOML put together from keys and values that do not fit."""
    lines = []
    for _ in range(rng.randrange(1, 6)):
        table, _, name = rng.choice(KEYS).partition(".")
        header = rng.choice((f"[{table}]", f"[{table}]", f"[[{table}]]", f"[{table}.{name}]", "", f"[{'a.' * 40}b]"))
        key = rng.choice(
            (name, name, f"{table}.{name}", f'"{name}"', "x", "a." * rng.choice((3, 40)) + "b", '"="."."', "''")
        )
        value = rng.choice((rng.choice(RAW), *map(written, rng.sample(VALUES, 3))))
        lines += [header, f"{key} = {value}"]
    return Config.from_toml("\n".join(lines))


def written(value: Any) -> str:
    """A value as text, near enough to TOML."""
    return str(value) if isinstance(value, int) and abs(value) > 10**300 else toml_value(value)


WAYS = (by_damage, by_value, by_override, by_text)
