"""Record files for fuzzing: valid ones with damage to bytes, headers or objects, and everything that reads them."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import h5py
import numpy as np

from fedmpi.config import Config
from fedmpi.record import Record, is_record, open_record
from fedmpi.record.schema import SCHEMA, TABLES
from tests.fuzz.headers import forged
from tests.fuzz.mutate import damaged
from tests.support.records import add_evaluation, add_round, make_record, start_record

PATHS = tuple(dataset.path for dataset in SCHEMA)
READ = ("config", "rounds", "cohorts", "evals", "phases", "theta", "theta_t", "history", "clients", "ranks", "events")
FIGURES_EVERY = 399
"""One in so many records is drawn too, which takes a second."""


def home() -> Path:
    """A folder in memory, where there is one."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir=shared if shared.is_dir() else None))


@cache
def seeds() -> tuple[bytes, ...]:
    """Valid records of some 40 kB: finished, failed, broken off, with history, and as written before 1.0 was fixed."""
    folder = home()
    with mock.patch("fedmpi.record.writer.CHUNK_BYTES", 512):
        paths = [make_record(folder / "done.h5", losses=(8, 4, 2, 1), accuracy=0.5)]
        paths.append(make_record(folder / "own.h5", "x:Own", 2, (8, 4), failure="it broke", T=9))
        running = start_record(
            folder / "running.h5", "uniform", 3, 5, {"record.theta_every": 1, "record.per_client": True}
        )
        add_evaluation(running, 0, 3.0)
        running.keep_theta(np.ones(5, np.float32), 0)
        add_round(running, 0, (0, 2), 2)
        (folder / "killed.h5").write_bytes((folder / "running.h5").read_bytes())
        running.close()
        paths += [folder / "running.h5", folder / "killed.h5", written_early(folder / "early.h5")]
        contents = tuple(path.read_bytes() for path in paths)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return contents


def written_early(path: Path) -> Path:
    """A record whose attributes are strings of any length, in HDF5's heap."""
    make_record(path)
    with h5py.File(path, "r+", libver="latest") as file:
        for name, value in dict(file.attrs).items():
            del file.attrs[name]
            texts = [v.decode() for v in np.atleast_1d(value)] if np.asarray(value).dtype.kind == "S" else value
            file.attrs[name] = value if texts is value else texts[0] if np.ndim(value) == 0 else texts
    return path


def attempt(number: int, seed: int, folder: Path) -> None:
    """Make record file `number` and do with it what commands do."""
    rng = Random(f"record {seed} {number}")
    path = folder / "x.h5"
    content = rng.choice(seeds())
    way = number % 3
    if way == 0:
        path.write_bytes(damaged(rng, content, seeds()))
    elif way == 1:
        path.write_bytes(forged(rng, content))
    else:
        path.write_bytes(content)
        with contextlib.suppress(*CANNOT), h5py.File(path, "r+", libver="latest") as file:
            for _ in range(rng.choice((1, 1, 2, 3))):
                rng.choice(CHANGES)(rng, file)
    use(path, (show_config, watch, report)[number // 3 % 3], figures=number % FIGURES_EVERY == FIGURES_EVERY - 1)


def use(path: Path, *commands: Callable[[Path], None], figures: bool = False) -> None:
    """Read all of a record and show it, then do with it what these commands do: all of them, if none is named."""
    from fedmpi.job.replay import read_rounds

    is_record(path)
    with open_record(path) as record:
        for name in READ:
            getattr(record, name)
        if record.rounds_done:
            read_rounds(record)
        show(record)
    for command in commands or (show_config, watch, report):
        command(path)
    if figures:
        report(path, figures=True)


def show_config(path: Path) -> None:
    from fedmpi.cli.source import load

    load(str(path), ("run.T=3",)).to_toml()


def show(record: Record) -> None:
    from fedmpi.report.summary import about, comparison

    text = about(record) + comparison([record])
    assert all(c.isprintable() or c == "\n" for c in text), "control characters on the terminal"


def watch(path: Path) -> None:
    from fedmpi.report.live import frame, one_line, snapshot

    now = snapshot(path)
    lines = [*frame(now, 70), one_line(now)]
    assert all(line.isprintable() for line in lines), "control characters on the terminal"


def save_svg(figure: Any, stem: Path) -> bytes:
    """The figure as the page has it, without the two files that take longer."""
    svg = io.BytesIO()
    figure.savefig(svg, format="svg")
    return svg.getvalue()


def report(path: Path, figures: bool = False) -> None:
    from fedmpi.report.write import write_report

    with contextlib.ExitStack() as stack:
        if not figures:
            stack.enter_context(mock.patch("fedmpi.report.write.draw_all", return_value=[]))
        stack.enter_context(mock.patch("fedmpi.report.figures.save", save_svg))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(np.errstate(all="ignore"))
        write_report([path], path.parent / "report")


# A change that HDF5 itself refuses leaves the record as it was.
CANNOT = (OSError, LookupError, ValueError, TypeError, RuntimeError, AttributeError, OverflowError, MemoryError)

INTEGERS = (0, -1, 1, 2**31, -(2**63), 2**63 - 1, 10**15)
NUMBERS = (*INTEGERS, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324)
TYPES = ["<i8", "<f8", ">f8", "<f4", "u1", "S3", "S5000", "O", "?", "<c16", "V7", "ref", "enum", "array", "table"]
MARKUP = ("<script>alert(1)</script>", "$x_{$", "\n\x1b[31m", "é\u202e\ud7ff")
TEXTS = ("", "\0", "x" * 70000, "../../x", "9.9", "1.x", *MARKUP)


def dtype(rng: Random) -> Any:
    kind = rng.choice(TYPES)
    special: dict[str, Any] = {
        "O": h5py.string_dtype(),
        "ref": h5py.ref_dtype,
        "enum": h5py.enum_dtype({"a": 1, "b": 2}),
        "array": np.dtype(("<f8", (3,))),
        "table": np.dtype([("t", "<i8"), ("client", "S4")]),
    }
    return special.get(kind, kind)


def replace_dataset(rng: Random, file: h5py.File) -> None:
    """Another type, shape or layout."""
    path = rng.choice(PATHS)
    before = file[path]
    shape = rng.choice((before.shape, (), (0,), (3,), (2, 2), (10**15,), (10**6, 10**6), (1, 2, 3), None))
    options: dict[str, Any] = {"shape": shape, "dtype": rng.choice((before.dtype, before.dtype, dtype(rng)))}
    if shape and rng.random() < 0.5:
        options["chunks"] = tuple(min(64, max(1, size)) for size in shape)
        options["maxshape"] = (None,) * len(shape)
        options["compression"] = rng.choice((None, None, "gzip", "lzf"))
    del file[path]
    file.create_dataset(path, **options)


def replace_link(rng: Random, file: h5py.File) -> None:
    """Something else in the place of a dataset or a group."""
    path = rng.choice((*PATHS, "/model", "/clients", "/ranks"))
    other = rng.choice((*PATHS, "/", "/model", "/nowhere"))
    del file[path]
    what = rng.randrange(6)
    if what == 0:
        file[path] = h5py.SoftLink(rng.choice((other, path)))
    elif what == 1:
        file[path] = h5py.ExternalLink(rng.choice(("/dev/zero", "x.h5", "/etc/passwd")), other)
    elif what == 2:
        file[path] = file[other]
    elif what == 3:
        file.create_group(path)
    elif what == 4:
        file[path] = np.dtype("<f8")
    # 5: nothing.


def change_values(rng: Random, file: h5py.File) -> None:
    """A number where none should be."""
    dataset = file[rng.choice(PATHS)]
    rows = dataset[()]
    names = rows.dtype.names if isinstance(rows, np.ndarray) else None
    target = rows[rng.choice(names)] if names else rows
    with np.errstate(all="ignore"):
        if isinstance(target, np.ndarray) and target.size:
            at = rng.randrange(target.size) if rng.random() < 0.7 else slice(None)
            new = rng.choice(TEXTS).encode() if target.dtype.kind == "S" else rng.choice(NUMBERS)
            target.reshape(-1)[at] = np.array(new).astype(target.dtype)
            dataset[()] = rows
        else:
            dataset[()] = rng.choice(TEXTS).encode() if dataset.dtype.kind == "S" else rng.choice(INTEGERS)


def resize(rng: Random, file: h5py.File) -> None:
    """More or fewer rows than there should be."""
    dataset = file[rng.choice([path for path in PATHS if path in file and TABLES[path].growing])]
    dataset.resize(rng.choice((0, 1, 2, 1000, 10**12)), axis=0)


def change_attribute(rng: Random, file: h5py.File) -> None:
    """Another value or type, or none."""
    name = rng.choice([*file.attrs, "new"])
    values = (
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(INTEGERS[:6]),
        lambda: np.bytes_(rng.choice(TEXTS).encode()),
        lambda: [rng.choice(TEXTS) for _ in range(3)],
        lambda: np.zeros((3, 3)),
        lambda: h5py.Empty("f8"),
        lambda: file.ref,
        lambda: np.array(b"\xff\xfe"),
    )
    if rng.random() < 0.2:
        del file.attrs[name]
    else:
        file.attrs[name] = rng.choice(values)()


def change_config(rng: Random, file: h5py.File) -> None:
    """Settings that are valid, but not those of the run; or TOML with damage."""
    text = file.attrs["config"]
    text = text.decode() if isinstance(text, bytes) else text
    if rng.random() < 0.5:
        hostile = rng.choice(TEXTS)
        changes = rng.choice(
            (
                {"sampling.scheme": rng.choice((hostile, "full", "optimal", "fedavg", "clustered", f"m:{hostile}"))},
                {"data.n": rng.choice((1, 10**7))},
                {"sampling.m": rng.choice((1, 3, 10**9))},
                {"run.T": rng.choice((0, 2**62))},
                {"sampling.options": {hostile: rng.choice((1, hostile))}},
                {"sampling.importance": rng.choice(("uniform", hostile, [0.5, 0.5]))},
                {"client.device": hostile},
            )
        )
        text = Config.from_toml(text, changes).to_toml()
    else:
        text = damaged(rng, text.encode()).decode("utf-8", "replace")
    file.attrs["config"] = np.bytes_(text.encode())


CHANGES: tuple[Callable[[Random, h5py.File], None], ...] = (
    replace_dataset, replace_link, change_values, change_values, change_values, resize, change_attribute, change_config,
)  # fmt: skip
