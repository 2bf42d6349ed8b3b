"""Datasets for fuzzing: every importer and every file that [data], [sampling] and [network] can name, with damage."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import h5py
import numpy as np

from fedmpi.config import Config
from fedmpi.data.sources import cifar10, shakespeare
from tests.fuzz.mutate import damaged
from tests.fuzz.records import CANNOT, INTEGERS, dtype, home
from tests.support.datasets import (
    CAPITALS_PLAY,
    CREATED,
    TITLED_PLAY,
    cifar_batches,
    leaf_folder,
    long_play,
    npm_package,
    shakespeare_archive,
    tar_gz,
    windows_of,
)  # fmt: skip

WORKS = """The Complete Works

THE SONNETS

by William Shakespeare

  A. not a play

THE PLAY OF STONES

by William Shakespeare

  ANNA. First line
    second line
    third line of hers
  BERT. Another line
    and more
    and still more

*** END OF
"""
TRACE = "client,latency,down,up,speed\n0,0.1,1e6,1e6,1\n1,0.2,2e6,1e6,0.5\n2,0.05,1e7,5e6,2\n"
IMAGES = 20
"""Images in each of CIFAR-10's six files, here."""


@cache
def seeds() -> dict[str, bytes]:
    """A valid file of every kind."""
    from fedmpi.data.sources.roles import write_roles
    from fedmpi.data.store import write_store

    folder = home()
    batches = cifar_batches(IMAGES)
    windows = {"anna": windows_of("a stone is a stone " * 9), "bert": windows_of("and sand is sand, " * 8)}
    leaf_folder(folder / "leaf", windows, windows)
    clients = [("stones", "ANNA", "x" * 900), ("stones", "BERT", "yz" * 400), ("sand", "DORA", "no " * 300)]
    write_roles(folder / "text.h5", clients, CREATED)
    images = {f"{part}_{what}": value for part in ("train", "test") for what, value in
              (("images", np.zeros((90, 3, 32, 32), "u1")), ("labels", np.arange(90, dtype="u1") % 10))}  # fmt: skip
    write_store(folder / "images.h5", "images", images, CREATED)
    plays = {"stones": CAPITALS_PLAY, "sand": TITLED_PLAY, "long": long_play("LONG", 3, 5)}
    numbers = io.BytesIO()
    np.save(numbers, np.array([1.0, 2.0, 5.0]))
    files = {
        "leaf": next((folder / "leaf" / "train").iterdir()).read_bytes(),
        "gutenberg": WORKS.encode(),
        "shakespeare": shakespeare_archive(folder / "s.tgz", plays).read_bytes(),
        "play": CAPITALS_PLAY.encode(),
        "cifar10": tar_gz(folder / "c.tgz", {f"b/{k}.bin": v.tobytes() for k, v in batches.items()}).read_bytes(),
        "npm": npm_package(folder / "n.tgz", batches).read_bytes(),
        "trace": TRACE.encode(),
        "importance": b"0.2, 0.3\n0.5\n",
        "numbers": numbers.getvalue(),
        "text": (folder / "text.h5").read_bytes(),
        "images": (folder / "images.h5").read_bytes(),
        "bomb": gzip.compress(bytes(1 << 22)),
        "batch": batches["data_batch_1"].tobytes(),
    }
    shutil.rmtree(folder)
    return files


def attempt(number: int, seed: int, folder: Path) -> None:
    """Make dataset file `number` and import it or read it."""
    rng = Random(f"dataset {seed} {number}")
    with mock.patch.dict(os.environ, {"FEDMPI_CACHE": str(folder / "cache")}):
        KINDS[number % len(KINDS)](rng, folder)
    outside = [path for path in folder.iterdir() if path.name not in ("cache", "in")]
    assert not outside, f"written outside the cache: {outside}"


def given(folder: Path, name: str, content: bytes) -> Path:
    """A file of that content in the folder of inputs."""
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def injured(rng: Random, kind: str) -> bytes:
    """The valid file of that kind with damage; an archive also inside its compression, where it does more."""
    content = seeds()[kind]
    if kind in ("shakespeare", "cifar10", "npm") and rng.random() < 0.7:
        inside = damaged(rng, rearchived(rng, content) if rng.random() < 0.4 else gzip.decompress(content))
        return gzip.compress(inside, 1)
    return damaged(rng, content, tuple(seeds().values()))


def rearchived(rng: Random, content: bytes) -> bytes:
    """The tar with another member in it, of any type, name and size."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as before, tarfile.open(fileobj=out, mode="w") as after:
        members = [(member, before.extractfile(member).read()) for member in before]  # type: ignore[union-attr]
        new = tarfile.TarInfo(
            rng.choice(("../up", "/etc/x", "a" * 300, "b/data_batch_1.bin", "é\n", "x:y", "a/../../b"))
        )
        new.type = rng.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE,
                               tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.CONTTYPE))  # fmt: skip
        new.linkname = rng.choice(("/etc/passwd", "..", ""))
        new.pax_headers = rng.choice(
            ({}, {"path": "../x"}, {"size": "-1"}, {"size": "9" * 30}, {"GNU.sparse.map": "0,x"})
        )
        members.insert(rng.randrange(len(members) + 1), (new, b""))
        for member, data in members:
            after.addfile(member, io.BytesIO(data))
    return out.getvalue()


def leaf(rng: Random, folder: Path) -> None:
    """JSON with damage to its bytes or its values."""
    from fedmpi.data.sources.leaf import import_leaf

    for part in ("train", "test"):
        content = seeds()["leaf"]
        if rng.random() < 0.5:
            tree = json.loads(content)
            misplace(rng, tree)
            content = json.dumps(tree).encode()
        elif rng.random() < 0.9:
            content = injured(rng, "leaf")
        given(folder, f"{part}/all.json", content)
    read_text(import_leaf(folder / "in"), rng, "leaf")


STRANGE: tuple[Any, ...] = (
    None,
    0,
    -1,
    10**40,
    "",
    "x",
    "\ud800",
    "a" * 81,
    [],
    {},
    [[]],
    ["x"] * 81,
    True,
    1e999,
    {"x": 1},
    [None],
)


def misplace(rng: Random, tree: Any) -> None:
    """Somewhere in the tree, another value, or a key more or less."""
    here = tree
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else range(len(here))
        key = rng.choice(keys)
        if rng.random() < 0.3 or not isinstance(here[key], dict | list) or not here[key]:
            if isinstance(here, dict) and rng.random() < 0.3:
                here[rng.choice(("", "x" * 3000, "\ud800", "../up"))] = here.pop(key)
            else:
                here[key] = rng.choice(STRANGE)
            return
        here = here[key]


def gutenberg(rng: Random, folder: Path) -> None:
    from fedmpi.data.sources.gutenberg import import_gutenberg

    read_text(import_gutenberg(given(folder, "works.txt", injured(rng, "gutenberg"))), rng, "gutenberg")


def plays(rng: Random, folder: Path) -> None:
    """The archive of plays, as if its sha256 were right; or a play alone."""
    if rng.random() < 0.5:
        shakespeare.parse_play(injured(rng, "play").decode("utf-8", "replace"))
        return
    path = given(folder, "s.tgz", injured(rng, "shakespeare"))
    with mock.patch.object(shakespeare, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest()):
        read_text(shakespeare.get_shakespeare(path), rng, "shakespeare")


def cifar(rng: Random, folder: Path, npm: bool) -> None:
    """The official archive or the npm package, as if whatever is in it had the official sums."""
    content = injured(rng, "npm" if npm else "cifar10")
    path = given(folder, "c.tgz", content)
    with small_cifar(hashlib.sha256(content).hexdigest() if npm else ""):
        read_images(cifar10.import_cifar10(path), rng)


def batches(rng: Random, folder: Path) -> None:
    """The six files in a folder."""
    for name in cifar10.MD5:
        given(folder, f"batches/{name}.bin", seeds()["batch"] if rng.random() < 0.8 else injured(rng, "batch"))
    with small_cifar(""):
        read_images(cifar10.import_cifar10(folder / "in" / "batches"), rng)


@contextlib.contextmanager
def small_cifar(npm_sum: str) -> Any:
    class AnySum(dict):  # type: ignore[type-arg]
        """The official names with sums that are always right."""

        def __getitem__(self, name: str) -> Any:
            return Anything()

    class Anything:
        def __ne__(self, other: object) -> bool:
            return False

    with mock.patch.multiple(cifar10, IMAGES=IMAGES, MD5=AnySum(cifar10.MD5), NPM_SHA256=npm_sum, MOST_BYTES=1 << 24):
        yield


def store(rng: Random, folder: Path, kind: str) -> None:
    """A file of the cache with damage to its bytes or its objects."""
    name = "shakespeare" if kind == "text" else "cifar10"
    path = folder / "cache" / f"{name}.h5"
    path.parent.mkdir(exist_ok=True)
    if rng.random() < 0.5:
        path.write_bytes(seeds()[kind])
        with contextlib.suppress(*CANNOT), h5py.File(path, "r+", libver="latest") as file:
            change_store(rng, file)
    else:
        path.write_bytes(damaged(rng, seeds()[kind], (seeds()["text"], seeds()["images"])))
    if kind == "text":
        read_text(path, rng, name)
    else:
        read_images(path, rng)


def change_store(rng: Random, file: h5py.File) -> None:
    name = rng.choice(list(file))
    before = file[name]
    what = rng.randrange(5)
    if what == 0:
        file.attrs[rng.choice(list(file.attrs))] = rng.choice(("x", 1, np.bytes_(b"2.0"), np.bytes_(b"images"), [1, 2]))
    elif what == 1:
        rows = before[()]
        rows.reshape(-1)[rng.randrange(rows.size)] = np.array(rng.choice(INTEGERS)).astype(rows.dtype)
        before[()] = rows
    elif what == 2:
        del file[name]
    elif what == 3:
        shape = rng.choice((before.shape, (0,), (3,), (10**15,), (2, 2), ()))
        kind, chunks = rng.choice((before.dtype, dtype(rng))), rng.choice((None, True))
        del file[name]
        file.create_dataset(name, shape=shape, dtype=kind, chunks=chunks)
    else:
        del file[name]
        file[name] = rng.choice(
            (h5py.SoftLink("/text"), h5py.ExternalLink("/etc/passwd", "x"), h5py.SoftLink(f"/{name}"))
        )


def read_text(path: Path, rng: Random, name: str) -> None:
    """What a run does with a cached text: sizes, clients, batches, evaluation, and the line of `fedmpi data list`."""
    from fedmpi.cli.data import line

    assert path.is_file()
    line(name)
    partition = rng.choice(("natural", "natural", "iid", "dirichlet", "shard"))
    use_clients(Config.from_toml("", {"data.name": name, "data.n": 2, "data.partition": partition, "data.samples": 50}))


def read_images(path: Path, rng: Random) -> None:
    from fedmpi.cli.data import line

    assert path.is_file()
    line("cifar10")
    partition = rng.choice(("paper", "iid", "dirichlet", "shard"))
    use_clients(
        Config.from_toml("", {"data.name": "cifar10", "data.n": 2, "data.partition": partition, "data.samples": 10})
    )


def use_clients(config: Config) -> None:
    from fedmpi.data import importances_of, load_dataset

    dataset = load_dataset(config)
    importances_of(config)
    for i in range(len(dataset.n_samples)):
        client = dataset.client(i)
        dataset.name(i)
        client.batch(4, np.random.default_rng(0))
        for part in (client.training(5), client.testing(5)):
            for _ in part:
                pass


def trace(rng: Random, folder: Path) -> None:
    """A CSV file of links."""
    from fedmpi.network.links import Links

    path = given(folder, "trace.csv", injured(rng, "trace"))
    config = Config.from_toml("", {"network.trace": str(path)})
    Links(config.network, rng.choice((1, 3))).of(np.array([0]))


def importance(rng: Random, folder: Path) -> None:
    """A file of importances, for [sampling] and for `fedmpi theory`."""
    from fedmpi.cli.theory import importances as of_theory
    from fedmpi.data import importances

    kind = rng.choice(("numbers", "importance", "importance"))
    path = given(folder, "p.npy" if kind == "numbers" else "p.txt", injured(rng, kind))
    if rng.random() < 0.5:
        of_theory(str(path), 3, 0)
    else:
        importances(Config.from_toml("", {"sampling.importance": f"file:{path}", "data.n": 3}), np.ones(3, np.int64))


KINDS: tuple[Callable[[Random, Path], None], ...] = (
    leaf, gutenberg, plays, partial(cifar, npm=False), partial(cifar, npm=True), batches, partial(store, kind="text"),
    partial(store, kind="images"), trace, importance,
)  # fmt: skip
