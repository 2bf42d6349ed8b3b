"""One run on all ranks: set it up, give every rank its role, and end it whole whatever happens."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedmpi.books import Books, Outcome
from fedmpi.client import Host
from fedmpi.comm.placement import static_placement
from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import World, connect, library_version
from fedmpi.config import Config
from fedmpi.data import Dataset, importances, load_dataset
from fedmpi.errors import ConfigError, FedmpiError
from fedmpi.federation import Federation, work
from fedmpi.models import make_model
from fedmpi.record import RecordWriter
from fedmpi.sampling import SCHEMES, Scheme, make_scheme


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    force: bool = False,
    debug: bool = False,
    on_round: Callable[[Outcome], None] = lambda outcome: None,
    world: World | None = None,
) -> Path:
    """**Collective.** The path of the record of one run of `config`.

    In one process, or under mpirun with every rank calling it; rank 0's config counts. `out` defaults to
    `<run.name>.h5`. `on_round` is called on rank 0 after each round.
    """
    world = world or connect()
    config = Config.from_toml(world.first(config.to_toml))
    path = Path(out or f"{config.run.name}.h5")
    if not world.is_server:
        take_part(world, config, debug)
    else:
        lead(world, config, path, force, debug, on_round)
    return path


@dataclass(frozen=True)
class Setup:
    """What the server knows before the first round."""

    dataset: Dataset
    scheme: Scheme
    home: NDArray[np.int32]
    theta: NDArray[np.float32]
    record: RecordWriter


def lead(
    world: World,
    config: Config,
    path: Path,
    force: bool,
    debug: bool,
    on_round: Callable[[Outcome], None],
) -> None:
    """Be the server."""
    torch.set_num_threads(config.client.threads)
    workers = world.workers(config.server.hosts_clients)
    hosts = world.gather_text(platform.node())
    with world.leading():
        setup = prepare(config, path, force, hosts, workers)
    books = Books(setup.record, world.size)
    federation = None
    try:
        world.share(setup.home)
        host = Host(config, setup.dataset) if 0 in workers else None
        link = ServerLink(world, setup.home, workers, len(setup.theta), config.comm.exchange, host)
        federation = Federation(config, world, setup.scheme, setup.theta, link, books, on_round)
        federation.run()
        close(books, federation)
    except BaseException as error:
        sentence = describe(error)
        close(books, federation, sentence)
        if world.size > 1:
            say(sentence, debug)
            world.abort(getattr(error, "exit_code", 1))
        raise


def take_part(world: World, config: Config, debug: bool) -> None:
    """Be a worker."""
    world.gather_text(platform.node())
    world.follow()
    try:
        dataset = load_dataset(config)
        home = np.empty(len(dataset.n_samples), np.int32)
        world.share(home)
        mine = np.flatnonzero(home == world.rank).tolist()
        host = Host(config, dataset)
        work(host, WorkerLink(world, len(host.theta), config.comm.exchange), mine)
    except BaseException as error:
        if debug:
            traceback.print_exc()
        world.report_failure(f"rank {world.rank}, {describe(error)}")


def prepare(config: Config, path: Path, force: bool, hosts: list[str], workers: list[int]) -> Setup:
    """Everything that can be wrong with a run before it starts, found on rank 0 before other ranks do work."""
    dataset = load_dataset(config)
    p = importances(config, dataset.n_samples)
    sizes = dataset.n_samples if config.sampling.importance == "ratio" else None
    scheme = configured_scheme(config, p, sizes)
    theta = make_model(config).theta.cpu().numpy().copy()
    home = static_placement(scheme.inclusion(), workers)
    devices = [config.client.device if rank in workers else "" for rank in range(len(hosts))]
    contents = {
        "/clients/n_samples": dataset.n_samples,
        "/clients/p": p,
        "/clients/rank": home,
        "/clients/name": [dataset.name(i).encode() for i in range(len(p))],
        "/ranks/host": [host.encode() for host in hosts],
        "/ranks/device": [device.encode() for device in devices],
        "/model/theta": theta,
    }
    attributes = {
        "mpi_library": library_version(),
        "mpi_size": len(hosts),
        "hosts": sorted(set(hosts)),
        "devices": sorted(set(devices) - {""}),
    }
    shape = {"n": len(p), "d": len(theta), "size": len(hosts)}
    return Setup(dataset, scheme, home, theta, RecordWriter(path, config, shape, contents, attributes, force))


def configured_scheme(config: Config, p: NDArray[np.float64], sizes: NDArray[np.int64] | None) -> Scheme:
    """The scheme of [sampling], with those of its keys that it knows."""
    sampling = config.sampling
    known = SCHEMES[sampling.scheme].options if sampling.scheme in SCHEMES else ()
    options = {name: getattr(sampling, name) for name in known}
    if options.get("d") == 0:
        del options["d"]
    scheme = make_scheme(sampling.scheme, p=p, m=sampling.m, sizes=sizes, **options, **sampling.options)
    if scheme.observes and config.comm.exchange != "per-client":
        raise ConfigError(
            f"comm.exchange = '{config.comm.exchange}': scheme '{sampling.scheme}' looks at every client's update; "
            "use 'per-client'"
        )
    return scheme


def close(books: Books, federation: Federation | None, failure: str = "") -> None:
    """Write what is known and close the record, with the reason if the run failed."""
    books.write()
    if federation is not None:
        books.record.write_theta(federation.theta, federation.t)
    books.record.close(failure)


def describe(error: BaseException) -> str:
    """An error in one sentence."""
    return str(error) if isinstance(error, FedmpiError) else f"{type(error).__name__}: {error}"


def say(sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(f"fedmpi: {sentence}", file=sys.stderr, flush=True)
