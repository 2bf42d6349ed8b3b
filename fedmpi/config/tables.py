"""Every key of the configuration, declared once: one frozen dataclass per TOML table.

The declarations also make `fedmpi config explain` and `docs/settings.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from fedmpi.errors import ConfigError

# What a scheme is given besides sampling.options.
GIVEN = ("name", "p", "m", "sizes")


def key(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    choices: tuple[str, ...] = (),
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    pattern: str = "",
) -> Any:
    """A dataclass field that carries its own documentation and limits."""
    limits = {"meaning": meaning, "unit": unit, "choices": choices, "least": least, "above": above, "most": most}
    limits["pattern"] = pattern
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=limits)
    return field(default=default, metadata=limits)


@dataclass(frozen=True)
class RunSettings:
    name: str = key(
        "run", "name of the run, shown in reports and used for the default output file", pattern=r"\w[\w.-]{0,99}"
    )
    T: int = key(20, "number of rounds", unit="rounds", least=0)
    seed: int = key(0, "seed of θ⁰, of the draws S_t and of the clients' batches", least=0)
    checkpoint_every: int = key(
        10, "write a checkpoint so often, besides when a run ends early; 0 = only then", unit="rounds", least=0
    )
    on_rank_failure: str = key(
        "stop",
        "when a worker dies: end the run, to be resumed, or continue without it (Open MPI: mpirun --with-ft ulfm)",
        choices=("stop", "continue"),
    )


@dataclass(frozen=True)
class DataSettings:
    name: str = key(
        "quadratic",
        "federated dataset; `fedmpi data list` says how to get those that are not generated",
        choices=("quadratic", "synthetic-text", "shakespeare", "gutenberg", "leaf", "cifar10"),
    )
    n: int = key(20, "number of clients n", unit="clients", least=1, most=10**7)
    seed: int = key(0, "seed of generated data, of its split over clients and of the clients' order", least=0)
    partition: str = key(
        "natural",
        "who owns which samples: the data's own clients (natural), the paper's CIFAR-10 split (paper), equal chances"
        " (iid), Dirichlet(α) over labels or plays (dirichlet), a few shards sorted by label (shard)",
        choices=("natural", "paper", "iid", "dirichlet", "shard"),
    )
    alpha: float = key(0.1, "concentration α of the partitions `paper` and `dirichlet`; small = unlike", above=0)
    shards: int = key(2, "shards per client, for the partition `shard`", unit="shards", least=1, most=10**6)
    samples: int = key(
        400,
        "mean number of training samples per client: of generated data and of the partitions `iid` and `dirichlet`",
        unit="samples",
        least=1,
        most=10**9,
    )
    spread: float = key(
        0.0, "standard deviation of the logarithm of the clients' sizes n_i; 0 makes them equal", least=0, most=4
    )
    heterogeneity: float = key(
        0.5, "how much clients differ, 0 to 1: of their minima (quadratic) or their language (text)", least=0, most=1
    )
    dim: int = key(20, "dimension of θ, for `quadratic`", least=1, most=10**9)


@dataclass(frozen=True)
class ModelSettings:
    name: str = key("quadratic", "model the clients train", choices=("quadratic", "lstm", "cnn"))
    embedding: int = key(8, "width of the character embedding, for `lstm`", least=1, most=10**5)
    hidden: int = key(100, "hidden units of each LSTM layer, for `lstm`", least=1, most=10**5)
    layers: int = key(2, "number of LSTM layers, for `lstm`", least=1, most=1000)
    dropout: float = key(0.2, "share of activations dropped while training, for `cnn`", least=0, most=0.95)


@dataclass(frozen=True)
class ClientSettings:
    K: int = key(10, "local SGD steps per round", unit="steps", least=1, most=10**7)
    B: int = key(64, "batch size; a client with fewer samples uses all of them", unit="samples", least=1)
    eta_l: float = key(0.1, "local learning rate η_l", above=0)
    mu: float = key(0.0, "FedProx coefficient μ: a step follows g + μ (θ_i − θᵗ)", least=0)
    decay: float = key(1.0, "factor on η_l per round: η_l decayᵗ", above=0, most=1)
    device: str = key(
        "cpu",
        "torch device the clients train on: cpu, cuda, cuda:1, …; auto: each worker a GPU of its node, or the CPU",
    )
    threads: int = key(
        1,
        "torch threads per rank; θ is the same bits only at the same number; 0: as many as Slurm gives a rank"
        " (--cpus-per-task), or as every host has cores for, and recorded",
        least=0,
        most=1024,
    )


@dataclass(frozen=True)
class ServerSettings:
    eta_g: float = key(1.0, "server learning rate η_g", above=0)
    hosts_clients: bool = key(False, "let rank 0 train clients too when there are other ranks")
    on_nonfinite: str = key(
        "stop", "what to do with an update that is not finite: end the run, or leave it out", choices=("stop", "skip")
    )


@dataclass(frozen=True)
class SamplingSettings:
    scheme: str = key("md", "sampling scheme (see `fedmpi schemes`), or `package.module:Class` of your own")
    m: int = key(
        10, "number of clients to draw (expected, for the schemes that vary it)", unit="clients", least=1, most=10**7
    )
    importance: Any = key(
        "ratio",
        'importances p: "ratio" (n_i/M), "uniform" (1/n), "dirichlet:ALPHA" (drawn by data.seed), "heavy:P" (P for '
        'client 0), "file:PATH" (numbers, divided by their sum) or a list of n numbers that sum to 1',
    )
    distance: str = key("l2", "between updates, for `clustered-similarity`", choices=("l1", "l2", "cosine"))
    recluster_every: int = key(1, "cluster anew so often, for `clustered-similarity`", unit="rounds", least=1)
    iterations: int = key(4, "most rounds of two scalars, for `optimal-approx`", least=0)
    d: int = key(0, "candidates per round, for `power-of-choice`; 0 = 2m", unit="clients", least=0, most=10**7)
    options: dict[str, Any] = key({}, "keyword arguments for a scheme of your own")

    def __post_init__(self) -> None:
        for name in self.options:
            if name in GIVEN or name in {declared.name for declared in fields(self)}:
                raise ConfigError(f"sampling.options.{name}: is not an option, since every scheme is given it anyway")


@dataclass(frozen=True)
class CommSettings:
    exchange: str = key(
        "per-client",
        "how updates come back: each Δ_i as its own message, or one Reduce of ω_i Δ_i per round",
        choices=("per-client", "reduced"),
    )
    down: str = key(
        "bcast",
        "how θ goes down: one broadcast to all workers, one message to each worker with a drawn client, or one "
        "message per drawn client",
        choices=("bcast", "p2p", "p2p-per-client"),
    )
    placement: str = key(
        "static",
        "who trains a drawn client: the rank that is its home, or any worker that is free, where all can read the data",
        choices=("static", "dynamic"),
    )
    sync_every: int = key(20, "compare the ranks' clocks every so many rounds", unit="rounds", least=1)
    overlap: bool = key(True, "let an update travel while the worker trains its next client (per-client)")
    compression: str = key(
        "none",
        "what a client does to its update before it uploads it; `topk` keeps what it does not send for the client's"
        " next upload",
        choices=("none", "float16", "bfloat16", "int8", "topk"),
    )
    topk: float = key(0.01, "share of an update's entries that `topk` sends", above=0, most=1)
    timeout: float = key(
        120.0,
        "a worker that gives no sign of life for so long counts as dead; more than one SGD step and the loading of data"
        " may take",
        unit="s",
        least=2,
    )


@dataclass(frozen=True)
class NetworkSettings:
    enabled: bool = key(False, "say in the record how long each round would take in a federation with these links")
    latency: float = key(0.05, "one way, client to server: median over clients", unit="s", least=0)
    down: float = key(20e6, "bandwidth of a client's downlink: median over clients", unit="bit/s", above=0)
    up: float = key(5e6, "bandwidth of a client's uplink: median over clients", unit="bit/s", above=0)
    speed: float = key(1.0, "a client's speed of training, relative to this machine: median over clients", above=0)
    latency_spread: float = key(0.0, "standard deviation of ln latency over clients; 0 = all equal", least=0, most=4)
    down_spread: float = key(0.0, "standard deviation of ln down over clients; 0 = all equal", least=0, most=4)
    up_spread: float = key(0.0, "standard deviation of ln up over clients; 0 = all equal", least=0, most=4)
    speed_spread: float = key(0.0, "standard deviation of ln speed over clients; 0 = all equal", least=0, most=4)
    trace: str = key("", "CSV file with columns client, latency, down, up, speed, in place of medians and spreads")
    server_down: float = key(
        0.0, "what the server can send, shared by the clients of a round; 0 = no limit", unit="bit/s", least=0
    )
    server_up: float = key(
        0.0, "what the server can receive, shared by the clients of a round; 0 = no limit", unit="bit/s", least=0
    )
    seed: int = key(0, "seed of the clients' links and speeds", least=0)


@dataclass(frozen=True)
class EvalSettings:
    every: int = key(1, "evaluate θᵗ every so many rounds, and at the end; 0 = never", unit="rounds", least=0)
    max_samples: int = key(0, "most samples per client in an evaluation; 0 = all", unit="samples", least=0)


@dataclass(frozen=True)
class RecordSettings:
    theta_every: int = key(0, "keep θᵗ in /model/history every so many rounds; 0 = never", unit="rounds", least=0)
    per_client: bool = key(False, "also keep every client's loss and accuracy at each evaluation")


@dataclass(frozen=True)
class SweepSettings:
    cases: tuple[tuple[int, int], ...] = key((), "pairs [n, m] of a sweep; empty = data.n and sampling.m alone")
    importances: tuple[str, ...] = key((), "values of sampling.importance in a sweep; empty = that one alone")
    alphas: tuple[float, ...] = key((), "values of data.alpha in a sweep; empty = that one alone")
    schemes: tuple[str, ...] = key((), "schemes of a sweep, run in pairs; empty = sampling.scheme alone")
    seeds: int = key(1, "seeds of a sweep: run.seed, run.seed + 1, …", least=1, most=10**6)
