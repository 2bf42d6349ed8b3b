"""Properties of the readers over what hypothesis thinks up: a FedmpiError of one line, or a value that is right."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmpi.config import Config, declared_keys, parse_override, presets
from fedmpi.config.toml import toml_value
from fedmpi.data.characters import CHARACTERS, VOCABULARY, encode
from fedmpi.data.sources.archive import read_members
from fedmpi.data.sources.gutenberg import split_works
from fedmpi.data.sources.leaf import arrays_of, read_users
from fedmpi.data.sources.shakespeare import parse_play
from fedmpi.errors import ConfigError, DataError, FedmpiError
from fedmpi.network.links import read_trace
from fedmpi.record import open_record

ALWAYS_THE_SAME = settings(derandomize=True, deadline=None, max_examples=100)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
keys = (
    st.sampled_from([name for name, _ in declared_keys()]) | st.text() | st.from_regex(r"\w+(\.\w+)*", fullmatch=True)
)


def one_sentence(error: FedmpiError) -> None:
    assert str(error).strip()
    assert "\n" not in str(error)


@ALWAYS_THE_SAME
@given(st.dictionaries(keys, trees, max_size=3))
def test_settings_of_any_type_are_right_or_refused(overrides: dict[str, Any]) -> None:
    try:
        config = Config.from_toml("", overrides)
    except ConfigError as error:
        one_sentence(error)
        return
    assert Config.from_toml(config.to_toml()) == config


def value_of(dotted: str, declared: Field[Any]) -> st.SearchStrategy[Any]:
    """Values that the key takes, as a TOML file or a Python program gives them."""
    limits, kind = declared.metadata, str(declared.type)
    if limits["choices"]:
        return st.sampled_from(limits["choices"])
    low, high = limits["least"], limits["most"]
    texts = st.from_regex(r"\w[\w.-]{0,9}", fullmatch=True)
    return {
        "int": st.integers(int(low or 0), int(high or 2**62)),
        "float": st.floats(low or 0, high, exclude_min=limits["above"] is not None, allow_infinity=False)
        | st.integers(1, 1 if high == 1 else 2),
        "str": texts,
        "bool": st.booleans(),
        "dict[str, Any]": st.dictionaries(st.text(), scalars, max_size=3),
        "Any": st.sampled_from(["ratio", "uniform"]) | st.lists(st.floats(0, 1), min_size=1, max_size=3),
        "tuple[str, ...]": st.lists(texts, max_size=3),
        "tuple[float, ...]": st.lists(st.floats(0, 1), max_size=3) | st.tuples(st.floats(0, 1)),
        "tuple[tuple[int, int], ...]": st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), max_size=3),
    }[kind]


VALUES = {dotted: value_of(dotted, declared) for dotted, declared in declared_keys()}
VALUES |= {f"sampling.options.{name}": scalars for name in ("a", "b.c", "b.d")}
changes = st.lists(
    st.sampled_from(list(VALUES)).flatmap(lambda dotted: st.tuples(st.just(dotted), VALUES[dotted])), max_size=8
).map(dict)


def outcome(make: Callable[[], Config]) -> Config | str:
    """The config, or the sentence with which it is refused."""
    try:
        return make()
    except ConfigError as error:
        one_sentence(error)
        return str(error)


@settings(ALWAYS_THE_SAME, max_examples=500)
@given(st.sampled_from(list(presets())), changes, changes | st.dictionaries(keys, trees, max_size=3))
def test_a_replaced_config_is_the_one_that_its_toml_with_the_overrides_gives(
    preset: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    start = outcome(lambda: Config.load(preset, before))
    if isinstance(start, str):
        return
    text = start.to_toml()
    found = outcome(lambda: start.replace(after))
    assert found == outcome(lambda: Config.from_toml(text, after))
    assert start.to_toml() == text, "the original has changed"
    if isinstance(found, Config):
        assert Config.from_toml(found.to_toml()) == found


@ALWAYS_THE_SAME
@given(st.text() | st.binary().map(lambda b: b.decode("utf-8", "surrogateescape")))
def test_any_text_is_toml_or_refused(text: str) -> None:
    try:
        config = Config.from_toml(text)
    except ConfigError as error:
        one_sentence(error)
        return
    assert Config.from_toml(config.to_toml()) == config


@ALWAYS_THE_SAME
@given(keys, trees.map(toml_value) | st.text())
def test_any_argument_of_s_is_a_setting_or_refused(key: str, value: str) -> None:
    try:
        config = Config.load("quadratic", dict([parse_override(f"{key}={value}")]))
    except ConfigError as error:
        one_sentence(error)
        return
    assert Config.from_toml(config.to_toml()) == config


@ALWAYS_THE_SAME
@given(st.binary(max_size=4000), st.booleans())
def test_bytes_are_no_record_and_no_archive(content: bytes, hdf5: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(b"\x89HDF\r\n\x1a\n" * hdf5 + content)
        for read in (open_record, lambda path: list(read_members(path, lambda name: True, 1 << 20))):
            try:
                read(path)
            except FedmpiError as error:
                one_sentence(error)
            else:
                raise AssertionError("took noise for data")


@ALWAYS_THE_SAME
@given(st.text(max_size=2000))
def test_any_text_has_as_many_characters_of_the_vocabulary(text: str) -> None:
    numbers = encode(text)
    assert len(numbers) == len(text)
    assert not len(numbers) or numbers.max() < VOCABULARY
    for character, number in zip(text, numbers.tolist(), strict=True):
        assert character not in CHARACTERS or CHARACTERS[number] == character


lines = st.lists(
    st.sampled_from(
        ["ACT I.", "", "ANNA.", "  ANNA. one", "    two", "BERT", "[Exit", "[a [b] c]", "by William Shakespeare", "II"]
    )
    | st.text(max_size=30),
    max_size=40,
).map("\n".join)


@ALWAYS_THE_SAME
@given(lines)
def test_any_text_has_roles_that_say_something(text: str) -> None:
    for role, words in parse_play(text).items():
        assert role
        assert words.strip()
    for _, roles in split_works(text):
        assert all(isinstance(words, str) for words in roles.values())


windows = st.text(min_size=80, max_size=80)
of_a_user = st.fixed_dictionaries({"x": st.lists(windows), "y": st.lists(st.text(max_size=2))})


@ALWAYS_THE_SAME
@given(
    trees
    | st.dictionaries(st.text(), st.fixed_dictionaries({"x": st.lists(windows), "y": st.lists(st.text(max_size=2))}))
)
def test_any_json_is_leafs_or_refused(tree: Any) -> None:
    import json

    try:
        users = dict(read_users(Path("x.json"), json.dumps({"user_data": tree}, default=str).encode()))
    except DataError as error:
        one_sentence(error)
        return
    if users:
        arrays = arrays_of({user: (own, own) for user, own in users.items()})
        assert arrays["offsets"][-1] == len(arrays["text"])


@ALWAYS_THE_SAME
@given(st.lists(st.tuples(*[st.integers(-1, 3) | st.floats() | st.text(max_size=5)] * 5), max_size=5))
def test_any_trace_is_links_or_refused(rows: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        body = "\n".join(",".join(map(str, row)) for row in rows)
        path.write_text(f"client,latency,down,up,speed\n{body}\n", encoding="utf-8", errors="replace")
        try:
            table = read_trace(str(path), 2)
        except ConfigError as error:
            one_sentence(error)
            return
    assert np.isfinite(table).all()
    assert (table[:, 1:] > 0).all()
    assert not math.isnan(table[0, 0])
