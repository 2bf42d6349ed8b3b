"""The resolver of "package.module:Name", and the look-up of a name in a registry."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from fedmpi.errors import ConfigError
from fedmpi.plugin import find, resolve

MODULE = """
import math
NUMBER = 3
class Widget:
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current directory; its name is new for each test."""
    name = f"parts_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_registry_gives_its_parts_by_name() -> None:
    registry = {"list": list, "lazy": "collections:OrderedDict"}
    assert find(registry, "list", "some.key") is list
    assert find(registry, "lazy", "some.key") is OrderedDict
    assert find(registry, "collections:OrderedDict", "some.key") is OrderedDict


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"some\.key = 'lits': no such name; did you mean 'list'\? known are list, x"):
        find({"list": list, "x": int}, "lits", "some.key")
    with pytest.raises(ConfigError, match=r"'zzz': no such name; known are list, or your own as 'package"):
        find({"list": list}, "zzz", "some.key")


def test_a_module_of_the_current_directory_is_found(module: str) -> None:
    assert resolve(f"{module}:Widget", "some.key").__name__ == "Widget"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_module_here:X", "no module 'no_such_module_here'; start fedmpi in the directory that holds it"),
        ("{module}:Widgte", "module {module} has no 'Widgte'; did you mean 'Widget'?"),
        ("{module}:", "module {module} has no ''"),
        ("{module}:NUMBER", "must name a class or a function, but NUMBER is of type int"),
        ("{module}:math", "must name a class or a function, but math is of type module"),
        (":X", "cannot be imported (ValueError: Empty module name)"),
        ("..up:X", "cannot be imported (TypeError: "),
    ],
)
def test_what_cannot_be_resolved_is_a_sentence(module: str, spec: str, message: str) -> None:
    spec, message = spec.format(module=module), message.format(module=module)
    with pytest.raises(ConfigError) as refused:
        resolve(spec, "some.key")
    assert str(refused.value).startswith(f"some.key = '{spec}': {message}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_this_name", "no module 'nothing_of_this_name'"),
        ("1 / 0", "cannot be imported (ZeroDivisionError: division by zero)"),
        ("raise RuntimeError('two\\nlines')", "cannot be imported (RuntimeError: two lines)"),
        ("def f(:", "cannot be imported (SyntaxError: "),
        ("from math import nothing", "cannot be imported (ImportError: "),
    ],
)
def test_a_module_that_raises_when_imported_is_a_sentence(module: str, code: str, reason: str) -> None:
    Path(f"{module}_b.py").write_text(code)
    with pytest.raises(ConfigError) as refused:
        resolve(f"{module}_b:X", "some.key")
    assert str(refused.value).startswith(f"some.key = '{module}_b:X': {reason}")
    assert "\n" not in str(refused.value)


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, fedmpi.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "torch", "mpi4py", "h5py"} & set(loaded)
