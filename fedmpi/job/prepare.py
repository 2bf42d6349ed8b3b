"""Preparing a job on the server: everything that can be wrong before the first round is found here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedmpi.client import LocalClients
from fedmpi.comm.exchanges import EXCHANGES
from fedmpi.comm.placement import static_placement
from fedmpi.comm.world import World, library_version
from fedmpi.compression import make_codec
from fedmpi.config import CommSettings, Config
from fedmpi.data import Dataset, importances, load_dataset
from fedmpi.errors import ConfigError, FedmpiError
from fedmpi.job.devices import EarlierSettings
from fedmpi.job.round_log import RoundLog
from fedmpi.models import make_model
from fedmpi.models.device import AUTO, CPU
from fedmpi.native import VERSION, native_available
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


class Components:
    """The parts of a job, made as configured: data, schemes, θ⁰ and clients. `replay` and no-op rounds have others."""

    def dataset(self, config: Config) -> Dataset:
        return load_dataset(config)

    def scheme(self, config: Config, dataset: Dataset) -> Scheme:
        return configured_scheme(config, dataset)

    def theta(self, config: Config) -> NDArray[np.float32]:
        here = config.replace({"client.device": CPU}) if config.client.device == AUTO else config
        theta: NDArray[np.float32] = make_model(here).theta.cpu().numpy().copy()
        return theta

    def clients(self, config: Config, dataset: Dataset) -> LocalClients:
        return LocalClients(config, dataset)

    def home(self, schemes: Sequence[Scheme], workers: Sequence[int]) -> NDArray[np.int32]:
        """The rank that is home to each client: (n,) int32."""
        return static_placement(np.mean([scheme.inclusion() for scheme in schemes], axis=0), workers)


AS_CONFIGURED = Components()


@dataclass(frozen=True)
class RunState:
    """One of a job's runs before its first round: its scheme, θ⁰, log, and the checkpoint that it continues from."""

    config: Config
    scheme: Scheme
    theta: NDArray[np.float32]
    log: RoundLog
    lock: Lock
    resumed: bool = False
    start: Checkpoint | None = None


# The attribute of a record that says whether compiled loops were used. Records of 0.1.0 lack it, and used none.
COMPILED = "compiled_loops"
# The attribute with the version of their arithmetic: another one gives other last bits. Those of 0.2.0 lack it.
LOOPS = "loops_version"


@dataclass(frozen=True)
class JobSpec:
    """What a job is to do: the runs, the records to write or resume, and attributes for them. With both `force` and
    `resume`, what can be resumed is, and the rest is replaced."""

    configs: Sequence[Config]
    paths: Sequence[Path]
    force: bool = False
    resume: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    components: Components = AS_CONFIGURED

    def earlier_settings(self) -> EarlierSettings | None:
        """Settings of the rounds that are to be continued; None if there are none, or none that can be: `prepare` says
        why."""
        for path, config in zip(self.paths, self.configs, strict=True):
            with suppress(FedmpiError):
                if earlier := self.earlier_run(path, config):
                    with earlier.record as record:
                        facts = record.attributes
                        same = int(facts.get(LOOPS, 0)) == VERSION
                        return EarlierSettings(record.config.client.threads, facts.get(COMPILED) == "yes", same)
        return None

    def earlier_run(self, path: Path, config: Config) -> EarlierRun | None:
        """The run at `path` that is to be continued, if there is one."""
        if not self.resume:
            return None
        try:
            return find_earlier_run(path, config)
        except FedmpiError:
            if self.force:
                return None
            raise


@dataclass(frozen=True)
class PreparedJob:
    """What the server has before the first round."""

    dataset: Dataset
    home: NDArray[np.int32]
    runs: list[RunState]


def prepare(spec: JobSpec, hosts: list[str], devices: list[str], world: World) -> PreparedJob:
    """The job, checked and with its records open, on rank 0 before other ranks do any work."""
    check_combination(spec.configs[0])
    with ExitStack() as undone_on_error:
        locks = []
        for path in spec.paths:
            locks.append(Lock(path))
            undone_on_error.callback(locks[-1].release)
        job = open_records(spec, hosts, devices, world, locks)
        undone_on_error.pop_all()
    return job


def open_records(spec: JobSpec, hosts: list[str], devices: list[str], world: World, locks: list[Lock]) -> PreparedJob:
    """Make the parts of every run, and create or take over its record."""
    config, components = spec.configs[0], spec.components
    pasts = [spec.earlier_run(path, each) for path, each in zip(spec.paths, spec.configs, strict=True)]
    for path, earlier in zip(spec.paths, pasts, strict=True):
        if not earlier:
            refuse_existing(path, spec.force)
    dataset = components.dataset(config)
    workers = world.workers(config.server.hosts_clients)
    schemes = [components.scheme(each, dataset) for each in spec.configs]
    thetas = [components.theta(each) for each in spec.configs]
    home = components.home(schemes, workers)
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
        LOOPS: VERSION,
        **spec.attributes,
    }
    runs = []
    for number, (each, path, earlier) in enumerate(zip(spec.configs, spec.paths, pasts, strict=True)):
        scheme, theta = schemes[number], thetas[number]
        size = max(len(hosts), earlier.size if earlier else 0)
        contents = {**common, "/clients/p": scheme.p, "/model/theta": theta}
        contents |= {"/ranks/host": padded(hosts, size), "/ranks/device": padded(devices, size)}
        record = earlier.record if earlier else None
        sizes = {"n": len(home), "d": len(theta), "size": size}
        network = VirtualNetwork(each.network, len(home)) if each.network.enabled else None
        writer = RecordWriter(path, each, sizes, contents, facts, spec.force, record)
        log = RoundLog(writer, len(hosts), network, record)
        if earlier:
            earlier.record.close()
        else:
            remove_checkpoint(path)
        start = starting_point(earlier, scheme, len(theta), each)
        runs.append(RunState(each, scheme, theta, log, locks[number], earlier is not None, start))
    return PreparedJob(dataset, home, runs)


def check_combination(config: Config) -> None:
    if config.comm.placement == "dynamic" and config.comm.down != "bcast":
        raise ConfigError(
            f"comm.down = '{config.comm.down}': with comm.placement = 'dynamic' any worker may train any client, so θ "
            "must go to all of them; use 'bcast'"
        )
    if config.comm.placement == "dynamic" and keeps_residuals(config.comm):
        raise ConfigError(
            f"comm.placement = 'dynamic': what '{config.comm.compression}' has not sent yet stays with the worker that "
            "trained the client; use 'static', or another comm.compression"
        )
    if config.run.on_rank_failure == "continue" and keeps_residuals(config.comm):
        raise ConfigError(
            f"run.on_rank_failure = 'continue': what '{config.comm.compression}' has not sent is lost with its worker; "
            "use 'stop' and resume, or another comm.compression"
        )


def keeps_residuals(settings: CommSettings) -> bool:
    """Whether clients keep what compression has left out of their updates."""
    codec = make_codec(settings, 1)
    return codec is not None and codec.feedback


def padded(texts: list[str], size: int) -> list[bytes]:
    """Texts of the present ranks, and empty ones for ranks that only an earlier job had."""
    return [text.encode() for text in texts] + [b""] * (size - len(texts))


def starting_point(earlier: EarlierRun | None, scheme: Scheme, d: int, config: Config) -> Checkpoint | None:
    """The checkpoint to continue from, if it has all the state that this run needs; without one it starts from θ⁰."""
    found = earlier.checkpoint if earlier else None
    if found is None or len(found.theta) != d or set(found.scheme) != set(scheme.state()):
        return None
    return found if not keeps_residuals(config.comm) or found.residuals else None


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
    if scheme.observes and not EXCHANGES[config.comm.exchange].individual:
        raise ConfigError(
            f"comm.exchange = '{config.comm.exchange}': scheme '{sampling.scheme}' observes every client's update; use "
            + " or ".join(f"'{name}'" for name, exchange in EXCHANGES.items() if exchange.individual)
        )
    return scheme
