"""What the model recommends: how many workers help, which exchange is faster, and what limits a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedmpi.scale.machine import Machine
from fedmpi.scale.model import JobShape, handling, predict

# A round that is longer by less than this fraction counts as equally short, since workers cost money.
EQUAL = 0.02
# Every number of workers up to this is tried; beyond it, steps of 1 %.
EVERY = 1024


@dataclass(frozen=True)
class Saturation:
    """The fewest workers with which a round is as short as it gets, its seconds there, and what limits it."""

    exchange: str
    workers: int
    seconds: float
    limit: str


@dataclass(frozen=True)
class ServerLoad:
    """The server's work under `per-client`, and how many workers it can serve before updates queue.

    link_serves is the number that its link alone could serve; None if the link is infinitely fast.
    """

    receive: float  # seconds per update
    add: float  # seconds per update
    round: float  # seconds for all updates of a round
    serves: int
    link_serves: int | None


def counts(most: int) -> Iterator[int]:
    """The numbers of workers to try: 1, 2, 3, …, and `most`."""
    W = 1
    while most > W:
        yield W
        W += max(1, W // 100) if W >= EVERY else 1
    yield most


def saturation(machine: Machine, job: JobShape) -> Saturation:
    """The number of workers beyond which more do not help; at most N, since a worker without a client is idle."""
    seconds = {W: predict(machine, replace(job, workers=W)).total for W in counts(job.m)}
    shortest = min(seconds.values())
    W = next(W for W, each in seconds.items() if each <= (1 + EQUAL) * shortest)
    return Saturation(job.exchange, W, seconds[W], limit(machine, replace(job, workers=W)))


def limit(machine: Machine, job: JobShape) -> str:
    """What takes most of a round's time, in words."""
    phases, b, rates = predict(machine, job), job.theta_bytes, machine.at(job.theta_bytes)
    parts = {
        "training": phases.wait,
        "sending θ": phases.down,
        "what a round takes with no data at all": phases.fixed,
        "the server's passes over θ": b * rates.step,
    }
    if job.exchange == "reduced":
        adding = machine.own_update + b * rates.own_add
        own = adding / max(1e-300, job.compute + adding)
        parts["training"] = phases.wait * (1 - own)
        parts["the workers' adding"] = phases.wait * own
        parts["the reduction"] = phases.up
    else:
        messages = job.m * handling(machine, job)
        parts["the server's handling of messages"] = messages
        parts["the server's link"] = phases.up - messages
        parts["the server's adding"] = job.m * b * rates.add
    return max(parts, key=lambda name: parts[name])


def server_load(machine: Machine, job: JobShape) -> ServerLoad:
    """What the server does with the updates of a round under `per-client`.

    It serves κ/s workers, where s is its time per update: more of them send faster than it receives and adds. Its link
    alone would serve κ/(b G), if every worker is on another node.
    """
    phases = predict(machine, replace(job, exchange="per-client", compute=0.0))
    rates = machine.at(job.theta_bytes)
    each = (phases.up + phases.aggregate - job.theta_bytes * rates.step) / job.m
    add = job.theta_bytes * rates.add
    return ServerLoad(
        receive=each - add,
        add=add,
        round=job.m * each,
        serves=int(job.compute / each) if each > 0 else job.workers,
        link_serves=int(job.compute / (job.theta_bytes * machine.link)) if machine.link else None,
    )


def crossover(machine: Machine, job: JobShape) -> int | None:
    """The number of workers from which on `reduced` is faster, up to job.workers; None if it is not faster there.

    Where N is no multiple of W the two times may cross more than once; this is the last crossing.
    """
    found = None
    for W in reversed(list(counts(job.workers))):
        here = replace(job, workers=W)
        if total(machine, here, "reduced") >= total(machine, here, "per-client"):
            break
        found = W
    return found


def total(machine: Machine, job: JobShape, exchange: str) -> float:
    """The seconds of a round of this job with that exchange."""
    return predict(machine, replace(job, exchange=exchange)).total


def choose_exchange(machine: Machine, job: JobShape) -> str:
    """Which exchange to choose for this job and why, in one or two sentences."""
    per_client, reduced = (total(machine, job, exchange) for exchange in ("per-client", "reduced"))
    if reduced >= per_client:
        return (
            f"Choose per-client: at W = {job.workers} it is as fast as reduced or faster, and every update is measured "
            "on its own."
        )
    if per_client <= 1.1 * reduced:
        return (
            f"Choose per-client unless every second counts: at W = {job.workers} reduced is only "
            f"{1 - reduced / per_client:.0%} faster, and does not measure single updates."
        )
    why = limit(machine, replace(job, exchange="per-client"))
    return (
        f"Choose reduced: at W = {job.workers} a round is {per_client / reduced:.1f} times as fast; under per-client "
        f"the most time goes to {why}. Keep per-client if single updates are what you measure."
    )
