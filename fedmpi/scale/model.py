"""The cost model: seconds per round, phase by phase, from a machine's parameters, in the style of LogGP.

The job: a server and W workers, R ranks on each of K = ⌈(W+1)/R⌉ nodes with c cores; N = m clients per round, |θ| = b
bytes, κ seconds of training per client. Of the workers, near = min(W, R−1) share the server's node; the others are far.

Cores are shared: CPU time is divided by the number of cores, not of ranks. On one node r receiving ranks copy in
r/min(c, r) turns; of k ranks that compute, P = min(k, Σ_nodes min(c, R)) run at a time.

Fixed     F + f W, and F' + f' W more under `reduced`
Down      bcast: ⌈log₂ K⌉ (L + 2o + b G) + b B r/min(c, r), with r = the most receiving ranks on a node
          p2p:   L + W' o + b (G far' + B near'), over the W' = min(W, N) workers that have a client
Wait      training: w = κ max(⌈N/W⌉, N/P) altogether, with P of min(W, N) ranks.
          per-client: the server handles one update after the other, in s = u + v x + b (G or C) + b A each, from the
          first one on. It is done after max(w/⌈N/W⌉ + N s, w + s N'), where N' = N − W (⌈N/W⌉ − 1) clients train in
          the last turn; it waits for the part of this that is not N s.
          reduced: the workers add too: w = (κ + u' + b A') max(⌈N/W⌉, N/P)
Up        per-client: N (u + v x) + b (G N_far + C N_near), N_far = N far/W: the server's link carries every update;
          x = max(0, min(R, W+1) − c): the ranks on the server's node that exceed its cores slow it down by polling
          reduced: sums are 2 b bytes: ⌈log₂ K⌉ (L + 2o + 2 b (G + R)) + 2 b R r/min(c, r)
Aggregate b S, and N b A under `per-client`: adding does not overlap with receiving

C, B, A, A', R and S depend on the size of θ: a vector that does not fit into a cache costs more per byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedmpi.errors import ConfigError
from fedmpi.scale.machine import Machine

EXCHANGES = ("per-client", "reduced")
DOWNS = ("bcast", "p2p", "p2p-per-client")


@dataclass(frozen=True)
class JobShape:
    """The job whose rounds are predicted: W, m, |θ| in bytes, comm.exchange, comm.down, R, κ in seconds per client."""

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
    def most_ranks(self) -> int:
        """Ranks on the fullest node, the server's."""
        return min(self.ranks_per_node, self.workers + 1)

    @property
    def near(self) -> int:
        """Workers on the server's node."""
        return min(self.workers, self.ranks_per_node - 1)

    @property
    def busy_workers(self) -> int:
        """Workers that train at least one client."""
        return min(self.workers, self.m)

    @property
    def turns(self) -> int:
        """Clients that the busiest worker trains, one after the other: ⌈N/W⌉."""
        return -(-self.m // self.workers)


@dataclass(frozen=True)
class Phases:
    """Seconds of one round in each phase, as in a record; `fixed` is what a round takes with no data at all."""

    fixed: float
    down: float
    wait: float
    up: float
    aggregate: float

    @property
    def total(self) -> float:
        return self.fixed + self.down + self.wait + self.up + self.aggregate


def predict(machine: Machine, job: JobShape) -> Phases:
    """The seconds of one round in each phase, without evaluation."""
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


def shared_turns(machine: Machine, job: JobShape) -> float:
    """The training time of a round in units of one client's: ⌈N/W⌉, or N/P where the workers share P cores."""
    at_once = min(job.busy_workers, job.nodes * min(machine.cores, job.ranks_per_node))
    return max(job.turns, job.m / at_once)


def node_turns(machine: Machine, job: JobShape) -> float:
    """The time for r ranks of a node to copy a vector each, in units of one copy: r/min(c, r)."""
    # On several nodes the fullest one has no server, so all its ranks receive.
    receiving = job.near if job.nodes == 1 else min(job.workers, job.ranks_per_node)
    return receiving / min(machine.cores, receiving) if receiving > 1 else float(job.nodes == 1)


def levels(job: JobShape) -> int:
    """The depth of a binomial tree over the nodes: ⌈log₂ K⌉."""
    return (job.nodes - 1).bit_length()


def down_seconds(machine: Machine, job: JobShape) -> float:
    """The time until every worker that needs θ has it."""
    b, rates = job.theta_bytes, machine.at(job.theta_bytes)
    if job.down == "bcast":
        hop = machine.latency + 2 * machine.overhead + b * machine.link
        return levels(job) * hop + b * rates.spread * node_turns(machine, job)
    messages = job.busy_workers if job.down == "p2p" else job.m
    near = messages * job.near / job.workers
    far = messages - near
    latency = machine.latency if far else 0.0
    return latency + messages * machine.overhead + b * (near * rates.spread + far * machine.link)


def arrivals_seconds(machine: Machine, job: JobShape) -> float:
    """The server's time for receiving all updates of a round, without adding them; they share its link."""
    near = job.m * job.near / job.workers
    far = job.m - near
    latency = machine.latency if far else 0.0
    b, rates = job.theta_bytes, machine.at(job.theta_bytes)
    return latency + job.m * handling(machine, job) + b * (near * rates.copy + far * machine.link)


def handling(machine: Machine, job: JobShape) -> float:
    """u + v x: the server's seconds for one update, however small."""
    return machine.update + machine.crowding * max(0, job.most_ranks - machine.cores)


def reduce_seconds(machine: Machine, job: JobShape) -> float:
    """The time to add up the ranks' sums along the tree."""
    sums, combine = 2 * job.theta_bytes, machine.at(job.theta_bytes).combine
    hop = machine.latency + 2 * machine.overhead + sums * (machine.link + combine)
    return levels(job) * hop + sums * combine * node_turns(machine, job)
