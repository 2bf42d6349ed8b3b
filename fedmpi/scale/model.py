"""The cost model: seconds per round, phase by phase, from a machine's parameters (in the manner of LogGP).

The job: a server and W workers, R ranks on each of K = ⌈(W+1)/R⌉ nodes with c cores; N = m clients per round, |θ| = b
bytes, κ seconds of training per client. Of the workers, near = min(W, R−1) share the server's node; the others are far.

Cores are shared: what costs CPU is divided by the cores there are, not by the ranks. On one node r receiving ranks copy
in r/min(c, r) turns; k ranks with work of their own run min(k, Σ_nodes min(c, R)) at a time, which is P below.

Fixed     F + f W, and F' + f' W more under `reduced`
Down      bcast: ⌈log₂ K⌉ (L + 2o + b G) + b B r/min(c, r), with r = the most receiving ranks on a node
          p2p:   L + W' o + b (G far' + B near'), over the W' = min(W, N) workers that have a client
Wait      training: w = κ max(⌈N/W⌉, N/P) altogether, with P of min(W, N) ranks.
          per-client: the server works s = u + v x + b (G or C) + b A per update, one after the other, from the first
          one on; it ends after max(w/⌈N/W⌉ + N s, w + s N'), with N' = N − W (⌈N/W⌉ − 1), the clients of the last turn.
          What of that is not N s is waiting.
          reduced: the workers add too: w = (κ + u' + b A') max(⌈N/W⌉, N/P)
Up        per-client: N (u + v x) + b (G N_far + C N_near), N_far = N far/W: the server's link carries every update;
          x = max(0, min(R, W+1) − c): ranks that wait for the server also take its cores, if these are too few
          reduced: sums are 2 b bytes: ⌈log₂ K⌉ (L + 2o + 2 b (G + R)) + 2 b R r/min(c, r)
Aggregate b S, and N b A under `per-client`: adding does not overlap with receiving

C, B, A, A', R and S are those at the size of θ: what does not fit into a cache costs more per byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedmpi.errors import ConfigError
from fedmpi.scale.machine import Machine

EXCHANGES = ("per-client", "reduced")
DOWNS = ("bcast", "p2p", "p2p-per-client")


@dataclass(frozen=True)
class Job:
    """What is to be run: W, m, |θ| in bytes, comm.exchange, comm.down, R, and κ in seconds per client."""

    workers: int
    m: int
    theta_bytes: int
    exchange: str = "per-client"
    down: str = "bcast"
    ranks_per_node: int = 1
    compute: float = 0.0

    def __post_init__(self) -> None:
        for name in ("workers", "m", "theta_bytes", "ranks_per_node"):
            if not 1 <= getattr(self, name) <= 2**60:
                raise ConfigError(f"{name} = {getattr(self, name)}: must be at least 1")
        if self.exchange not in EXCHANGES or self.down not in DOWNS:
            raise ConfigError(f"exchange = {self.exchange!r}, down = {self.down!r}: must be of {EXCHANGES}, of {DOWNS}")
        if not 0 <= self.compute < math.inf:
            raise ConfigError(f"compute = {self.compute} seconds per client: must be at least 0")

    @property
    def nodes(self) -> int:
        return -(-(self.workers + 1) // self.ranks_per_node)

    @property
    def near(self) -> int:
        """Workers on the server's node."""
        return min(self.workers, self.ranks_per_node - 1)

    @property
    def called(self) -> int:
        """Workers that have a client."""
        return min(self.workers, self.m)

    @property
    def turns(self) -> int:
        """Clients that the busiest worker trains, one after the other: ⌈N/W⌉."""
        return -(-self.m // self.workers)


@dataclass(frozen=True)
class Phases:
    """Seconds of a round; the phases of a record, with what it takes besides in `fixed`."""

    fixed: float
    down: float
    wait: float
    up: float
    aggregate: float

    @property
    def total(self) -> float:
        return self.fixed + self.down + self.wait + self.up + self.aggregate


def predict(machine: Machine, job: Job) -> Phases:
    """The seconds of one round, phase by phase; evaluation is off."""
    b, rates = job.theta_bytes, machine.at(job.theta_bytes)
    fixed = machine.round + machine.worker * job.workers
    down = down_seconds(machine, job)
    step = b * rates.step
    if job.exchange == "reduced":
        fixed += machine.reduction + machine.reduction_worker * job.workers
        own = machine.own_update + b * rates.own_add
        wait = (job.compute + own) * shared_turns(machine, job)
        return Phases(fixed, down, wait, reduce_seconds(machine, job), step)
    training = job.compute * shared_turns(machine, job)
    up, adding = arrivals_seconds(machine, job), job.m * b * rates.add
    busy = up + adding
    last = job.m - job.workers * (job.turns - 1)
    ends = max(training / job.turns + busy, training + busy * last / job.m)
    return Phases(fixed, down, ends - busy, up, adding + step)


def shared_turns(machine: Machine, job: Job) -> float:
    """How many clients' time the workers need: ⌈N/W⌉, or N/P where the P cores that they run on are fewer."""
    at_once = min(job.called, job.nodes * min(machine.cores, job.ranks_per_node))
    return max(job.turns, job.m / at_once)


def node_turns(machine: Machine, job: Job) -> float:
    """How often a node's cores copy a whole vector for the r ranks there that take one: r/min(c, r)."""
    # With more nodes than the server's, some have no server.
    receiving = job.near if job.nodes == 1 else min(job.workers, job.ranks_per_node)
    return receiving / min(machine.cores, receiving) if receiving > 1 else float(job.nodes == 1)


def levels(job: Job) -> int:
    """The depth of a binomial tree over the nodes: ⌈log₂ K⌉."""
    return (job.nodes - 1).bit_length()


def down_seconds(machine: Machine, job: Job) -> float:
    b, rates = job.theta_bytes, machine.at(job.theta_bytes)
    if job.down == "bcast":
        hop = machine.latency + 2 * machine.overhead + b * machine.link
        return levels(job) * hop + b * rates.spread * node_turns(machine, job)
    messages = job.called if job.down == "p2p" else job.m
    near = messages * job.near / job.workers
    far = messages - near
    latency = machine.latency if far else 0.0
    return latency + messages * machine.overhead + b * (near * rates.spread + far * machine.link)


def arrivals_seconds(machine: Machine, job: Job) -> float:
    """What the server needs to receive all updates, apart from adding them: its link is shared by all."""
    near = job.m * job.near / job.workers
    far = job.m - near
    latency = machine.latency if far else 0.0
    b, rates = job.theta_bytes, machine.at(job.theta_bytes)
    return latency + job.m * handling(machine, job) + b * (near * rates.copy + far * machine.link)


def handling(machine: Machine, job: Job) -> float:
    """u + v x: the server's seconds for one update, however small."""
    crowd = max(0, min(job.ranks_per_node, job.workers + 1) - machine.cores)
    return machine.update + machine.crowding * crowd


def reduce_seconds(machine: Machine, job: Job) -> float:
    sums, combine = 2 * job.theta_bytes, machine.at(job.theta_bytes).combine
    hop = machine.latency + 2 * machine.overhead + sums * (machine.link + combine)
    return levels(job) * hop + sums * combine * node_turns(machine, job)
