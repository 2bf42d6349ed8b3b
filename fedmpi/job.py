"""A job on all ranks: set it up, give every rank its role, and end it whole whatever happens."""

from __future__ import annotations

import platform
import sys
import traceback
from collections.abc import Callable, Sequence
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
from fedmpi.network import VirtualNetwork
from fedmpi.record import RecordWriter, refuse_existing
from fedmpi.sampling import SCHEMES, Scheme, make_scheme

OnRound = Callable[[Outcome], None]


class Cast:
    """Who plays in a job: data, schemes, θ⁰ and the clients' host, all as configured. `replay` has another cast."""

    def dataset(self, config: Config) -> Dataset:
        return load_dataset(config)

    def scheme(self, config: Config, dataset: Dataset) -> Scheme:
        return configured_scheme(config, dataset)

    def theta(self, config: Config) -> NDArray[np.float32]:
        theta: NDArray[np.float32] = make_model(config).theta.cpu().numpy().copy()
        return theta

    def host(self, config: Config, dataset: Dataset) -> Host:
        return Host(config, dataset)

    def home(self, schemes: Sequence[Scheme], workers: Sequence[int]) -> NDArray[np.int32]:
        """Which rank hosts which client: (n,) int32."""
        return static_placement(np.mean([scheme.inclusion() for scheme in schemes], axis=0), workers)


AS_CONFIGURED = Cast()


def silent(outcome: Outcome) -> None:
    """The default of `on_round`."""


def run(
    config: Config,
    out: str | Path | None = None,
    *,
    force: bool = False,
    debug: bool = False,
    on_round: OnRound = silent,
    world: World | None = None,
) -> Path:
    """**Collective.** The path of the record of one run of `config`.

    In one process, or under mpirun with every rank calling it; rank 0's config counts. `out` defaults to
    `<run.name>.h5`. `on_round` is called on rank 0 after each round.
    """
    world = world or connect()
    config = Config.from_toml(world.first(config.to_toml))
    path = Path(out or f"{config.run.name}.h5")
    together([config], [path], world, force=force, debug=debug, on_round=on_round)
    return path


def together(
    configs: Sequence[Config],
    paths: Sequence[Path],
    world: World,
    *,
    force: bool = False,
    debug: bool = False,
    on_round: OnRound = silent,
    attributes: dict[str, str] | None = None,
    cast: Cast = AS_CONFIGURED,
) -> None:
    """**Collective.** Run several configurations in one job, their rounds interleaved, each into its own record.

    They may differ in run.name, run.seed and [sampling] only: clients, data and model are the same for all.
    """
    if not world.is_server:
        take_part(world, configs[0], debug, cast)
        return
    torch.set_num_threads(configs[0].client.threads)
    hosts = world.gather_text(platform.node())
    with world.leading():
        setup = prepare(configs, paths, force, hosts, world, attributes or {}, cast)
    lead(setup, configs, world, debug, on_round, cast)


@dataclass(frozen=True)
class Setup:
    """What the server knows before the first round: what all runs share, and each one's scheme, θ⁰ and books."""

    dataset: Dataset
    home: NDArray[np.int32]
    schemes: list[Scheme]
    thetas: list[NDArray[np.float32]]
    books: list[Books]


def lead(setup: Setup, configs: Sequence[Config], world: World, debug: bool, on_round: OnRound, cast: Cast) -> None:
    """Be the server."""
    runs: list[Federation] = []
    try:
        world.share(setup.home)
        config, workers = configs[0], world.workers(configs[0].server.hosts_clients)
        host = cast.host(config, setup.dataset) if 0 in workers else None
        link = ServerLink(world, setup.home, workers, len(setup.thetas[0]), config.comm, host)
        parts = zip(configs, setup.schemes, setup.thetas, setup.books, strict=True)
        for number, (config, scheme, theta, books) in enumerate(parts):
            runs.append(Federation(config, world, scheme, theta, link, books, on_round, number))
            runs[-1].begin()
        for t in range(config.run.T):
            for federation in runs:
                federation.round(t)
        offsets = link.compare_clocks()
        for books in setup.books:
            books.write_clocks(offsets)
        link.stop()
        close(setup, runs)
    except BaseException as error:
        sentence = describe(error)
        close(setup, runs, sentence)
        if world.size > 1:
            if debug:
                traceback.print_exc()
            print(f"fedmpi: {sentence}", file=sys.stderr, flush=True)
            world.abort(getattr(error, "exit_code", 1))
        raise


def take_part(world: World, config: Config, debug: bool, cast: Cast) -> None:
    """Be a worker."""
    world.gather_text(platform.node())
    world.follow()
    try:
        dataset = cast.dataset(config)
        home = np.empty(len(dataset.n_samples), np.int32)
        world.share(home)
        mine = np.flatnonzero(home == world.rank).tolist()
        host = cast.host(config, dataset)
        work(host, WorkerLink(world, len(host.theta), config.comm), mine)
    except BaseException as error:
        if debug:
            traceback.print_exc()
        world.report_failure(f"rank {world.rank}, {describe(error)}")


def prepare(
    configs: Sequence[Config],
    paths: Sequence[Path],
    force: bool,
    hosts: list[str],
    world: World,
    attributes: dict[str, str],
    cast: Cast,
) -> Setup:
    """Everything that can be wrong with a job before it starts, found on rank 0 before other ranks do work."""
    for path in paths:
        refuse_existing(path, force)
    dataset = cast.dataset(configs[0])
    workers = world.workers(configs[0].server.hosts_clients)
    schemes = [cast.scheme(config, dataset) for config in configs]
    thetas = [cast.theta(config) for config in configs]
    home = cast.home(schemes, workers)
    devices = [configs[0].client.device if rank in workers else "" for rank in range(len(hosts))]
    contents = {
        "/clients/n_samples": dataset.n_samples,
        "/clients/rank": home,
        "/clients/name": [dataset.name(i).encode() for i in range(len(home))],
        "/ranks/host": [host.encode() for host in hosts],
        "/ranks/device": [device.encode() for device in devices],
    }
    facts = {
        "mpi_library": library_version(),
        "mpi_size": len(hosts),
        "hosts": sorted(set(hosts)),
        "devices": sorted(set(devices) - {""}),
        **attributes,
    }
    sizes = {"n": len(home), "d": len(thetas[0]), "size": len(hosts)}
    books = []
    for config, path, scheme, theta in zip(configs, paths, schemes, thetas, strict=True):
        own = {**contents, "/clients/p": scheme.p, "/model/theta": theta}
        network = VirtualNetwork(config.network, len(home)) if config.network.enabled else None
        books.append(Books(RecordWriter(path, config, sizes, own, facts, force), len(hosts), network))
    return Setup(dataset, home, schemes, thetas, books)


def configured_scheme(config: Config, dataset: Dataset) -> Scheme:
    """The scheme of [sampling], with those of its keys that it knows."""
    sampling = config.sampling
    p = importances(config, dataset.n_samples)
    sizes = dataset.n_samples if sampling.importance == "ratio" else None
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


def close(setup: Setup, runs: Sequence[Federation], failure: str = "") -> None:
    """Write what is known and close the records, with the reason if the job failed."""
    for k, books in enumerate(setup.books):
        books.write()
        if k < len(runs):
            books.record.write_theta(runs[k].theta, runs[k].t)
        books.record.close(failure)


def describe(error: BaseException) -> str:
    """An error in one sentence."""
    return str(error) if isinstance(error, FedmpiError) else f"{type(error).__name__}: {error}"
