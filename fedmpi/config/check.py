"""Whether a value is what its key takes. Every error names the key, what was given and what is allowed."""

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
