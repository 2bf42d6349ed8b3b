"""The runs whose θ must keep its bits, each small enough for a fraction of a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedmpi.sampling import SCHEMES

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A preset, and the settings that differ from it.

    products: torch's matrix products or convolutions take part, whose last bits depend on the CPU's kind. Without
    them, torch works on one entry at a time, and the rest is fedmpi's own arithmetic.
    environment: variables that only a process of its own can be given.
    """

    preset: str
    settings: Settings
    products: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def but(self, settings: Settings, **environment: str) -> Case:
        """The same case with some settings changed, and variables of the environment added."""
        return Case(self.preset, {**self.settings, **settings}, self.products, {**self.environment, **environment})

    @property
    def weights_from_updates(self) -> bool:
        """Whether ω is computed from norms of updates: their last bits depend on the order of a sum."""
        return str(self.settings.get("sampling.scheme", "")).startswith("optimal")

    @property
    def compiled(self) -> bool:
        """Whether θ's last bits depend on fedmpi's loops in C: an LSTM's do, where it may use them."""
        return self.preset == "demo" and self.environment.get("FEDMPI_NATIVE") != "0"


# 1501 entries are more than one chunk of `int8`, and no vector register's length divides them. With m = 3 most weights
# are no binary fractions, so that the rounding of every product ω_i Δ_i shows.
QUADRATIC = Case(
    "quadratic",
    {
        "run.T": 5,
        "run.seed": 3,
        "data.n": 12,
        "data.dim": 1501,
        "client.K": 4,
        "sampling.m": 3,
        "eval.every": 0,
    },
)
LSTM = Case(
    "demo",
    {
        "run.T": 2,
        "run.seed": 3,
        "data.n": 6,
        "data.samples": 60,
        "model.hidden": 24,
        "client.K": 2,
        "client.B": 8,
        "sampling.m": 3,
        "eval.every": 0,
    },
)
CNN = Case(
    "cifar10",
    {
        "run.T": 2,
        "run.seed": 3,
        "data.n": 6,
        "data.partition": "dirichlet",
        "data.alpha": 1.0,
        "data.samples": 16,
        "data.spread": 0.3,
        "client.K": 2,
        "client.B": 8,
        "sampling.m": 2,
        "eval.every": 0,
    },
    products=True,
)

CASES = {
    "quadratic": QUADRATIC,
    "quadratic/eta_g": QUADRATIC.but({"server.eta_g": 0.7}),
    "quadratic/mu": QUADRATIC.but({"client.mu": 0.3}),
    "quadratic/decay": QUADRATIC.but({"client.decay": 0.9}),
    "quadratic/dirichlet importances": QUADRATIC.but({"sampling.importance": "dirichlet:0.7"}),
    "quadratic/float16": QUADRATIC.but({"comm.compression": "float16"}),
    "quadratic/bfloat16": QUADRATIC.but({"comm.compression": "bfloat16"}),
    "quadratic/int8": QUADRATIC.but({"comm.compression": "int8"}),
    "quadratic/topk": QUADRATIC.but({"comm.compression": "topk", "comm.topk": 0.1}),
    **{f"scheme/{name}": QUADRATIC.but({"sampling.scheme": name}) for name in SCHEMES},
    "scheme/clustered, equal p": QUADRATIC.but({"sampling.scheme": "clustered", "sampling.importance": "uniform"}),
    "scheme/clustered-similarity, l1": QUADRATIC.but(
        {"sampling.scheme": "clustered-similarity", "sampling.distance": "l1", "sampling.recluster_every": 2}
    ),
    "scheme/clustered-similarity, cosine": QUADRATIC.but(
        {"sampling.scheme": "clustered-similarity", "sampling.distance": "cosine"}
    ),
    # With m = 8 of 12, some are drawn with certainty: only there do `optimal` and its approximation differ.
    "scheme/optimal, m=8": QUADRATIC.but({"sampling.scheme": "optimal", "sampling.m": 8}),
    "scheme/optimal-approx, m=8": QUADRATIC.but(
        {"sampling.scheme": "optimal-approx", "sampling.m": 8, "sampling.iterations": 1}
    ),
    "scheme/power-of-choice, d=9": QUADRATIC.but({"sampling.scheme": "power-of-choice", "sampling.d": 9}),
    "lstm": LSTM,
    "lstm/mu": LSTM.but({"client.mu": 0.3}),
    "lstm/without compiled loops": replace(LSTM.but({}, FEDMPI_NATIVE="0"), products=True),
    "cnn": CNN,
    "cnn/shards": CNN.but({"data.partition": "shard"}),
}

# Settings that must not change θ: (case, settings) by what they are about.
SAME = {
    "the exchange `reduced`": ("quadratic", {"comm.exchange": "reduced"}),
    "`reduced` with int8": ("quadratic/int8", {"comm.exchange": "reduced"}),
    "`reduced` with topk": ("quadratic/topk", {"comm.exchange": "reduced"}),
    "`reduced` with optimal": ("scheme/optimal", {"comm.exchange": "reduced"}),
    "checkpoints and evaluations": ("quadratic", {"run.checkpoint_every": 2, "eval.every": 1, "record.theta_every": 1}),
    "a virtual network": ("quadratic", {"network.enabled": True, "network.up_spread": 1.0}),
    "evaluations of an LSTM": ("lstm", {"eval.every": 1}),
}
# The same under mpirun, by number of ranks.
SAME_ON_RANKS = {
    "3 ranks, each Δ_i a message, topk": (3, "quadratic/topk", {}),
    "3 ranks, reduced, p2p": (3, "quadratic", {"comm.exchange": "reduced", "comm.down": "p2p"}),
    "3 ranks, dynamic placement, LSTM": (3, "lstm", {"comm.placement": "dynamic"}),
}
