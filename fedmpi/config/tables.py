"""Every key of the configuration, declared once: one frozen dataclass per TOML table.

`fedmpi config explain` and `docs/settings.md` are made from these declarations. A meaning says what the key does and
what to choose when; its unit, limits and choices are given apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from fedmpi.errors import ConfigError

# Arguments that every scheme gets, and that sampling.options therefore cannot name.
RESERVED = ("name", "p", "m", "sizes")


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
    """A dataclass field with its documentation and limits. least and most are allowed values, above is not."""
    metadata = {"meaning": meaning, "unit": unit, "choices": choices, "least": least, "above": above, "most": most}
    metadata["pattern"] = pattern
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class RunSettings:
    name: str = key(
        "run", "name of the run, in reports and in the default name of the record", pattern=r"\w[\w.-]{0,99}"
    )
    T: int = key(20, "number of rounds", unit="rounds", least=0)
    seed: int = key(0, "seed of θ⁰, of the draws S_t and of the clients' batches; not of the data (data.seed)", least=0)
    checkpoint_every: int = key(
        10, "rounds between checkpoints; 0 = only when a run ends early", unit="rounds", least=0
    )
    on_rank_failure: str = key(
        "stop",
        "what to do when a worker is lost: `stop` ends the run, to be resumed from its last checkpoint; `continue` "
        "moves the worker's clients to the others and repeats the round (needs Open MPI's mpirun --with-ft ulfm)",
        choices=("stop", "continue"),
    )


@dataclass(frozen=True)
class DataSettings:
    name: str = key(
        "quadratic",
        "federated dataset. `quadratic` and `synthetic-text` are generated; `fedmpi data list` says how to get the "
        "others",
        choices=("quadratic", "synthetic-text", "shakespeare", "gutenberg", "leaf", "cifar10"),
    )
    n: int = key(20, "number of clients n", unit="clients", least=1, most=10**7)
    seed: int = key(0, "seed of generated data, of its split over the clients and of the clients' order", least=0)
    partition: str = key(
        "natural",
        "how samples are split over the clients: as the dataset has them (`natural`), as in the paper for CIFAR-10 "
        "(`paper`), at random (`iid`), by Dirichlet(α) proportions of labels or plays (`dirichlet`), or a few shards "
        "of samples sorted by label for each (`shard`)",
        choices=("natural", "paper", "iid", "dirichlet", "shard"),
    )
    alpha: float = key(
        0.1, "concentration α of the partitions `paper` and `dirichlet`; the smaller, the more clients differ", above=0
    )
    shards: int = key(2, "shards per client, for the partition `shard`", unit="shards", least=1, most=10**6)
    samples: int = key(
        400,
        "mean number of training samples per client, for generated data and the partitions `iid` and `dirichlet`",
        unit="samples",
        least=1,
        most=10**9,
    )
    spread: float = key(
        0.0, "standard deviation of ln n_i, the logarithm of a client's size; 0 = all sizes equal", least=0, most=4
    )
    heterogeneity: float = key(
        0.5,
        "how much generated clients differ, from 0 (not at all) to 1: in their minima (`quadratic`) or their language "
        "(`synthetic-text`)",
        least=0,
        most=1,
    )
    dim: int = key(20, "dimension d of θ, for `quadratic`", least=1, most=10**9)


@dataclass(frozen=True)
class ModelSettings:
    name: str = key(
        "quadratic",
        "model that the clients train: `quadratic` for quadratic data, `lstm` for text, `cnn` for CIFAR-10",
        choices=("quadratic", "lstm", "cnn"),
    )
    embedding: int = key(8, "width of the character embedding, for `lstm`", least=1, most=10**5)
    hidden: int = key(100, "hidden units of each LSTM layer, for `lstm`", least=1, most=10**5)
    layers: int = key(2, "number of LSTM layers, for `lstm`", least=1, most=1000)
    dropout: float = key(0.2, "fraction of activations dropped in training, for `cnn`", least=0, most=0.95)


@dataclass(frozen=True)
class ClientSettings:
    K: int = key(10, "local SGD steps per round", unit="steps", least=1, most=10**7)
    B: int = key(64, "batch size; a client with fewer samples uses all of them", unit="samples", least=1)
    eta_l: float = key(0.1, "local learning rate η_l", above=0)
    mu: float = key(0.0, "FedProx coefficient μ: a step follows g + μ (θ_i − θᵗ); 0 = plain SGD", least=0)
    decay: float = key(1.0, "factor on η_l per round: round t uses η_l decayᵗ; 1 = constant", above=0, most=1)
    device: str = key(
        "cpu",
        "torch device that clients train on: cpu, cuda, cuda:1, …; `auto` gives each worker a GPU of its node in turn, "
        "or the CPU where there is none",
    )
    threads: int = key(
        1,
        "torch threads per rank. θ has the same bits only for the same number of threads. 0 = as many as Slurm grants "
        "each rank (--cpus-per-task), else as the host with the fewest cores per rank has; the record says how many",
        unit="threads",
        least=0,
        most=1024,
    )


@dataclass(frozen=True)
class ServerSettings:
    eta_g: float = key(1.0, "server learning rate η_g; 1 takes the aggregated update as it is", above=0)
    hosts_clients: bool = key(
        False, "let rank 0 train clients too when there are other ranks; choose false to measure communication"
    )
    on_nonfinite: str = key(
        "stop",
        "what to do with an update that has NaN or ∞: `stop` ends the run, `skip` leaves the update out of the sum; "
        "the record notes it either way",
        choices=("stop", "skip"),
    )


@dataclass(frozen=True)
class SamplingSettings:
    scheme: str = key("md", "sampling scheme (`fedmpi schemes` lists them), or `package.module:Class` of your own")
    m: int = key(
        10,
        "number of clients to draw per round; the expected number for schemes whose number varies",
        unit="clients",
        least=1,
        most=10**7,
    )
    importance: Any = key(
        "ratio",
        'importances p: "ratio" (n_i/M, by data), "uniform" (1/n), "dirichlet:ALPHA" (drawn with data.seed), "heavy:P" '
        '(P for client 0, the rest shared equally), "file:PATH" (numbers, divided by their sum), or a list of n '
        "numbers that sum to 1",
    )
    distance: str = key(
        "l2", "distance between clients' updates, for `clustered-similarity`", choices=("l1", "l2", "cosine")
    )
    recluster_every: int = key(
        1,
        "rounds between two clusterings, for `clustered-similarity`; more saves time at large n",
        unit="rounds",
        least=1,
    )
    iterations: int = key(
        4, "most rounds of two scalars per draw, for `optimal-approx`; more come closer to `optimal`", least=0
    )
    d: int = key(
        0,
        "candidates per round, for `power-of-choice`; more prefer clients with a large loss more strongly; 0 = 2m",
        unit="clients",
        least=0,
        most=10**7,
    )
    options: dict[str, Any] = key({}, "keyword arguments for a scheme of your own")

    def __post_init__(self) -> None:
        for name in self.options:
            if name in RESERVED or name in {declared.name for declared in fields(self)}:
                raise ConfigError(f"sampling.options.{name}: is not an option, since every scheme is given it anyway")


@dataclass(frozen=True)
class CommSettings:
    exchange: str = key(
        "per-client",
        "how updates come back. `per-client`: each Δ_i as its own message as soon as it is ready, as in a real "
        "federation; choose it to measure communication. `reduced`: each rank sums its own ω_i Δ_i, and plain messages "
        "along a binomial tree add up the sums; choose it for fast rounds with many workers",
        choices=("per-client", "reduced"),
    )
    down: str = key(
        "bcast",
        "how θ goes down. `bcast`: to all workers, by plain messages along a binomial tree; the fastest for many "
        "workers. `p2p`: one message from the server to each worker that has a drawn client. `p2p-per-client`: one "
        "message per drawn client, as in a real federation",
        choices=("bcast", "p2p", "p2p-per-client"),
    )
    placement: str = key(
        "static",
        "which worker trains a drawn client: `static`, always the client's home rank; `dynamic`, any free worker, "
        "which balances clients of unequal cost but requires that every worker can read all data",
        choices=("static", "dynamic"),
    )
    sync_every: int = key(
        20, "rounds between two comparisons of the ranks' clocks; fewer where clocks drift", unit="rounds", least=1
    )
    overlap: bool = key(True, "send an update while the worker trains its next client, for the exchange `per-client`")
    compression: str = key(
        "none",
        "how a client compresses its update: to 2 bytes per entry (`float16`, `bfloat16`), to 1 (`int8`), or to its "
        "largest entries (`topk`); what `topk` leaves out is added to the client's next update",
        choices=("none", "float16", "bfloat16", "int8", "topk"),
    )
    topk: float = key(0.01, "fraction of an update's entries that `topk` sends", above=0, most=1)
    timeout: float = key(
        120.0,
        "seconds without a heartbeat after which a worker counts as dead; must exceed one SGD step and the time to "
        "load a client's data",
        unit="s",
        least=2,
    )


@dataclass(frozen=True)
class NetworkSettings:
    enabled: bool = key(
        False, "also compute and record how long each round would take in a federation with the links below"
    )
    latency: float = key(
        0.05, "one-way latency between a client and the server: median over clients", unit="s", least=0
    )
    down: float = key(20e6, "bandwidth of a client's downlink: median over clients", unit="bit/s", above=0)
    up: float = key(5e6, "bandwidth of a client's uplink: median over clients", unit="bit/s", above=0)
    speed: float = key(
        1.0, "training speed of a client relative to this machine: median over clients; 0.1 = ten times slower", above=0
    )
    latency_spread: float = key(0.0, "standard deviation of ln latency over clients; 0 = all equal", least=0, most=4)
    down_spread: float = key(0.0, "standard deviation of ln down over clients; 0 = all equal", least=0, most=4)
    up_spread: float = key(0.0, "standard deviation of ln up over clients; 0 = all equal", least=0, most=4)
    speed_spread: float = key(0.0, "standard deviation of ln speed over clients; 0 = all equal", least=0, most=4)
    trace: str = key(
        "", "CSV file with columns client, latency, down, up, speed, used instead of the medians and spreads"
    )
    server_down: float = key(
        0.0,
        "bandwidth at which the server sends, shared by the clients of a round; 0 = no limit",
        unit="bit/s",
        least=0,
    )
    server_up: float = key(
        0.0,
        "bandwidth at which the server receives, shared by the clients of a round; 0 = no limit",
        unit="bit/s",
        least=0,
    )
    seed: int = key(0, "seed of the clients' links and speeds", least=0)


@dataclass(frozen=True)
class EvalSettings:
    every: int = key(
        1,
        "rounds between evaluations of θᵗ on all clients; the last θ is always evaluated; 0 = never",
        unit="rounds",
        least=0,
    )
    max_samples: int = key(
        0, "most samples per client in an evaluation; fewer take less time; 0 = all", unit="samples", least=0
    )


@dataclass(frozen=True)
class RecordSettings:
    theta_every: int = key(
        0, "rounds between copies of θᵗ in /model/history, each of the size of θ; 0 = none", unit="rounds", least=0
    )
    per_client: bool = key(False, "also record every client's loss and accuracy at each evaluation")


@dataclass(frozen=True)
class SweepSettings:
    cases: tuple[tuple[int, int], ...] = key((), "pairs [n, m] of a sweep; empty = only data.n and sampling.m")
    importances: tuple[str, ...] = key((), "values of sampling.importance in a sweep; empty = only the one set there")
    alphas: tuple[float, ...] = key((), "values of data.alpha in a sweep; empty = only the one set there")
    schemes: tuple[str, ...] = key((), "schemes of a sweep, run paired in one job; empty = only sampling.scheme")
    seeds: int = key(1, "number of seeds in a sweep: run.seed, run.seed + 1, …", unit="seeds", least=1, most=10**6)
