"""Checks of single values. Every error names the key, the value given and what is allowed."""

from __future__ import annotations

import difflib
import operator
import re
import sys
from collections.abc import Mapping
from dataclasses import Field
from typing import Any

from fedmpi.config.toml import plain, shown
from fedmpi.errors import ConfigError

LONGEST_TEXT = 4096
MOST_DEPTH = 8

# For each declared type: its name in messages, and the types in which a value may be given.
KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("an integer", (int,)),
    "float": ("a number", (int, float)),
    "str": ("a string", (str,)),
    "bool": ("true or false", (bool,)),
    "dict[str, Any]": ("a table", (dict,)),
    "Any": ("a string or a list of numbers", (str, list, tuple)),
    "tuple[str, ...]": ("a list of strings", (list, tuple)),
    "tuple[float, ...]": ("a list of numbers", (list, tuple)),
    "tuple[tuple[int, int], ...]": ("a list of pairs of integers, such as [[10, 5], [20, 10]]", (list, tuple)),
}


def checked(dotted: str, declared: Field[Any], value: Any) -> Any:
    """The value in its declared type, or a ConfigError that says what is allowed."""
    kind, given = KINDS[str(declared.type)]
    if not isinstance(value, given) or (isinstance(value, bool) and declared.type != "bool"):
        raise ConfigError(f"{dotted} = {shown(value)}: must be {kind}")
    if isinstance(value, list | tuple):
        return tuple(checked_item(dotted, k, kind, str(declared.type), item) for k, item in enumerate(value))
    if declared.type == "float":
        value = number(dotted, value)
    else:
        value = content(dotted, value)
    check_limits(dotted, declared.metadata, value)
    return value


def checked_item(dotted: str, k: int, kind: str, declared: str, item: Any) -> Any:
    """Item k of a list, in the type that the list is declared to hold."""
    if declared in ("Any", "tuple[float, ...]"):
        return number(f"{dotted}[{k}]", item)
    if declared == "tuple[str, ...]" and isinstance(item, str):
        return content(f"{dotted}[{k}]", item)
    pair = isinstance(item, list | tuple) and len(item) == 2 and all(type(part) is int and part > 0 for part in item)
    if declared.startswith("tuple[tuple") and pair:
        return tuple(item)
    raise ConfigError(f"{dotted}[{k}] = {shown(item)}: the key takes {kind}")


def check_limits(dotted: str, limits: Mapping[str, Any], value: Any) -> None:
    """Raise unless the value is one of the key's choices, matches its pattern and is within its range."""
    if limits["choices"] and value not in limits["choices"]:
        allowed = ", ".join(f"'{c}'" for c in limits["choices"])
        raise ConfigError(
            f"{dotted} = '{plain(value)}': must be one of {allowed}{nearest(value, limits['choices'], '')}"
        )
    if limits["pattern"] and not re.fullmatch(limits["pattern"], value):
        raise ConfigError(f"{dotted} = {shown(value)}: must be letters, digits, '.', '_' or '-' only")
    for limit, words, holds in (
        (limits["least"], "at least", operator.ge),
        (limits["above"], "above", operator.gt),
        (limits["most"], "at most", operator.le),
    ):
        if limit is not None and not holds(value, limit):
            raise ConfigError(f"{dotted} = {value}: must be {words} {limit}")


def content(dotted: str, value: Any, depth: int = 0) -> Any:
    """A copy of a string, number, list or table in types that TOML has, or a ConfigError.

    Texts and integers are bounded in size, numbers are finite, and tables and lists are not nested too deeply.
    """
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT or any("\ud800" <= c <= "\udfff" for c in value):
            raise ConfigError(f"{dotted} = {shown(value)}: must be at most {LONGEST_TEXT} characters of Unicode")
        return str(value)
    if depth > MOST_DEPTH:
        raise ConfigError(f"{dotted} = {shown(value)}: must be nested at most {MOST_DEPTH} deep")
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise ConfigError(f"{dotted} = {shown(value)}: must be below 2**63")
        return int(value)
    if isinstance(value, float):
        return number(dotted, value)
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {
            content(dotted, name, depth + 1): content(f"{dotted}.{plain(name)}", item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [content(dotted, item, depth + 1) for item in value]
    raise ConfigError(f"{dotted} = {shown(value)}: must consist of strings, numbers, lists and tables")


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
    """'; did you mean …?', or which command lists the alternatives if none is similar."""
    close = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; `{listing}` lists them all" if listing else ""
