"""What the server needs before the first round, with everything that can be wrong found here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import Host
from fedmpi.comm.placement import static_placement
from fedmpi.comm.world import World, library_version
from fedmpi.config import Config
from fedmpi.data import Dataset, importances, load_dataset
from fedmpi.errors import ConfigError, FedmpiError
from fedmpi.job.round_log import Books
from fedmpi.job.start import Earlier
from fedmpi.models import make_model
from fedmpi.models.device import AUTO, CPU
from fedmpi.native import native_available
from fedmpi.network import VirtualNetwork
from fedmpi.record import (
    Checkpoint,
    EarlierRun,
    Lock,
    RecordWriter,
    find_earlier_run,
    refuse_existing,
    remove_checkpoint,
)
from fedmpi.sampling import SCHEMES, Scheme, make_scheme


class Cast:
    """Who plays in a job: data, schemes, θ⁰ and the clients' host, all as configured. `replay` has another cast."""

    def dataset(self, config: Config) -> Dataset:
        return load_dataset(config)

    def scheme(self, config: Config, dataset: Dataset) -> Scheme:
        return configured_scheme(config, dataset)

    def theta(self, config: Config) -> NDArray[np.float32]:
        here = config.replace({"client.device": CPU}) if config.client.device == AUTO else config
        theta: NDArray[np.float32] = make_model(here).theta.cpu().numpy().copy()
        return theta

    def host(self, config: Config, dataset: Dataset) -> Host:
        return Host(config, dataset)

    def home(self, schemes: Sequence[Scheme], workers: Sequence[int]) -> NDArray[np.int32]:
        """Which rank hosts which client: (n,) int32."""
        return static_placement(np.mean([scheme.inclusion() for scheme in schemes], axis=0), workers)


AS_CONFIGURED = Cast()


@dataclass(frozen=True)
class Part:
    """One of a job's runs before its first round: its scheme, θ⁰, books, and where it goes on if it is resumed."""

    config: Config
    scheme: Scheme
    theta: NDArray[np.float32]
    books: Books
    lock: Lock
    resumed: bool = False
    start: Checkpoint | None = None


# The attribute of a record that says whether loops in C had a part in it. Those of 0.1.0 have none, and had none.
COMPILED = "compiled_loops"


@dataclass(frozen=True)
class Plan:
    """What a job is to do: records to write, fresh or to be resumed, and what to say about them. With both `force`
    and `resume`, what can be resumed is, and the rest is replaced."""

    configs: Sequence[Config]
    paths: Sequence[Path]
    force: bool = False
    resume: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    cast: Cast = AS_CONFIGURED

    def earlier(self) -> Earlier | None:
        """How what is to go on was computed; None if nothing is, or nothing that can: `prepare` says why."""
        for path, config in zip(self.paths, self.configs, strict=True):
            with suppress(FedmpiError):
                if past := self.past(path, config):
                    with past.record as record:
                        return Earlier(record.config.client.threads, record.attributes.get(COMPILED) == "yes")
        return None

    def past(self, path: Path, config: Config) -> EarlierRun | None:
        """What there is to go on with at `path`."""
        if not self.resume:
            return None
        try:
            return find_earlier_run(path, config)
        except FedmpiError:
            if self.force:
                return None
            raise


@dataclass(frozen=True)
class Setup:
    """What the server knows before the first round."""

    dataset: Dataset
    home: NDArray[np.int32]
    parts: list[Part]


def prepare(plan: Plan, hosts: list[str], devices: list[str], world: World) -> Setup:
    """Everything that can be wrong with a job before it starts, found on rank 0 before other ranks do work."""
    check_combination(plan.configs[0])
    with ExitStack() as undone_if_wrong:
        locks = []
        for path in plan.paths:
            locks.append(Lock(path))
            undone_if_wrong.callback(locks[-1].release)
        setup = make_setup(plan, hosts, devices, world, locks)
        undone_if_wrong.pop_all()
    return setup


def make_setup(plan: Plan, hosts: list[str], devices: list[str], world: World, locks: list[Lock]) -> Setup:
    config, cast = plan.configs[0], plan.cast
    pasts = [plan.past(path, each) for path, each in zip(plan.paths, plan.configs, strict=True)]
    for path, past in zip(plan.paths, pasts, strict=True):
        if not past:
            refuse_existing(path, plan.force)
    dataset = cast.dataset(config)
    workers = world.workers(config.server.hosts_clients)
    schemes = [cast.scheme(each, dataset) for each in plan.configs]
    thetas = [cast.theta(each) for each in plan.configs]
    home = cast.home(schemes, workers)
    common = {
        "/clients/n_samples": dataset.n_samples,
        "/clients/rank": home,
        "/clients/name": [dataset.name(i).encode() for i in range(len(home))],
    }
    facts = {
        "mpi_library": library_version(),
        "mpi_size": len(hosts),
        "hosts": sorted(set(hosts)),
        "devices": sorted(set(devices) - {""}),
        COMPILED: "yes" if native_available() else "no",
        **plan.attributes,
    }
    parts = []
    for number, (each, path, past) in enumerate(zip(plan.configs, plan.paths, pasts, strict=True)):
        scheme, theta = schemes[number], thetas[number]
        size = max(len(hosts), past.size if past else 0)
        contents = {**common, "/clients/p": scheme.p, "/model/theta": theta}
        contents |= {"/ranks/host": padded(hosts, size), "/ranks/device": padded(devices, size)}
        record = past.record if past else None
        sizes = {"n": len(home), "d": len(theta), "size": size}
        network = VirtualNetwork(each.network, len(home)) if each.network.enabled else None
        writer = RecordWriter(path, each, sizes, contents, facts, plan.force, record)
        books = Books(writer, len(hosts), network, record)
        if past:
            past.record.close()
        else:
            remove_checkpoint(path)
        start = starting_point(past, scheme, len(theta), each)
        parts.append(Part(each, scheme, theta, books, locks[number], past is not None, start))
    return Setup(dataset, home, parts)


def check_combination(config: Config) -> None:
    if config.comm.placement == "dynamic" and config.comm.down != "bcast":
        raise ConfigError(
            f"comm.down = '{config.comm.down}': with comm.placement = 'dynamic' any worker may train any client, so θ "
            "must go to all of them; use 'bcast'"
        )
    if config.comm.placement == "dynamic" and config.comm.compression == "topk":
        raise ConfigError(
            "comm.placement = 'dynamic': what `topk` has not sent yet stays with the worker that trained the client; "
            "use 'static', or another comm.compression"
        )
    if config.run.on_rank_failure == "continue" and config.comm.compression == "topk":
        raise ConfigError(
            'run.on_rank_failure = "continue": what `topk` has not sent yet is lost with its worker; use "stop" and '
            "resume, or another comm.compression"
        )


def padded(texts: list[str], size: int) -> list[bytes]:
    """Texts of the ranks there are, and nothing for those that only an earlier job had."""
    return [text.encode() for text in texts] + [b""] * (size - len(texts))


def starting_point(past: EarlierRun | None, scheme: Scheme, d: int, config: Config) -> Checkpoint | None:
    """The checkpoint to go on from, if it has all that this run remembers; without one it starts from θ⁰."""
    found = past.checkpoint if past else None
    if found is None or len(found.theta) != d or set(found.scheme) != set(scheme.state()):
        return None
    return found if config.comm.compression != "topk" or found.left else None


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
