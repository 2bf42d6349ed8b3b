"""The direction of imports, and who may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedmpi
from tests.support.rooms import ORDER

ROOT = Path(fedmpi.__file__).parent
CONFINED = {
    "mpi4py": {"comm"},
    "h5py": {"record", "data"},
    "click": {"cli"},
    "torch": {"models", "data", "client", "comm", "job", "compression"},
    "matplotlib": {"report"},
}
# What turns data into code or objects.
FORBIDDEN = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "code", "codeop", "xmlrpc"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "extractall", "extract"}
# Calls that are harmless only if this argument has this value.
GUARDED = {("torch", "load"): ("weights_only", True), ("np", "load"): ("allow_pickle", False)}
# mpi4py's lower-case methods pickle. One benchmark measures what that costs, with numbers of its own.
PICKLING = {"send", "recv", "isend", "irecv", "sendrecv", "bcast", "scatter", "gather", "allgather", "alltoall"}
PICKLING |= {"reduce", "allreduce"}


def imports() -> list[tuple[Path, str, bool]]:
    """(file, imported module, whether at the top level) of every import in the package."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                names = [node.module or ""]
                if node.module == "fedmpi":
                    names = [f"fedmpi.{alias.name}" for alias in node.names]
            found += [(path, name, node in tree.body) for name in names]
    return found


def part(path: Path) -> str:
    """The package or module of fedmpi that a file belongs to; "" for fedmpi/__init__.py."""
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py") if first != "__init__.py" else ""


def place(name: str) -> int:
    return next(k for k, rooms in enumerate(ORDER) if name in rooms)


def test_every_room_has_its_place() -> None:
    assert {part(path) for path in ROOT.rglob("*.py")} == set().union(*ORDER)


def test_few_modules_stand_loose_at_the_top() -> None:
    assert len([path for path in ROOT.glob("*.py") if not path.name.startswith("__")]) <= 6


def test_imports_point_downwards() -> None:
    for path, name, _ in imports():
        head, *rest = name.split(".")
        # fedmpi/__init__ offers the public names, each on first use.
        if head == "fedmpi" and part(path) != "":
            target = (
                rest[0] if rest and (ROOT / rest[0]).with_suffix(".py").exists() | (ROOT / rest[0]).is_dir() else ""
            )
            own = part(path)
            assert own == target or place(own) > place(target), f"{path} imports {name}"


@pytest.mark.parametrize("library", CONFINED)
def test_libraries_are_confined(library: str) -> None:
    for path, name, _ in imports():
        if name.split(".")[0] == library:
            assert part(path) in CONFINED[library], f"{path} imports {library}"


def test_mathematics_does_not_know_about_ranks_files_or_commands() -> None:
    for path, name, _ in imports():
        if part(path) in {"sampling", "theory", "client", "server", "models", "data"}:
            assert name.split(".")[0] not in {"mpi4py", "click"}, f"{path} imports {name}"
            assert not name.startswith(("fedmpi.comm", "fedmpi.record")), f"{path} imports {name}"


def test_nothing_unpickles() -> None:
    for path, name, _ in imports():
        assert name.split(".")[0] not in FORBIDDEN, f"{path} imports {name}"


def calls() -> list[tuple[str, str, str, dict[str, object]]]:
    """(where, on what, function, keyword arguments that are constants) of every call in the package."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            own = isinstance(node.func, ast.Name)
            name = node.func.id if own else node.func.attr if isinstance(node.func, ast.Attribute) else ""
            owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            given = {word.arg or "": getattr(word.value, "value", None) for word in node.keywords}
            found.append((f"{path.relative_to(ROOT)}:{node.lineno}", owner, name, given))
    return found


def test_nothing_runs_what_it_reads() -> None:
    for where, owner, name, given in calls():
        allowed = owner in ("re", "ast") or (name == "eval" and owner.endswith("module"))
        assert name not in FORBIDDEN_CALLS or allowed, f"{where} calls {owner}.{name}"
        assert not given.get("shell"), f"{where} starts a shell"
        if (owner, name) in GUARDED:
            argument, value = GUARDED[owner, name]
            assert given.get(argument) is value, f"{where}: {owner}.{name} without {argument}={value}"


def test_messages_between_ranks_are_not_pickled() -> None:
    pickled = {
        where.partition(":")[0] for where, owner, name, _ in calls() if owner.endswith("comm") and name in PICKLING
    }
    assert pickled <= {"comm/bench.py"}


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"torch", "mpi4py", "h5py", "matplotlib", "scipy"}


def test_importing_fedmpi_loads_nothing_heavy() -> None:
    assert not HEAVY & loaded_by("import fedmpi")


def test_help_loads_nothing_heavy() -> None:
    code = "sys.argv = ['fedmpi', '--help']\nimport fedmpi.cli\ntry: fedmpi.cli.main()\nexcept SystemExit: pass"
    loaded = loaded_by(code)
    assert "fedmpi.cli.run" in loaded
    assert not HEAVY & loaded
    assert "numpy" not in loaded


def test_reading_a_record_needs_neither_mpi_nor_torch() -> None:
    assert not {"torch", "mpi4py"} & loaded_by("import fedmpi.record, fedmpi.report.summary")
