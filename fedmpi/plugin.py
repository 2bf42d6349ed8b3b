"""From the name of a part in a setting to the part: a built-in, or the user's own as "package.module:Name".

Every kind of part (schemes, models, datasets, codecs, …) has a registry, a plain dict from name to part; `find` looks a
name up in it. A registry may also give a built-in as "package.module:Name", so that its module, and what that imports,
is loaded only when it is used.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from fedmpi.errors import ConfigError


def find(registry: Mapping[str, Any], name: str, key: str) -> Any:
    """The part of that name, or a ConfigError. key: the setting that named it, for messages."""
    part = registry.get(name, name)
    if not isinstance(part, str):
        return part
    if ":" not in part:
        close = difflib.get_close_matches(name[:100], registry, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"{key} = {name!r}: no such name; {guess}known are {', '.join(registry)}, or your own as"
            " 'package.module:Name'"
        )
    return resolve(part, key)


def resolve(spec: str, key: str) -> Any:
    """The class or function named "package.module:Name", or a ConfigError.

    The current directory is importable, as with `python -m`. key: the setting that named it, for messages.
    """
    module_name, _, name = spec.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{key} = {spec!r}: no module {error.name!r}; start fedmpi in the directory that holds it, or put that"
            " directory on PYTHONPATH"
        ) from error
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(f"{key} = {spec!r}: cannot be imported ({reason})") from error
    if not hasattr(module, name):
        close = difflib.get_close_matches(name[:100], vars(module), n=1)
        guess = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"{key} = {spec!r}: module {module_name} has no {name!r}{guess}")
    part = getattr(module, name)
    if not callable(part):
        raise ConfigError(
            f"{key} = {spec!r}: must name a class or a function, but {name} is of type {type(part).__name__}"
        )
    return part
