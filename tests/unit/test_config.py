"""Settings: precedence, round trip, and errors that name the key and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedmpi.config import Config, declared_keys, parse_override, presets
from fedmpi.errors import ConfigError


def test_defaults_then_preset_then_overrides() -> None:
    assert Config().client.K == 10
    assert Config.load("quadratic").sampling.m == 5
    assert Config.load("demo").client.B == 16
    assert Config.load("demo", {"client.B": 7}).client.B == 7
    assert Config.load("demo", {"client.B": 7}).client.eta_l == 1.5


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_survives_a_round_trip(name: str) -> None:
    config = Config.load(name)
    assert Config.from_toml(config.to_toml()) == config


def test_a_file_is_read_like_a_preset(tmp_path: Any) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[run]\nT = 3\n[sampling]\nimportance = [0.5, 0.5]\noptions = {beta = 2}\n")
    config = Config.load(path)
    assert config.run.T == 3
    assert config.sampling.importance == (0.5, 0.5)
    assert config.sampling.options == {"beta": 2}
    assert Config.from_toml(config.to_toml()) == config


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"sampling.shceme": "md"}, ["unknown key 'sampling.shceme'", "did you mean 'sampling.scheme'?"]),
        ({"sampilng.m": 3}, ["unknown table 'sampilng'", "did you mean 'sampling'?"]),
        ({"T": 3}, ["unknown key 'T'", "config explain"]),
        ({"run.T": "ten"}, ['run.T = "ten"', "must be an integer"]),
        ({"run.T": 2.5}, ["run.T = 2.5", "must be an integer"]),
        ({"run.T": True}, ["run.T = true", "must be an integer"]),
        ({"run.T": 2**70}, ["run.T", "must be below 2**63"]),
        ({"run.name": "../up"}, ['run.name = "../up"', "letters, digits"]),
        ({"client.K": -1}, ["client.K = -1", "at least 1"]),
        ({"client.eta_l": float("nan")}, ["client.eta_l = nan", "finite"]),
        ({"client.eta_l": 0}, ["client.eta_l = 0.0", "above 0"]),
        ({"client.eta_l": 10**400}, ["client.eta_l", "finite"]),
        ({"client.decay": 1.5}, ["client.decay = 1.5", "at most 1"]),
        ({"sampling.m": 0}, ["sampling.m = 0", "at least 1"]),
        ({"sampling.importance": ["x"]}, ["sampling.importance[0]", "must be a number"]),
        (
            {"comm.exchange": "reduce"},
            ["comm.exchange = 'reduce'", "'per-client', 'reduced'", "did you mean 'reduced'?"],
        ),
        ({"server.hosts_clients": 1}, ["server.hosts_clients = 1", "true or false"]),
        ({"run": 3}, ["unknown key 'run'"]),
    ],
)
def test_an_error_names_the_key_the_value_and_what_is_allowed(overrides: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.load("demo", overrides)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'dmeo' is neither a preset nor a file; did you mean 'demo'"):
        Config.load("dmeo")


@pytest.mark.parametrize("folder", ["", "far/" * 30])
def test_truncated_toml_says_where(tmp_path: Any, folder: str) -> None:
    path = tmp_path / folder / "cut.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[run]\nname = "de')
    with pytest.raises(ConfigError, match=r"cut\.toml: not valid TOML: Unterminated string"):
        Config.load(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=3", 3),
        ("a.b=0.5", 0.5),
        ("a.b=md", "md"),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b = true", True),
        ("a.b=x=y", "x=y"),
    ],
)
def test_an_override_is_toml_or_else_a_string(text: str, value: Any) -> None:
    assert parse_override(text) == ("a.b", value)


@pytest.mark.parametrize("text", ["a.b", "=3", ""])
def test_an_override_needs_key_and_value(text: str) -> None:
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_override(text)


@given(st.text(max_size=30), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_any_value_survives_a_round_trip(word: str, value: float, flag: bool) -> None:
    options = {"word": word, "value": value, "flag": flag, f"_{word}": [1, word]}
    config = Config.load("demo", {"sampling.options": options, "server.hosts_clients": flag})
    assert Config.from_toml(config.to_toml()) == config


def test_replace_changes_what_is_named_and_shares_the_rest() -> None:
    config = Config.load("demo", {"sampling.options": {"a": 1, "b": {"c": 2}}})
    changed = config.replace({"run.T": 3, "sampling.options.b.c": 5})
    assert (changed.run.T, changed.run.name) == (3, config.run.name)
    assert changed.sampling.options == {"a": 1, "b": {"c": 5}}
    assert config.sampling.options == {"a": 1, "b": {"c": 2}}
    assert changed.data is config.data
    assert config.replace({}) == config


def test_replace_takes_a_value_of_another_config() -> None:
    given = Config.load("demo", {"sampling.importance": [0.25, 0.75], "sweep.cases": [[4, 2]]})
    values = {"sampling.importance": given.sampling.importance, "sweep.cases": given.sweep.cases}
    assert Config.load("demo").replace(values) == given


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"run.T": "ten"}, 'run.T = "ten": must be an integer'),
        ({"run.T.x": 1}, "unknown key 'run.T.x': 'T' is not a table"),
        ({"sampling.options.m": 1}, "sampling.options.m: is not an option"),
        ({"rnu.T": 1}, "unknown table 'rnu'; did you mean 'run'?"),
        ({"sampling.options": {1: 2}}, "sampling.options"),
    ],
)
def test_replace_checks_as_load_does(overrides: dict[str, Any], words: str) -> None:
    for change in (Config.load("demo").replace, lambda changes: Config.load("demo", changes)):
        with pytest.raises(ConfigError) as caught:
            change(overrides)
        assert words in str(caught.value)


def test_presets_come_before_their_small_versions() -> None:
    names = list(presets())
    small = [name for name in names if name.endswith("-small")]
    assert small
    assert all(names[names.index(name) - 1] == name.removesuffix("-small") for name in small)


def test_every_key_says_what_it_means() -> None:
    for dotted, declared in declared_keys():
        assert len(declared.metadata["meaning"]) > 10, dotted
